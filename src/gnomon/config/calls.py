"""Fixes in the language of the caller: settings of the command line as arguments of a Python call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gnomon.config.sections import RunConfig
from gnomon.config.sources import SHORT, put, value_of
from gnomon.errors import ConfigErrors, GnomonError

__all__ = ["arguments", "fixes_in_python"]

KEY = r"[a-z_]+(?:\.\w+)*"
SETTING = re.compile(
    rf"""'(?P<quoted>{KEY})=(?P<whole>[^']*)'|(?<![\w.=-])(?P<key>{KEY})="""
    r"""(?P<value>"[^"]*"|'[^']*'|\[[^\]]*\]|\{[^}]*\}|[^\s,;()]+)"""
)
"""`key=value`, or the same in the quotes of a shell."""
COMMAND = re.compile(r"gnomon [a-z].*?(?=\s{2,}|; | shows | and |$)", re.DOTALL)
"""A command in a fix, which stays one."""
CALL = re.compile(r"\w\(")


class Placeholder(str):
    """A word such as FOLDER, which the user replaces."""

    def __repr__(self) -> str:
        return str(self)


@contextmanager
def fixes_in_python() -> Iterator[None]:
    """Errors that are raised within have fixes that can be pasted into the call."""
    try:
        yield
    except GnomonError as error:
        for each in error.errors if isinstance(error, ConfigErrors) else [error]:
            each.fix = arguments(each.fix)
        error.args = (str(error),)
        raise


def arguments(fix: str) -> str:
    """The fix with every setting as an argument: `optim.lr=0.1 group=8` is `optim={'lr': 0.1}, group=8`."""
    if CALL.search(fix):  # It is Python already.
        return fix
    spans = [match.span() for match in COMMAND.finditer(fix)]
    matches = [
        match
        for match in SETTING.finditer(fix)
        if is_setting(match["quoted"] or match["key"])
        and not (match["value"] or "").startswith("{'")  # It is an argument already.
        and not any(a <= match.start() < b for a, b in spans)
    ]
    text, end = "", 0
    while matches:
        together = [matches.pop(0)]
        while matches and fix[together[-1].end() : matches[0].start()] == " ":
            together.append(matches.pop(0))
        text += fix[end : together[0].start()] + as_arguments(together)
        end = together[-1].end()
    return text + fix[end:]


def is_setting(key: str) -> bool:
    return key in SHORT or key.partition(".")[0] in RunConfig.model_fields


def as_arguments(settings: list[re.Match[str]]) -> str:
    """Settings that stand together; those of one table are one argument."""
    values: dict[str, Any] = {}
    for match in settings:
        raw = match["value"] or match["whole"]
        bare = re.fullmatch(r"[A-Z]+(/[A-Z]+)?", raw)
        put(values, match["quoted"] or match["key"], Placeholder(raw) if bare else value_of(raw.strip("'")))
    return ", ".join(f"{key}={value!r}" for key, value in values.items())
