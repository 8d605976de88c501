"""Every setting, objective, metric and error code, read from the source for `gnomon explain` and docs/reference.md."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from gnomon import errors
from gnomon.config import SHORT, RunConfig, sections
from gnomon.config.sections import AtResume, at_resume
from gnomon.errors import ConfigError
from gnomon.metrics import EVALUATION, METRICS, TIMINGS, meaning
from gnomon.objectives.declaration import Option
from gnomon.objectives.options import OPTIONS

__all__ = ["Fault", "Setting", "explain", "faults", "settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of a recipe."""

    key: str
    short: tuple[str, ...]
    """The names without its table that may be written."""
    values: str
    """What it may be."""
    default: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One place that raises an error with a code."""

    code: str
    kind: str
    """Class of the error."""
    what: str
    """The message; `…` stands for what is only known when it is raised."""
    why: str
    fix: str


RESUMED: dict[AtResume | None, str] = {
    AtResume.CHANGE: " May change when the run is resumed.",
    AtResume.MOVE: " May change when the run is resumed, for that process only.",
}
"""The end of a setting's text."""


@cache
def settings() -> tuple[Setting, ...]:
    """Every setting but the options of objectives and environments, in the order of the configuration."""
    documented = field_docs(ast.parse(inspect.getsource(sections)))
    return tuple(
        Setting(
            key=key,
            short=tuple(word for word, whole in SHORT.items() if whole == key),
            values=values_of(field),
            default=value_text(field.default),
            text=documented.get((section, key.rpartition(".")[2]), "") + RESUMED.get(at_resume(key), ""),
        )
        for key, section, field in keys_of(RunConfig)
    )


def keys_of(section: type[BaseModel], above: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every key below a section, with the name of the section that has it and its field."""
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys_of(kind, f"{above}{name}.")
        else:
            yield f"{above}{name}", section.__name__, field


def field_docs(tree: ast.Module) -> dict[tuple[str, str], str]:
    """Docstrings below fields, by class and field."""
    return {
        (kind.name, field.target.id): " ".join(below.value.value.split())
        for kind in tree.body
        if isinstance(kind, ast.ClassDef)
        for field, below in zip(kind.body, kind.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def values_of(field: Any) -> str:
    """The type of a field with its limits: `integer ≥ 1`."""
    kind = field.annotation
    if get_origin(kind) is Literal:
        return " · ".join(get_args(kind))
    if get_origin(kind) is dict:
        return "table"
    if get_origin(kind) is list:
        inner = get_args(kind)[0]
        inner = get_args(inner)[0] if get_origin(inner) is not None or hasattr(inner, "__metadata__") else inner
        return f"list of {NAMES[inner]}s"
    signs = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
    limits = [
        f"{sign} {getattr(mark, name):g}" for mark in field.metadata for name, sign in signs if hasattr(mark, name)
    ]
    return f"{NAMES[kind]} {' and '.join(limits)}".strip()


NAMES = {int: "integer", float: "number", str: "text", bool: "boolean"}


def value_text(value: Any) -> str:
    """A default as it is written in a recipe."""
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value).replace("'", '"')


CODE = re.compile(r"[Ee]\d{3}")
RAISED = re.compile(r'Error\(\s*"E\d{3}"')


@cache
def faults() -> tuple[Fault, ...]:
    """Every place in the package that raises an error with a code, by code."""
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    root = Path(errors.__file__).parent
    result = [
        Fault(
            code=call.args[0].value,
            kind=call.func.id,
            what=wording(argument(call, 1, "what"), names),
            why=known_text(wording(argument(call, None, "why"), names)),
            fix=known_text(wording(argument(call, None, "fix"), names)),
        )
        for path in sorted(root.rglob("*.py"))
        if RAISED.search(text := path.read_text("utf-8"))
        for call, function in calls(ast.parse(text))
        if isinstance(call.func, ast.Name)
        and call.func.id in kinds
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
        for names in [assignments(function) if function else {}]
    ]
    return tuple(sorted(dict.fromkeys(result), key=lambda fault: (fault.code, fault.what)))


Names = Mapping[str, ast.expr]
"""Variables of a function to what is assigned to them."""


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.AST | None]]:
    """Every call below a node, in the order of the source, with the function that it stands in."""
    todo: list[tuple[ast.AST, ast.AST | None]] = [(tree, None)]
    while todo:
        node, function = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node
        if isinstance(node, ast.Call):
            yield node, function
        todo.extend((child, function) for child in reversed(list(ast.iter_child_nodes(node))))


@cache
def assignments(function: ast.AST) -> Names:
    """Variables of a function to what is assigned to them; of several assignments, one that says most."""
    values: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            else:
                pairs = [(target, node.value)]
        for name, value in pairs:
            if isinstance(name, ast.Name) and len(wording(value)) > len(wording(values.get(name.id))):
                values[name.id] = value
    return values


def known_text(text: str) -> str:
    """The text, or none where nothing of it is known before it is raised."""
    return text if any(map(str.isalpha, text)) else ""


def argument(call: ast.Call, position: int | None, name: str) -> ast.expr | None:
    if position is not None and len(call.args) > position:
        return call.args[position]
    return next((word.value for word in call.keywords if word.arg == name), None)


def wording(node: ast.expr | None, names: Names = MappingProxyType({})) -> str:
    """A message as the source writes it, with `…` for what is computed. Args: names: variables that it may name."""
    match node:
        case None:
            return ""
        case ast.Name(id=name) if name in names:
            return wording(names[name], {other: value for other, value in names.items() if other != name})
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(wording(part, names) for part in parts).replace("……", "…")
        case ast.IfExp(body=one, orelse=other):
            both = [text for text in (wording(one, names), wording(other, names)) if text not in ("", "…")]
            return " / ".join(both) or "…"
        case _:
            return "…"


def explain(word: str) -> str:
    """What a setting, an objective, a metric or an error code means. Raises: ConfigError E006 for no known name."""
    kinds = (explained_settings, explained_objective, explained_options, explained_metric, explained_faults)
    if lines := [line for kind in kinds for line in kind(word)]:
        return "\n".join(lines)
    options = [f"objective.{name}" for row in OPTIONS.values() for name in row.options]
    names = [*(s.key for s in settings()), *SHORT, *OPTIONS, *options, *METRICS, *(f.code for f in faults())]
    ends = {name.rpartition(".")[2]: name for name in reversed(names)}
    near = difflib.get_close_matches(word, [*names, *ends], 3)
    raise ConfigError(
        "E006",
        f"no setting, objective, metric or error code is named {word!r}",
        fix=f"gnomon explain {ends.get(near[0], near[0])}" if near else "gnomon config show lists the settings",
    )


def explained_settings(word: str) -> Iterator[str]:
    for setting in settings():
        if word in (setting.key, *setting.short) or setting.key.startswith(f"{word}."):
            yield f"{setting.key}   {setting.values}   default {setting.default}\n   {setting.text}"


def explained_objective(word: str) -> Iterator[str]:
    """A row of the table: its sentence, its source, its options."""
    if row := OPTIONS.get(word):
        yield f"{word}   objective\n   {row.summary}\n   {row.source}"
        yield from (f"   {option_line(name, option)}" for name, option in row.options.items())
        yield f"   gnomon objective {word} prints its card"


def explained_options(word: str) -> Iterator[str]:
    """An option of objectives: once for every meaning and default that it has, with the rows that have it so."""
    rows_of: dict[str, list[str]] = {}
    name = word.removeprefix("objective.")
    for row in OPTIONS.values():
        if name in row.options:
            rows_of.setdefault(option_line(f"objective.{name}", row.options[name]), []).append(row.name)
    for line, rows in rows_of.items():
        yield f"{line}\n   of {', '.join(rows)}"


def option_line(name: str, option: Option) -> str:
    return f"{name}   {option.values_in_words}   default {value_text(option.default)}   {option.text}"


PASS_AT = re.compile(r"^pass@\w+$")
"""What commands show of the records' `pass_at`."""


def explained_metric(word: str) -> Iterator[str]:
    if text := meaning(word) or EVALUATION.get(PASS_AT.sub("pass_at", word)) or TIMINGS.get(word):
        yield f"{word}   metric\n   {text}"


def explained_faults(word: str) -> Iterator[str]:
    same = [fault for fault in faults() if fault.code == word.upper()] if CODE.fullmatch(word) else []
    for fault in same:
        if known_text(fault.what) or fault.why or fault.fix or len(same) == 1:
            more = "".join(f"\n   {name}{text}" for name, text in (("", fault.why), ("fix: ", fault.fix)) if text)
            lines = f"{known_text(fault.what) or 'the message says what is wrong'}{more}".splitlines()
            yield f"{fault.code}   " + "\n".join(filter(known_text, lines))
