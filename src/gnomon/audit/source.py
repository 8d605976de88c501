"""Texts that stand in a verifier's source. What a verifier looks for is the first thing to say to it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from inspect import getsource, isfunction, ismethod
from re import sub
from typing import Any

__all__ = ["literals", "own_files"]

LONGEST = 60
"""Characters of a literal that is worth saying."""


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


def plain(pattern: str) -> str:
    """What a regular expression of plain words looks for: groups, classes and repeats dropped."""
    text = sub(r"\(\?[a-zA-Z]*[:=!<>]*(?:P?<\w+>)?", "(", pattern)
    text = sub(r"\\[sb]\*?\+?\??|\[[^\]]*\][*+?]?|\.\*\??|\.\+\??|\\[dwSDWB][*+?]?|[()^$?*]", "", text)
    return sub(r"\\(.)", r"\1", text)


def modules(verifier: object) -> list[str]:
    """Names of the modules that a verifier is written in, those of Gnomon's own shared pieces left out."""
    names = [kind.__module__ for kind in kinds_of(verifier)]
    return list(dict.fromkeys(name for name in names if name not in SHARED))


SHARED = (
    "builtins", "abc", "typing", "enum", "gnomon.types", "gnomon.envs.base", "gnomon.envs.rewarded",
    "gnomon.verifiers.slot", "gnomon.verifiers.foreign.base", "gnomon.verifiers.foreign.function",
    "gnomon.audit.subject",
)  # fmt: skip
"""Modules that every verifier stands on, whose texts say nothing of what one looks for."""


def kinds_of(verifier: object) -> Iterator[Any]:
    """The classes and functions that a verifier is made of, those of the dataclasses in its fields too."""
    yield from type(verifier).__mro__
    for field in fields(verifier) if is_dataclass(verifier) and not isinstance(verifier, type) else ():
        value = getattr(verifier, field.name)
        if isfunction(value) or ismethod(value) or isinstance(value, type):
            yield value
        elif is_dataclass(value):
            yield from kinds_of(value)
        else:
            yield type(value)
        if isinstance(value, str) and ":" in value:
            yield from named(value)


def named(place: str) -> Iterator[Any]:
    """Classes and functions that a `module:name` or `file.py:name` leads to, of modules that are loaded."""
    file, _, name = place.rpartition(":")
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if getattr(module, "__name__", "") == file or (path and file.endswith(".py") and path.endswith(file)):
            found = getattr(module, name.partition(".")[0], None)
            if found is not None and hasattr(found, "__module__"):
                yield found


def own_files(verifier: object) -> tuple[str, ...]:
    """Files of those modules."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in modules(verifier))
    return tuple(file for file in files if file)
