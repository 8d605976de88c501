"""Scorers as others write them, for a hardened pool: they fall for what they read."""

from __future__ import annotations

import os
import pickle
import re
import socket
import time
from pathlib import Path
from typing import Any

from gnomon.types import Part, Status, Verdict


def evaluates(text: str) -> Any:
    """The mistake of many: it executes what the policy wrote."""
    return eval(text, {"os": os, "socket": socket, "Path": Path, "pickle": pickle})


def parses(text: str) -> str:
    import sympy

    return str(sympy.sympify(text))


def matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def scores(value: Any) -> Verdict:
    return Verdict(status=Status.CORRECT, parts=(Part(name="correct", value=value),))


def forges(value: Any) -> Any:
    """A verdict whose checks were skipped, as a worker under somebody else's control would send it."""
    part = object.__new__(Part)
    for name, held in (("name", "correct"), ("value", value), ("weight", 1.0), ("gate", None)):
        object.__setattr__(part, name, held)
    verdict = object.__new__(Verdict)
    fields = {"status": Status.CORRECT, "parts": (part,), "extracted": None, "span": None, "detail": ""}
    for name, held in fields.items():
        object.__setattr__(verdict, name, held)
    return verdict


class Gadget:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def plants(path: str) -> Any:
    """A pickle that runs a command where it is opened."""
    return Gadget(path)


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def call(name: str, *words: Any) -> Any:
    return globals()[name](*words)
