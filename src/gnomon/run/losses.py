"""Keeps which processes in a cluster died during a run, beside its chain: the records of a run do not depend on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from gnomon.store import EvaluationRecord, RunStatus, StepRecord

__all__ = ["LearnerLoss", "Losing", "Losses", "SamplerLoss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerLoss:
    """A sampler that died, was lost or hung."""

    kind: ClassVar[str] = "sampler_died"
    sampler: int
    """Its number, from 0."""
    why: str
    episodes: int
    """Episodes in progress, which are played again."""

    def sentence(self, step: int) -> str:
        return f"Sampler {self.sampler} died in step {step}; its {self.episodes} episodes are played again."


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerLoss:
    """A process of the learner that died, was lost or hung."""

    kind: ClassVar[str] = "learner_died"
    why: str
    calls: int
    """Calls since its last kept state, which are repeated."""

    def sentence(self, step: int) -> str:
        return f"The learner died in step {step}; {self.calls} calls since its last kept state are repeated."


@runtime_checkable
class Losing(Protocol):
    """What has processes in a cluster."""

    def losses(self) -> Sequence[SamplerLoss | LearnerLoss]:
        """The deaths since the last call."""
        ...


class Losses:
    """An observer. After every step, and when the run ends, it notes the processes that died.

    Args: tell: takes a sentence for a person; note: keeps an event of the run; takes its kind and body.
    """

    def __init__(
        self,
        parts: Sequence[Losing],
        tell: Callable[[str], None],
        note: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self.parts, self.tell, self.note = parts, tell, note
        self._present = 0
        """The step in progress."""

    def start(self, manifest: Mapping[str, Any]) -> None:
        self._present = manifest["step"]

    def step(self, record: StepRecord) -> None:
        self._take(record.step)
        self._present = record.step + 1

    def evaluation(self, record: EvaluationRecord) -> None:
        self._take(record.step)

    def finish(self, status: RunStatus) -> None:
        self._take(self._present)

    def _take(self, step: int) -> None:
        for loss in [loss for part in self.parts for loss in part.losses()]:
            self.note(loss.kind, {"step": step, **asdict(loss)})
            self.tell(loss.sentence(step))
