"""Environments of other libraries, behind the one interface: `rg:…`, `gem:…`, `textarena:…`, `verifiers:…`, `gym:…`.

An adapter is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gnomon.envs.base import Env

if TYPE_CHECKING:
    from gnomon.integrations.environments.hosted import Gem, Gym, Hosted, TextArena, VerifiersEnv
    from gnomon.integrations.environments.openenv import OpenEnv
    from gnomon.integrations.environments.ors import Ors
    from gnomon.integrations.environments.reasoning_gym import ReasoningGym
    from gnomon.integrations.environments.remote import Remote

__all__ = [
    "ADAPTERS",
    "Gem",
    "Gym",
    "Hosted",
    "OpenEnv",
    "Ors",
    "ReasoningGym",
    "Remote",
    "TextArena",
    "VerifiersEnv",
    "adapter",
]

HOME = {
    "Gem": "hosted",
    "Gym": "hosted",
    "Hosted": "hosted",
    "OpenEnv": "openenv",
    "Ors": "ors",
    "ReasoningGym": "reasoning_gym",
    "Remote": "remote",
    "TextArena": "hosted",
    "VerifiersEnv": "hosted",
}
"""Class to the module that defines it."""
ADAPTERS = {
    "rg": ("ReasoningGym", "name"),
    "gem": ("Gem", "name"),
    "textarena": ("TextArena", "name"),
    "verifiers": ("VerifiersEnv", "name"),
    "gym": ("Gym", "name"),
    "openenv": ("OpenEnv", "url"),
    "ors": ("Ors", "url"),
    "remote": ("Remote", "url"),
}
"""The class of each prefix, and the field that takes the text after the prefix."""


def adapter(name: str) -> tuple[type[Env], dict[str, str]] | None:
    """The class for a name with a known prefix, and the option in the name; None for other names."""
    prefix, _, rest = name.partition(":")
    if prefix not in ADAPTERS or not rest:
        return None
    kind, option = ADAPTERS[prefix]
    return __getattr__(kind), {option: rest}


def __getattr__(name: str) -> Any:
    if name in HOME:
        return getattr(importlib.import_module(f"{__name__}.{HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
