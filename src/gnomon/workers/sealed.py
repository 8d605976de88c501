"""Open what an untrusted worker sends: verdicts and plain values, and nothing that runs on being opened.

A pickle is a program. Here it can name no function and no class but those that state a verdict, and a verdict is
checked again, since a forged one was never checked.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from typing import Any

from gnomon.types import Part, Verdict

__all__ = ["opened"]

NAMED = {
    "gnomon.types": {"Part", "Status", "Verdict"},
    "builtins": {"bytearray", "complex", "frozenset", "set"},
}


class Sealed(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in NAMED.get(module, ()):
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return super().find_class(module, name)


def opened(payload: bytes) -> Any:
    """The value of a pickle. Raises: pickle.UnpicklingError, for one that names anything else; ValueError or
    TypeError, for a verdict that cannot be one."""
    value = Sealed(io.BytesIO(payload)).load()
    if isinstance(value, tuple):
        return tuple(checked(item) for item in value)
    return checked(value)


def checked(value: Any) -> Any:
    """A verdict built anew from its fields; any other value as it is."""
    if not isinstance(value, Verdict):
        return value
    for part in value.parts:
        if type(part) is not Part or not all(type(number) in (int, float) for number in (part.value, part.weight)):
            raise TypeError(f"{part!r} is not part of a verdict")
    return replace(value, parts=tuple(value.parts))
