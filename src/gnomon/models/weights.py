"""A version of a policy on its way from learner to engine."""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from gnomon.errors import ModelError

__all__ = ["LONG_PROBE", "PROBE", "PROSE", "Kind", "WeightsRef", "probe_of", "require_loadable"]

PROBE = 24
"""Tokens of the sequence by which an engine proves that it holds the weights."""
LONG_PROBE = 128
"""The same where the engine's log-probabilities are not equal to the learner's in every bit: enough to tell a small
update from rounding."""
PROSE = (
    "A shop sells pens in boxes of 12. On Monday it sold 7 boxes, and on Tuesday it sold half as many pens. How many "
    "pens did it sell in both days? First, 7 boxes have 7 * 12 = 84 pens. Half of 84 is 42. So it sold 84 + 42 = 126 "
    "pens. The answer is 126. Now write a function that adds two numbers: def add(a, b): return a + b. Water boils at "
    "100 degrees at sea level, and the capital of France is Paris. The sum of the angles of a triangle is 180 degrees, "
    "because a line through one corner is parallel to the opposite side."
)
"""What a long probe ends with. Text has smaller rounding errors than other tokens, and training changes it more."""


class Kind(StrEnum):
    """What the tensors of a version are."""

    FULL = "full"
    """Every parameter of the model."""
    ADAPTER = "adapter"
    """What is added to the parameters of the base."""
    SERVICE = "service"
    """None: a training service keeps them, and `service` is their name there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRef:
    """Which weights they are, where they lie, and what their holder must be able to reproduce.

    One whose tensors lie in a file can be sent to another process; one that holds them itself is for this process.
    """

    kind: Kind = Kind.FULL
    base: str
    """Hash of the weights that training began from. Empty where they came from no folder."""
    version: int
    """Optimiser steps behind it."""
    tensors: Mapping[str, Tensor] | Path
    """By name, or the safetensors file that has them. Tensors are the learner's own: a holder copies them before the
    learner's next step, and never writes to them."""
    probe: tuple[int, ...]
    """A short token sequence."""
    probe_logp: tuple[float, ...]
    """The learner's natural log-probability of every probe token but the first."""
    service: str = ""
    """Name of the weights on the service that keeps them."""

    @property
    def identity(self) -> str:
        """The same for equal weights. Other weights have another one if they change the probe by more than rounding."""
        return sha256(array("d", self.probe_logp[: PROBE - 1]).tobytes()).hexdigest()[:16]

    def read(self) -> Mapping[str, Tensor]:
        return load_file(self.tensors) if isinstance(self.tensors, Path) else self.tensors

    def copy(self) -> WeightsRef:
        """The same version with tensors of its own, which stay as they are while the learner goes on."""
        return replace(self, tensors={name: value.detach().clone() for name, value in self.read().items()})

    def write(self, path: Path) -> WeightsRef:
        """The same version in a file. The file is whole as soon as it has its name."""
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".writing")
        save_file({name: value.detach().contiguous() for name, value in self.read().items()}, fresh)
        os.replace(fresh, path)
        return replace(self, tensors=path)


def probe_of(vocabulary: int) -> tuple[int, ...]:
    """A token sequence over the whole vocabulary, so that rare tokens are among it."""
    stride = max(7, vocabulary // PROBE)
    return tuple((stride * index + 3) % vocabulary for index in range(PROBE))


def require_loadable(weights: WeightsRef, base: str, rank: int) -> None:
    """Args: base: hash of the model that a holder has; rank: of its adapter, 0 for every parameter.

    Raises: ModelError E323 for weights of another kind, or that began from another model.
    """
    same = weights.base == base or not (weights.base and base)
    holds = f"an adapter of rank {rank}" if rank else "every parameter"
    fits = weights.kind is (Kind.ADAPTER if rank else Kind.FULL)
    if fits and same:
        return
    raise ModelError(
        "E323",
        "the engine cannot load these weights: they "
        + ("began from another model" if fits else f"are of the kind {weights.kind.value}"),
        where=f"version {weights.version}",
        why=f"this engine loads {holds} of the model that its own folder has",
        fix="give sampler and learner the same model folder and the same policy.lora",
    )
