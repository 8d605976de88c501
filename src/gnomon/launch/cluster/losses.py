"""Keeps which samplers died during a run, beside its chain: the records of a run do not depend on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from gnomon.launch.cluster.fleet import RayFleet
from gnomon.store import EvaluationRecord, RunStatus, StepRecord

__all__ = ["Losses"]


class Losses:
    """An observer. After every step, it notes the samplers that died.

    Args: tell: takes a sentence for a person; note: keeps an event of the run; takes its kind and body.
    """

    def __init__(
        self, fleet: RayFleet, tell: Callable[[str], None], note: Callable[[str, Mapping[str, Any]], None]
    ) -> None:
        self.fleet, self.tell, self.note = fleet, tell, note

    def start(self, manifest: Mapping[str, Any]) -> None: ...

    def step(self, record: StepRecord) -> None:
        self._take(record.step)

    def evaluation(self, record: EvaluationRecord) -> None:
        self._take(record.step)

    def finish(self, status: RunStatus) -> None: ...

    def _take(self, step: int) -> None:
        for loss in self.fleet.losses():
            self.note("sampler_died", {"step": step, **asdict(loss)})
            self.tell(f"Sampler {loss.sampler} died in step {step}; its {loss.episodes} episodes are played again.")
