"""The Tinker service through its official SDK, for a learner and an engine.

The SDK reads the key and the address from the environment (TINKER_API_KEY, TINKER_BASE_URL). Gnomon keeps neither.

Source: the SDK, tinker 0.38.0.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gnomon.errors import ConfigError, ResourceError

__all__ = ["answer", "failed", "opened", "sdk"]

KEY = "TINKER_API_KEY"


def sdk() -> Any:
    """The package. Raises: ResourceError E505 where it is not installed."""
    if not find_spec("tinker"):
        raise ResourceError("E505", "the package tinker is not installed", fix='pip install "gnomon[tinker]"')
    return import_module("tinker")


def opened() -> Any:
    """A client of the service. Raises: ConfigError E048 without a key; ResourceError E505, E508."""
    package = sdk()
    if not os.environ.get(KEY):
        why, fix = "the Tinker service needs an API key", f"export {KEY}=…"
        raise ConfigError("E048", f"the environment variable {KEY} is not set", where="learner", why=why, fix=fix)
    try:
        return package.ServiceClient()
    except package.TinkerError as error:
        raise failed("open a session", error) from None


def answer(future: Any, verb: str) -> Any:
    """The result of a request. Args: verb: what was asked for. Raises: ResourceError E508 where it failed."""
    try:
        with ThreadPoolExecutor(1) as thread:  # The SDK warns where it waits in a thread with a running event loop.
            return thread.submit(future.result).result()
    except sdk().TinkerError as error:
        raise failed(verb, error) from None


def failed(verb: str, error: Exception) -> ResourceError:
    why = f"{type(error).__name__}: {error}"
    return ResourceError("E508", f"the Tinker service could not {verb}", why=why, fix="gnomon resume RUN")
