"""Environments of other libraries, behind the one interface: `rg:…`, `gem:…`, `textarena:…`, `verifiers:…`, `gym:…`."""

from __future__ import annotations

from gnomon.envs.adapters.hosted import Gem, Gym, Hosted, TextArena, VerifiersEnv
from gnomon.envs.adapters.openenv import OpenEnv
from gnomon.envs.adapters.ors import Ors
from gnomon.envs.adapters.reasoning_gym import ReasoningGym
from gnomon.envs.adapters.remote import Remote
from gnomon.envs.base import Env

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

ADAPTERS: dict[str, tuple[type[Env], str]] = {
    "rg": (ReasoningGym, "name"),
    "gem": (Gem, "name"),
    "textarena": (TextArena, "name"),
    "verifiers": (VerifiersEnv, "name"),
    "gym": (Gym, "name"),
    "openenv": (OpenEnv, "url"),
    "ors": (Ors, "url"),
    "remote": (Remote, "url"),
}
"""The class behind a prefix, and which of its fields what follows the prefix gives."""


def adapter(name: str) -> tuple[type[Env], dict[str, str]] | None:
    """The class behind a name with a known prefix, and the option that the name gives; None for another name."""
    prefix, _, rest = name.partition(":")
    if prefix not in ADAPTERS or not rest:
        return None
    kind, option = ADAPTERS[prefix]
    return kind, {option: rest}
