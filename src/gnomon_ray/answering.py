"""Errors for a user as answers of an actor, since Ray would wrap them in errors of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from gnomon.errors import GnomonError

__all__ = ["answering"]

P = ParamSpec("P")
T = TypeVar("T")


def answering(verb: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T | GnomonError]]:
    """Returns an error of Gnomon as a value."""

    @wraps(verb)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T | GnomonError:
        try:
            return await verb(*args, **kwargs)
        except GnomonError as error:
            return error

    return wrapper
