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
from urllib.error import HTTPError
from urllib.request import urlopen

from gnomon.errors import ConfigError, ResourceError

__all__ = ["answer", "failure", "first_model", "open_client", "require_answer", "sdk"]

KEY = "TINKER_API_KEY"
PATIENCE = 10
"""Seconds."""


def sdk() -> Any:
    """The package. Raises: ResourceError E505 where it is not installed."""
    if not find_spec("tinker"):
        raise ResourceError("E505", "the package tinker is not installed", fix='pip install "gnomon[tinker]"')
    return import_module("tinker")


def open_client() -> Any:
    """A client of the service. Raises: ConfigError E048 without a key; ResourceError E505, E508."""
    package = sdk()
    if not os.environ.get(KEY):
        why, fix = "the Tinker service needs an API key", f"export {KEY}=…"
        raise ConfigError("E048", f"the environment variable {KEY} is not set", where="learner", why=why, fix=fix)
    try:
        return package.ServiceClient()
    except package.TinkerError as error:
        raise failure("open a session", error) from None


def first_model(fix: str) -> str:
    """The name of the first model that the service trains. Raises: ResourceError E508."""
    package = sdk()
    try:
        capabilities = package.RestClient().get_server_capabilities()
    except package.TinkerError as error:
        raise failure("name its models", error, fix) from None
    return str(answer(capabilities, "name its models", fix).supported_models[0].model_name)


def require_answer(url: str) -> None:
    """Raises: ResourceError E508 where nothing answers. The SDK asks for five minutes before it says so."""
    try:
        urlopen(f"{url.rstrip('/')}/api/v1/healthz", timeout=PATIENCE).close()
    except HTTPError:  # Something answers, and the SDK can say what is wrong.
        return
    except (OSError, ValueError) as error:
        fix = "start the service, or correct the URL; gnomon serve-learner starts one here"
        raise ResourceError("E508", f"nothing answers at {url}", why=str(error), fix=fix) from None


def answer(future: Any, verb: str, fix: str = "gnomon resume RUN") -> Any:
    """The result of a request. Args: verb: what was asked for. Raises: ResourceError E508 where it failed."""
    try:
        with ThreadPoolExecutor(1) as thread:  # The SDK warns where it waits in a thread with a running event loop.
            return thread.submit(future.result).result()
    except sdk().TinkerError as error:
        raise failure(verb, error, fix) from None


def failure(verb: str, error: Exception, fix: str = "gnomon resume RUN") -> ResourceError:
    why = f"{type(error).__name__}: {error}"
    return ResourceError("E508", f"the Tinker service could not {verb}", why=why, fix=fix)
