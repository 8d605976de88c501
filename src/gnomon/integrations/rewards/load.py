"""Find an external function by name, and call it."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from gnomon.errors import VerifierError
from gnomon.import_path import add_working_folder
from gnomon.workers.serialise import module_of

__all__ = ["asked", "awaited", "load"]


@cache
def load(name: str) -> Any:
    """The object named by `package.module:name` or `path/file.py:name`, imported once per process.

    Raises: VerifierError E130 if it does not exist, E131 if its module cannot be imported.
    """
    place, colon, attribute = name.rpartition(":")
    if not colon:
        raise VerifierError(
            "E130", f"{name!r} does not name a function", fix="package.module:function or file.py:function"
        )
    module = _module(place)
    found: Any = module
    for step in attribute.split("."):
        found = getattr(found, step, None)
    if found is None:
        own = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise VerifierError("E130", f"{place} has no {attribute}", fix=f"it has {', '.join(own[:20]) or 'none'}")
    return found


def _module(place: str) -> ModuleType:
    path = Path(place)
    if place.endswith(".py") and not path.is_file():
        raise VerifierError(
            "E130", f"the file {place} does not exist", fix="give a path relative to this folder: dir/file.py:function"
        )
    add_working_folder()
    try:
        return module_of(path) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise VerifierError("E131", f"{place} cannot be imported", why=why) from error


def asked(function: Callable[..., Any], offered: dict[str, Any]) -> Any:
    """Call a function with the arguments in its signature, or with all if it takes `**kwargs`."""
    wanted = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in wanted.values()):
        return function(**offered)
    return function(**{name: value for name, value in offered.items() if name in wanted})


def awaited(value: Any) -> Any:
    """The result of a call. An awaitable is run to its end in a new event loop."""
    if not inspect.isawaitable(value):
        return value

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())
