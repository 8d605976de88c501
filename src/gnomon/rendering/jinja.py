"""What a chat template may use: the filters, functions and blocks that transformers offers."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ["NOW", "compile_template", "jinja"]

NOW = datetime(2024, 7, 26)
"""The time that `strftime_now` formats. The current time would make two runs of one recipe differ."""


@cache
def jinja() -> ImmutableSandboxedEnvironment:
    """The environment that compiles chat templates.

    Source: `transformers.utils.chat_template_utils`.
    Differs: `strftime_now` formats `NOW`.
    """
    from jinja2 import nodes
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}`, which marks the text of the policy."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _json
    environment.globals |= {"raise_exception": refuse, "strftime_now": NOW.strftime}
    return environment


@lru_cache(maxsize=16)
def compile_template(template: str) -> Template:
    """A template that is ready to run."""
    return jinja().from_string(template)


def _json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
