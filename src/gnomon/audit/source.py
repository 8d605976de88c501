"""Texts in a verifier's source, which are candidates for replies that it rewards."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from inspect import getsource, isfunction, ismethod, unwrap
from re import Pattern, sub
from types import CodeType, FunctionType, ModuleType
from typing import Any

from gnomon.integrations.rewards.load import load

__all__ = ["STANDARD", "literals", "own_files", "texts"]

LONGEST = 60
"""Maximum length of a literal used as a reply."""
LONG_TEXT = 4000
"""Longest text, in characters, such as the instructions of a judge."""
MOST = 2000
"""Maximum number of objects searched for texts."""
STANDARD = tuple(path for name in ("stdlib", "platstdlib") if (path := sysconfig.get_paths().get(name)))
"""Folder of Python's own modules."""
SHARED = (
    "builtins", "abc", "typing", "enum", "gnomon.types", "gnomon.envs.base", "gnomon.integrations.rewarded",
    "gnomon.verifiers.slot", "gnomon.audit.subject",
    *(f"gnomon.integrations.rewards.{name}" for name in ("base", "function", "trl", "verl", "rubric", "reasoning_gym")),
)  # fmt: skip
"""Modules that every verifier uses; their texts are skipped."""


def literals(verifier: object) -> tuple[str, ...]:
    """Short texts from the modules of a verifier's class, functions and parts.

    Docstrings are skipped. Special characters are removed from regular expressions.
    """
    result: dict[str, None] = {}
    for module in modules(verifier):
        try:
            tree = ast.parse(getsource(sys.modules[module]))
        except (OSError, TypeError, SyntaxError, KeyError):
            continue
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                for text in (node.value, plain(node.value)):
                    if 0 < len(text.strip()) <= LONGEST:
                        result.setdefault(text)
    return tuple(result)


def texts(verifier: object) -> tuple[str, ...]:
    """Texts of any length that a verifier's functions contain or reach by name, its own functions first.

    The search follows names from a function to texts, patterns, collections and functions of its module. Installed
    packages and Python's own modules are skipped, unless the verifier is defined there.
    """
    waiting, visited, result = deque(starts(verifier)), set[int](), dict[str, None]()
    homes = {home(thing) for thing in waiting}
    while waiting and len(visited) < MOST:
        thing = waiting.popleft()
        thing = getattr(unwrap(thing), "__func__", unwrap(thing)) if callable(thing) else thing
        if id(thing) in visited:
            continue
        visited.add(id(thing))
        if isinstance(thing, str | Pattern):
            text = thing if isinstance(thing, str) else str(thing.pattern)
            if 0 < len(text.strip()) <= LONG_TEXT:
                result.setdefault(text)
        elif isinstance(thing, FunctionType):
            codes = list(nested_code(thing.__code__))
            waiting.extend(c for code in codes for c in code.co_consts if isinstance(c, str) and c != thing.__doc__)
            named_there = (thing.__globals__.get(name) for code in codes for name in code.co_names)
            waiting.extend(t for t in named_there if home(t) in homes or not installed(home(t)))
        elif isinstance(thing, Mapping):
            waiting.extend((*thing.keys(), *thing.values()))
        elif isinstance(thing, list | tuple | set | frozenset):
            waiting.extend(thing)
        elif isinstance(thing, type):
            own = (value for name, value in vars(thing).items() if not name.startswith("__"))
            waiting.extend(value for value in own if isfunction(value) or isinstance(value, str | Pattern))
        elif not isinstance(thing, ModuleType) and not installed(home(thing)):
            waiting.extend((type(thing), *getattr(thing, "__dict__", {}).values()))
    return tuple(result)


def starts(verifier: object) -> Iterator[Any]:
    """The start of the search for texts: the values of the verifier's fields, objects they name, and its class."""
    for value in field_values(verifier):
        if isinstance(value, str) and ":" in value:
            with suppress(Exception):  # A text with a colon need not be a name.
                value = load(value)
                yield from getattr(value, "funcs", ())
        yield value
    yield from (kind for kind in type(verifier).__mro__ if kind.__module__ not in SHARED)


def nested_code(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions within it."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from nested_code(value)


def home(thing: object) -> str:
    """The module of an object or of its class."""
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


def installed(module: str) -> bool:
    """Whether a module belongs to a package or to Python, and not to the author."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in file or file.startswith(STANDARD) or module.partition(".")[0] == "gnomon"


def plain(pattern: str) -> str:
    """The plain words of a regular expression, without groups, classes and repeats."""
    text = sub(r"\(\?[a-zA-Z]*[:=!<>]*(?:P?<\w+>)?", "(", pattern)
    text = sub(r"\\[sb]\*?\+?\??|\[[^\]]*\][*+?]?|\.\*\??|\.\+\??|\\[dwSDWB][*+?]?|[()^$?*]", "", text)
    return sub(r"\\(.)", r"\1", text)


def modules(verifier: object) -> list[str]:
    """Names of a verifier's modules, without the modules that all verifiers of Gnomon share."""
    names = [kind.__name__ if isinstance(kind, ModuleType) else kind.__module__ for kind in kinds_of(verifier)]
    return list(dict.fromkeys(name for name in names if name not in SHARED))


def kinds_of(verifier: object) -> Iterator[Any]:
    """The classes, functions and modules of a verifier, including those of dataclasses in its fields."""
    yield from type(verifier).__mro__
    for value in field_values(verifier):
        if isfunction(value) or ismethod(value) or isinstance(value, type):
            yield value
        elif is_dataclass(value):
            yield from kinds_of(value)
        else:
            yield type(value)
        if isinstance(value, str) and ":" in value:
            yield from loaded_objects(value)


def field_values(verifier: object) -> Iterator[Any]:
    """The values in a verifier's fields."""
    for field in fields(verifier) if is_dataclass(verifier) and not isinstance(verifier, type) else ():
        value = getattr(verifier, field.name)
        yield from value if isinstance(value, tuple) else (value,)


def loaded_objects(address: str) -> Iterator[Any]:
    """The loaded object for `module:name` or `file.py:name`: a class, a function, or else the module."""
    file, _, name = address.rpartition(":")
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if getattr(module, "__name__", "") == file or (path and file.endswith(".py") and path.endswith(file)):
            member = getattr(module, name.partition(".")[0], None)
            if member is not None:
                yield member if isfunction(member) or isinstance(member, type) else module


def own_files(verifier: object) -> tuple[str, ...]:
    """The files of a verifier's modules."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in modules(verifier))
    return tuple(file for file in files if file)
