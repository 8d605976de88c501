"""A learned reward, with the truth recorded beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from gnomon.envs.char_count import CharCount
from gnomon.types import Part, Task, Verdict
from gnomon.verifiers import Price
from gnomon.verifiers.proxy import NgramModel


@dataclass(frozen=True, kw_only=True)
class Proxied(CharCount):
    """Count letters. The reward is a model's score of the reply.

    Parts: `score`, the model's, is paid; `correct`, the truth, is not.
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
        truth = super().verify(task, reply)
        score = held(self.model)(task, reply)
        parts = (Part(name="correct", value=float(truth.correct), weight=0.0), Part(name="score", value=score))
        return replace(truth, parts=parts)


@lru_cache(maxsize=4)
def held(folder: str) -> NgramModel:
    """The model in a folder, loaded once per process."""
    return NgramModel.load(folder)
