"""Write src/gnomon/settings.py, the types of the settings of `gnomon.train`, from src/gnomon/config/sections.py and
src/gnomon/objectives/options.py.

    python docs/settings.py

A test holds the committed file to what this writes.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from gnomon import config
from gnomon.config import SHORT, RunConfig
from gnomon.objectives.declaration import Option
from gnomon.objectives.options import OPTIONS

FILE = Path(__file__).parents[1] / "src/gnomon/settings.py"
HEAD = '''\
"""The settings of `gnomon.train` as an editor completes them. Written by `python docs/settings.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from gnomon.engines.base import Engine
    from gnomon.learners.base import Learner
    from gnomon.objectives import Objective as Row
    from gnomon.rollout.order import Curriculum

'''
OPEN = {
    "env": "str | Mapping[str, Any]",
    "objective": "Objective | ObjectiveSettings | Row",
    "engine": "str | EngineSettings | Engine",
    "learner": "str | Learner",
    "curriculum": "str | Curriculum",
    "model": "str | Path",
    "agent": "str",
}
"""Tables with options of their own, which no one type names, and parts that may be objects."""


def text() -> str:
    """The whole file."""
    tables = dict(tables_of(RunConfig))
    names = ", ".join(
        f'"{each}"' for each in sorted(["Objective", "ObjectiveSettings", "Settings", *map(title, tables)])
    )
    parts = [HEAD, f"__all__ = [{names}]\n\n", f"Objective = Literal[{', '.join(map(repr, sorted(OPTIONS)))}]\n"]
    for name, kind in tables.items():
        parts.append(f"\n\nclass {title(name)}(TypedDict, total=False):\n" + doc(kind) + "".join(fields(kind)))
    parts += [
        "\n\nclass ObjectiveSettings(TypedDict, total=False):\n",
        '    """An objective and its options."""\n\n    type: Objective\n    """The name of a row."""\n',
        *objective_options(),
    ]
    parts.append(
        '\n\nclass Settings(TypedDict, total=False):\n    """Of a run; tables by name, and short names."""\n\n'
    )
    for name, field in RunConfig.model_fields.items():
        written = OPEN.get(name) or (f"{title(name)}" if name in tables else spelled(field.annotation))
        also = " | str | Path" if name == "policy" else ""
        parts.append(f"    {name}: {written}{also}\n" + said(RunConfig, name))
    for short, key in SHORT.items():
        if short not in RunConfig.model_fields:
            *above, leaf = key.split(".")
            kind: Any = RunConfig
            for name in above:
                kind = kind.model_fields[name].annotation
            written = OPEN.get(short) or spelled(kind.model_fields[leaf].annotation)
            parts.append(f'    {short}: {written}\n    """`{key}`."""\n')
    command = [sys.executable, "-m", "ruff", "format", "--line-length", "120", "-"]
    return subprocess.run(command, input="".join(parts), capture_output=True, text=True, check=True).stdout


def table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in (config.Env, config.Objective)


def tables_of(kind: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    """Tables by name, those within a table before it."""
    for name, field in kind.model_fields.items():
        if table(field.annotation):
            assert field.annotation is not None
            yield from tables_of(field.annotation)
            yield name, field.annotation


def title(name: str) -> str:
    return f"{name.title()}Settings"


def objective_options() -> Iterator[str]:
    """Every option of any row, with the rows that have it."""
    rows: dict[str, dict[str, Option]] = {}
    for row in OPTIONS.values():
        for name, option in row.options.items():
            rows.setdefault(name, {})[row.name] = option
    for name, found in sorted(rows.items()):
        first, option = next(iter(found.items()))
        kind = " | ".join(dict.fromkeys(map(type_of, found.values())))
        only = "" if len({each.text for each in found.values()}) == 1 else f" ({first})"
        text = f"{option.text[0].upper() if option.text[0].isascii() else option.text[0]}{option.text[1:]}{only}."
        lines = textwrap.wrap(f'"""{text} Of {", ".join(found)}."""', 114)
        yield f"    {name}: {kind}\n" + textwrap.indent("\n".join(lines), "    ") + "\n"


def type_of(option: Option) -> str:
    return f"Literal[{', '.join(map(repr, option.choices))}]" if option.choices else type(option.default).__name__


def fields(kind: type[BaseModel]) -> Iterator[str]:
    for name, field in kind.model_fields.items():
        yield f"    {name}: {spelled(field.annotation)}\n" + said(kind, name)


def spelled(kind: Any) -> str:
    """A type as it is written."""
    origin = get_origin(kind)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, get_args(kind)))}]"
    if origin in (Union, types.UnionType):
        return " | ".join("None" if part is type(None) else spelled(part) for part in get_args(kind))
    if origin is dict:
        return "Mapping[str, Any]"
    if origin is list:
        return f"list[{spelled(get_args(kind)[0])}]"
    if table(kind):
        return title(kind.__name__)
    if hasattr(kind, "__metadata__"):
        return spelled(get_args(kind)[0])
    return str(kind.__name__)


def doc(kind: type[BaseModel]) -> str:
    own = inspect.getdoc(kind) if "__doc__" in vars(kind) and kind.__doc__ else ""
    return f'    """{own}"""\n\n' if own else ""


def said(kind: type[BaseModel], name: str) -> str:
    """The text behind a field, as config.py has it."""
    tree = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(tree, ast.ClassDef)
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and isinstance(after, ast.Expr):
            return f'    """{ast.literal_eval(after.value)}"""\n'
    return ""


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
