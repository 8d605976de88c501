"""A learned reward, with the truth recorded beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gnomon.envs.char_count import CharCount
from gnomon.types import Task, Verdict
from gnomon.verifiers import Price
from gnomon.verifiers.controls import score_verdict
from gnomon.verifiers.proxy import cached_model


@dataclass(frozen=True, kw_only=True)
class Proxied(CharCount):
    """Count letters. The reward is a model's score of the reply.

    Parts: `score`, the model's, is paid; `correct`, the truth, is not. The control `proxy` does this for any shipped
    single-turn environment, with the tasks of that environment; here they are other ones.
    """

    model: str = ""
    """Path of a folder written by `gnomon.verifiers.proxy.NgramModel.save`, readable by every process."""
    correct: float = 0.0
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    stream: ClassVar[str] = "Proxied"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise ValueError("model is missing: give a folder written by NgramModel.save")
        if self.correct:
            raise ValueError("the part correct is recorded and not paid")

    @property
    def prices(self) -> tuple[Price, ...]:
        return Price(name="correct", weight=0.0), Price(name="score", weight=1.0)

    def verify(self, task: Task, reply: str) -> Verdict:
        return score_verdict(super().verify(task, reply), cached_model(self.model)(task, reply))
