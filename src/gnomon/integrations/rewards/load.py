"""Find an external function by name, and call it."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from gnomon.errors import VerifierError
from gnomon.import_path import add_working_folder
from gnomon.workers.serialise import module_of

__all__ = ["call_with", "load", "wait_for"]


@cache
def load(name: str) -> Any:
    """The object named by `package.module:name` or `path/file.py:name`, imported once per process.

    Raises: VerifierError E130 if it does not exist, E131 if its module cannot be imported.
    """
    address, colon, attribute = name.rpartition(":")
    if not colon:
        raise VerifierError(
            "E130", f"{name!r} does not name a function", fix="package.module:function or file.py:function"
        )
    module = _module(address)
    member: Any = module
    for step in attribute.split("."):
        member = getattr(member, step, None)
    if member is None:
        own = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise VerifierError("E130", f"{address} has no {attribute}", fix=f"it has {', '.join(own[:20]) or 'none'}")
    return member


def _module(address: str) -> ModuleType:
    path = Path(address)
    if address.endswith(".py") and not path.is_file():
        raise VerifierError(
            "E130",
            f"the file {address} does not exist",
            fix="give a path relative to this folder: dir/file.py:function",
        )
    add_working_folder()
    try:
        return module_of(path) if address.endswith(".py") else importlib.import_module(address)
    except Exception as error:
        why, fix = f"{type(error).__name__}: {error}", "repair what its import raises"
        if isinstance(error, ModuleNotFoundError):
            fix = f"install {error.name} into {sys.prefix}, or run gnomon in the environment that has it"
        raise VerifierError("E131", f"{address} cannot be imported", why=why, fix=fix) from error


def call_with(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call a function with the arguments in its signature, or with all if it takes `**kwargs`."""
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return function(**arguments)
    return function(**{name: value for name, value in arguments.items() if name in parameters})


def wait_for(value: Any) -> Any:
    """The result of a call. An awaitable is run to its end in a new event loop."""
    if not inspect.isawaitable(value):
        return value

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())
