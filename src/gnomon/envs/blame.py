"""Find the author's source line that caused an error, in preference to lines of libraries."""

from __future__ import annotations

import difflib
import linecache
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import CodeType, FunctionType

__all__ = ["blamed_line", "describe", "line", "quote"]

HERE = str(Path(__file__).parents[1])
LIBRARIES = tuple(
    path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_paths().get(name))
)
METHODS = ("check", "verify", "play", "step", "start")
"""Methods of an environment or verifier in which its author judges replies, the innermost first."""


def line(text: str) -> str:
    """The text on one printable line, shortened."""
    plain = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:400])
    return plain if len(text) <= 400 else plain + " …"


def describe(error: BaseException) -> str:
    """Type and message of an error. For a missing attribute, also the most similar existing name."""
    described = f"{type(error).__name__}: {line(str(error))}" if str(error) else type(error).__name__
    if isinstance(error, AttributeError) and error.name is not None:
        near = difflib.get_close_matches(error.name, dir(error.obj), 1)
        described += f". Did you mean: {near[0]!r}?" if near else ""
    return described


def blamed_line(error: BaseException, subject: object) -> str:
    """`file:line in function` of an error that a subject raised while it judged.

    It is the innermost line outside Gnomon, the standard library and installed packages. If there is none, because
    Gnomon refused a returned value, it is the first line of the function that returned it. For shipped or installed
    code, it is the innermost line of the subject's own module.
    """
    frames = list(traceback.extract_tb(error.__traceback__))
    file = getattr(sys.modules.get(type(subject).__module__), "__file__", None)
    foreign_frames = [frame for frame in frames if foreign(frame.filename)]
    if foreign_frames:
        return location(foreign_frames[-1].filename, foreign_frames[-1].lineno or 0, foreign_frames[-1].name)
    for code in codes(subject):
        return location(code.co_filename, code.co_firstlineno, code.co_name)
    foreign_frames = [frame for frame in frames if frame.filename == file] or frames
    return (
        location(foreign_frames[-1].filename, foreign_frames[-1].lineno or 0, foreign_frames[-1].name)
        if foreign_frames
        else ""
    )


def foreign(file: str) -> bool:
    """Whether a file belongs to the author, and not to Gnomon or a library."""
    return not file.startswith(("<", HERE, *LIBRARIES))


def codes(subject: object) -> Iterator[CodeType]:
    """The author's judging functions: those in the fields of a subject, then its methods."""
    values = [getattr(subject, field.name, None) for field in fields(subject)] if is_dataclass(subject) else []
    for value in values:
        if isinstance(value, FunctionType):
            yield from own_code(value)
        elif is_dataclass(value):
            yield from codes(value)
    for name in METHODS:
        yield from own_code(getattr(type(subject), name, None))


def own_code(function: object) -> Iterator[CodeType]:
    """The code of a function, if it is in one of the author's files."""
    code = getattr(function, "__code__", None)
    if code is not None and foreign(code.co_filename):
        yield code


def location(file: str, number: int, name: str) -> str:
    path = Path(file)
    here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{here}:{number} in {name}"


def quote(line_address: str) -> str:
    """A place for display: with the source line, and with the cell's number in a notebook.

    Args: line_address, as `blamed_line` returns it.
    """
    spot, _, name = line_address.rpartition(" in ")
    file, _, number = spot.rpartition(":")
    if not number.isdigit():
        return line_address
    text = linecache.getline(file, int(number)).strip()
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    cell = shell.compile.format_code_name(file) if shell is not None else None
    where = f"{' '.join(cell)}, line {number}" if cell else spot
    return f"{where}, in {name}" + (f": {text}" if text else "")
