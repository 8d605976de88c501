"""Objectives: what a policy maximises, as a coefficient κ per trainable token.

The gradient of every objective is Σ κ·∇log π with a detached κ. Formulas are pure functions of tensors,
a named algorithm is one row of `TABLE`, and `report` holds a row against the expectation that it declares.
Every name of `public` is imported from here; torch is imported with the first of them.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.objectives.public import *  # noqa: F403


def __getattr__(name: str) -> object:
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec(f"{__name__}.{name}"):  # `from gnomon.objectives import penalties` asks here, then imports the module.
        raise AttributeError(f"module {__name__!r} has not imported its module {name!r} yet")
    public = importlib.import_module("gnomon.objectives.public")
    return public.NAMES if name == "__all__" else getattr(public, name)
