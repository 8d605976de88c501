"""reasoning-gym: `score_answer(answer, entry) -> float` of one of its data sets."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from gnomon.errors import ResourceError, VerifierError
from gnomon.integrations.rewards.base import Foreign, number
from gnomon.types import Message, Part, Status, Task
from gnomon.verifiers.extract import Strictness, extract

__all__ = ["GymScore", "GymTasks"]


@dataclass(frozen=True, kw_only=True)
class GymScore(Foreign):
    """A data set's scorer. It receives the text in the answer slot of a reply, or None without a slot."""

    dataset: str
    options: tuple[tuple[str, Any], ...] = ()
    """Options of the data set's configuration, for scorers that read them."""
    strictness: Strictness = Strictness.LAST
    """How the slot is found. The package's own extraction takes the last slot."""

    def __post_init__(self) -> None:
        super().__post_init__()
        open_dataset(self.dataset, self.options)

    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        """The score as one part. Raises: VerifierError E132 if it is not a number; any exception of the scorer."""
        entry = {"question": task.messages[-1].content, "answer": task.answer, "metadata": task.info["metadata"]}
        extraction = extract(reply, self.strictness)
        empty = extraction.status is Status.NO_ANSWER and extraction.span is not None
        score = open_dataset(self.dataset, self.options).score_answer("" if empty else extraction.text, entry)
        return (Part(name="score", value=number(score, self.dataset)),)

    def tasks(self, split: str) -> GymTasks:
        """500 tasks of a split. The seeds of the splits are far apart and far from usual seeds."""
        seed = int.from_bytes(blake2b(f"{self.dataset} {split}".encode(), digest_size=4).digest(), "big")
        return GymTasks(dataset=self.dataset, seed=seed, options=self.options)

    def solution(self, task: Task) -> str | None:
        """The data set's answer in a slot; None if it has none."""
        return None if task.answer is None else f"<answer>{task.answer}</answer>"


@dataclass(frozen=True, kw_only=True)
class GymTasks(Sequence[Task]):
    """The tasks of a data set with one seed, made on demand. Each prompt asks for the answer in a slot.

    Adjacent seeds share most of their tasks: item i + 1 of a seed is item i of the next, in nearly every data set.
    """

    dataset: str
    seed: int
    size: int = 500
    options: tuple[tuple[str, Any], ...] = ()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        index = operator.index(index)
        if not 0 <= index < self.size:
            raise IndexError(index)
        entry = open_dataset(self.dataset, (*self.options, ("seed", self.seed), ("size", self.size)))[index]
        content = repr((self.dataset, entry["question"], entry["answer"])).encode("utf-8", "surrogatepass")
        return Task(
            id=blake2b(content, digest_size=8).hexdigest(),
            messages=(Message(role="user", content=f"{entry['question']}\n<answer>...</answer>"),),
            answer=entry["answer"],
            info={"metadata": entry["metadata"]},
        )


@lru_cache(maxsize=64)
def open_dataset(dataset: str, options: tuple[tuple[str, Any], ...]) -> Any:
    """A data set. Raises: ResourceError E531 if the package is missing, VerifierError E130 for an unknown name."""
    try:
        factory = importlib.import_module("reasoning_gym.factory")
    except ImportError as error:
        fix = 'pip install "gnomon[reasoning-gym]"'
        raise ResourceError("E531", "the package reasoning-gym is not installed", fix=fix) from error
    if dataset not in factory.DATASETS:
        raise VerifierError("E130", f"reasoning-gym has no data set {dataset!r}")
    return factory.create_dataset(dataset, **{"seed": 0, "size": 1, **dict(options)})
