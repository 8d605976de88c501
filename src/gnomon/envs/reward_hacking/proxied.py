"""A learned reward in the place of the truth, with the truth beside it."""

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
    """Letters to count, paid by what a model thinks of the reply.

    Parts: `score`, of the model, which is paid; `correct`, the truth, which is not.
    """

    model: str = ""
    """A folder that `gnomon.verifiers.proxy.NgramModel.save` wrote; its path as seen by every process."""
    correct: float = 0.0
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model:
            raise ValueError("model is missing: a folder that NgramModel.save wrote")
        if self.correct:
            raise ValueError("the truth is measured here, and not paid")

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
    """The model of a folder, read once by every process."""
    return NgramModel.load(folder)
