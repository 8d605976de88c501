"""Where a run samples and learns, and in which precision: decided once from its settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

__all__ = ["TINKER", "Dtypes", "EngineKind", "LearnerPlace", "Placement"]

TINKER = "tinker:"
"""Beginning of the setting `learner` for a learner on the Tinker service; the base model follows."""


class LearnerPlace(StrEnum):
    """What computes gradients."""

    LOCAL = "local"
    """The process of the run, or `ranks` processes that it starts."""
    CLUSTER = "ray"
    """A process of the Ray cluster."""
    SERVER = "http"
    """`gnomon serve-learner` on another machine."""
    SERVICE = "tinker"
    """The Tinker service."""
    OBJECT = "object"
    """A Python object that was passed."""


class EngineKind(StrEnum):
    """What samples."""

    EMBEDDED = "embedded"
    VLLM = "vllm"
    SERVICE = "tinker"
    OBJECT = "object"


class Dtypes(NamedTuple):
    """The precision of passes, each by its name in torch."""

    learner: str
    """Of training, and of every policy that only scores."""
    engine: str

    @classmethod
    def of(cls, policy: str, engine: str) -> Dtypes:
        """Args: as the settings `policy.dtype` and `engine.dtype`."""
        return cls(policy, policy if engine == "policy" else engine)

    @property
    def learner_bytes(self) -> int:
        """Of a number in training."""
        return 4 if self.learner == "float32" else 2

    @property
    def differ(self) -> bool:
        """Whether the engine rounds otherwise than the learner."""
        return self.learner != self.engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The parts of a run on machines and in processes."""

    learner: LearnerPlace
    target: str
    """What the place needs: the address of a server, the base model of the service; else empty."""
    engine: EngineKind
    ranks: int
    """Processes of a local learner; 0: that of the run."""
    samplers: int
    """Processes of a Ray cluster that sample; 0: the process of the run samples."""

    @classmethod
    def of(cls, learner: str, engine: str, ranks: int, samplers: int, launch: str) -> Placement:
        """Args: as the settings."""
        where = LearnerPlace(learner if learner in ("local", "ray") else learner.partition(":")[0].removesuffix("s"))
        target = {LearnerPlace.SERVER: learner, LearnerPlace.SERVICE: learner.removeprefix(TINKER)}.get(where, "")
        kind = EngineKind(engine.partition(":")[0])
        samplers = samplers if launch == "ray" else 0
        return cls(learner=where, target=target, engine=kind, ranks=ranks, samplers=samplers)

    @property
    def learner_has_own_device(self) -> bool:
        """Whether the learner computes on no device of the run's process."""
        return self.learner in (LearnerPlace.CLUSTER, LearnerPlace.SERVER)

    @property
    def same_numbers(self) -> bool:
        """Whether the learner is Gnomon's own, so that its place does not change the numbers."""
        return self.learner in (LearnerPlace.LOCAL, LearnerPlace.CLUSTER, LearnerPlace.SERVER)
