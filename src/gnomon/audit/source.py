"""Texts that stand in a verifier's source. What a verifier looks for is the first thing to say to it."""

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
"""Characters of a text such as the instructions of a judge."""
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
    """Short texts of the modules that a verifier's class, its functions and its parts come from.

    Docstrings are left out; signs that mean something in a regular expression are dropped from what holds them.
    """
    found: dict[str, None] = {}
    for module in modules(verifier):
        try:
            tree = ast.parse(getsource(sys.modules[module]))
        except (OSError, TypeError, SyntaxError, KeyError):
            continue
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                for text in (node.value, plain(node.value)):
                    if 0 < len(text.strip()) <= LONGEST:
                        found.setdefault(text)
    return tuple(found)


def texts(verifier: object) -> tuple[str, ...]:
    """Texts of any length that a verifier's functions hold or reach by name, its own functions first.

    From a function to the texts, patterns, collections and functions of its module that it names, and so on; what is
    installed as a package, or belongs to Python, is left out unless the verifier is written in it.
    """
    waiting, seen, found = deque(starts(verifier)), set[int](), dict[str, None]()
    homes = {home(thing) for thing in waiting}
    while waiting and len(seen) < MOST:
        thing = waiting.popleft()
        thing = getattr(unwrap(thing), "__func__", unwrap(thing)) if callable(thing) else thing
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, str | Pattern):
            text = thing if isinstance(thing, str) else str(thing.pattern)
            if 0 < len(text.strip()) <= LONG_TEXT:
                found.setdefault(text)
        elif isinstance(thing, FunctionType):
            codes = list(nested(thing.__code__))
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
    return tuple(found)


def starts(verifier: object) -> Iterator[Any]:
    """Where the search for texts begins: what the verifier's fields hold or name, and its own class."""
    for value in held(verifier):
        if isinstance(value, str) and ":" in value:
            with suppress(Exception):  # Not every text with a colon is a name.
                value = load(value)
                yield from getattr(value, "funcs", ())
        yield value
    yield from (kind for kind in type(verifier).__mro__ if kind.__module__ not in SHARED)


def nested(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions within it."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from nested(value)


def home(thing: object) -> str:
    """The module that a thing, or its class, comes from."""
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


def installed(module: str) -> bool:
    """Whether a module is a package's or Python's own, and not the author's. What has no file is a plain value."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in file or file.startswith(STANDARD) or module.partition(".")[0] == "gnomon"


def plain(pattern: str) -> str:
    """What a regular expression of plain words looks for: groups, classes and repeats dropped."""
    text = sub(r"\(\?[a-zA-Z]*[:=!<>]*(?:P?<\w+>)?", "(", pattern)
    text = sub(r"\\[sb]\*?\+?\??|\[[^\]]*\][*+?]?|\.\*\??|\.\+\??|\\[dwSDWB][*+?]?|[()^$?*]", "", text)
    return sub(r"\\(.)", r"\1", text)


def modules(verifier: object) -> list[str]:
    """Names of the modules that a verifier is written in, those of Gnomon's own shared pieces left out."""
    names = [kind.__name__ if isinstance(kind, ModuleType) else kind.__module__ for kind in kinds_of(verifier)]
    return list(dict.fromkeys(name for name in names if name not in SHARED))


def kinds_of(verifier: object) -> Iterator[Any]:
    """The classes, functions and modules that a verifier is made of, those of the dataclasses in its fields too."""
    yield from type(verifier).__mro__
    for value in held(verifier):
        if isfunction(value) or ismethod(value) or isinstance(value, type):
            yield value
        elif is_dataclass(value):
            yield from kinds_of(value)
        else:
            yield type(value)
        if isinstance(value, str) and ":" in value:
            yield from named(value)


def held(verifier: object) -> Iterator[Any]:
    """What the fields of a verifier hold, one by one."""
    for field in fields(verifier) if is_dataclass(verifier) and not isinstance(verifier, type) else ():
        value = getattr(verifier, field.name)
        yield from value if isinstance(value, tuple) else (value,)


def named(place: str) -> Iterator[Any]:
    """What a `module:name` or `file.py:name` leads to in loaded modules: a class, a function, or else the module."""
    file, _, name = place.rpartition(":")
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if getattr(module, "__name__", "") == file or (path and file.endswith(".py") and path.endswith(file)):
            found = getattr(module, name.partition(".")[0], None)
            if found is not None:
                yield found if isfunction(found) or isinstance(found, type) else module


def own_files(verifier: object) -> tuple[str, ...]:
    """Files of those modules."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in modules(verifier))
    return tuple(file for file in files if file)
