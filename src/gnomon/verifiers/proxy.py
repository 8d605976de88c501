"""A learned reward: a logistic model over character n-grams. A policy can exploit it like other learned rewards.

Training is bitwise reproducible: a fixed number of passes in a fixed order, in plain Python.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

from gnomon.errors import VerifierError
from gnomon.types import Part, Status, Task, Verdict

__all__ = ["NgramModel", "Proxy", "cached_model", "train"]

MAX_REPLY = 16 * 1024
"""Only this many characters at the end of a reply are scored."""
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NgramModel:
    """P(correct | task, reply) by logistic regression on the presence of hashed n-grams."""

    bits: int
    """Bits of the hash. The model has 2^bits weights."""
    longest: int
    """Length of the longest n-gram, in characters."""
    bias: float
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 20 or not 1 <= self.longest <= 8:
            raise ValueError(f"bits is {self.bits} (1 to 20), longest is {self.longest} (1 to 8)")
        if len(self.weights) != 2**self.bits or not all(map(math.isfinite, (self.bias, *self.weights))):
            raise ValueError(f"the model has {len(self.weights)} weights; it needs 2^{self.bits} finite ones")

    def __call__(self, task: Task, reply: str) -> float:
        return self.score(question(task), reply)

    def score(self, prompt: str, reply: str) -> float:
        """The probability that a reply is correct."""
        return sigmoid(self.bias + math.fsum(self.weights[i] for i in self.features(prompt, reply)))

    def features(self, prompt: str, reply: str) -> list[int]:
        return features(prompt, reply, self.bits, self.longest)

    def save(self, folder: Path | str) -> Path:
        """Write `model.json` into a folder. Returns: its path."""
        path = Path(folder) / "model.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {"version": VERSION, "bits": self.bits, "longest": self.longest, "bias": self.bias}
        path.write_text(json.dumps({**body, "weights": self.weights}) + "\n", "utf-8")
        return path

    @staticmethod
    def load(folder: Path | str) -> NgramModel:
        """Load the model from a folder. Raises: VerifierError E112 if it cannot be read."""
        path = Path(folder) / "model.json"
        try:
            body = json.loads(path.read_text("utf-8"))
            if body.pop("version") != VERSION:
                raise ValueError("another version wrote it")
            return NgramModel(**{**body, "weights": tuple(body["weights"])})
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
            raise VerifierError(
                "E112",
                f"the n-gram model cannot be read: {problem}",
                where=str(path),
                fix="write one: gnomon.verifiers.proxy.train(pairs).save(folder)",
            ) from problem


@lru_cache(maxsize=4)
def cached_model(folder: str) -> NgramModel:
    """The model in a folder, loaded once per process. Raises: as `NgramModel.load`."""
    return NgramModel.load(folder)


def question(task: Task) -> str:
    return task.messages[-1].content if task.messages else ""


def features(prompt: str, reply: str, bits: int, longest: int) -> list[int]:
    """Indices of the reply's n-grams, and of each prompt word combined with the reply's last three words."""
    text, mask = reply[-MAX_REPLY:], 2**bits - 1
    raw = text.encode("utf-8", "surrogatepass")
    indices = {crc32(raw[i : i + n], n) & mask for n in range(1, longest + 1) for i in range(len(raw) - n + 1)}
    tail = " ".join(text.split()[-3:])
    indices |= {crc32(f"{word}\x1f{tail}".encode("utf-8", "surrogatepass")) & mask for word in prompt.split()[:64]}
    return sorted(indices)


def train(
    pairs: Sequence[tuple[str, str, bool]],
    *,
    bits: int = 12,
    longest: int = 3,
    passes: int = 8,
    rate: float = 2.0,
    decay: float = 1e-5,
) -> NgramModel:
    """Fit a model by stochastic gradient descent on the logistic loss, over the pairs in the order of the list.

    Args:
        pairs: prompt, reply, and whether the reply is correct.
        rate: learning rate of the first pass; it decreases as 1/√(pass number).
        decay: weight decay per step, applied to the weights that the step updates.
    Raises: ValueError if all labels are equal.
    """
    if {label for _, _, label in pairs} != {True, False}:
        raise ValueError("training needs both correct and wrong replies")
    rows = [(features(prompt, reply, bits, longest), float(label)) for prompt, reply, label in pairs]
    weights, bias = [0.0] * 2**bits, 0.0
    for turn in range(passes):
        step = rate / math.sqrt(1 + turn)
        for indices, label in rows:
            score = sigmoid(bias + math.fsum(weights[i] for i in indices))
            # Divided by √(1 + number of features), so that a long reply does not dominate.
            change = step * (label - score) / math.sqrt(1 + len(indices))
            bias += change
            for i in indices:
                weights[i] += change - decay * weights[i]
    return NgramModel(bits=bits, longest=longest, bias=bias, weights=tuple(weights))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A reward that is a score of the reply, such as a learned model's. The reference answer is not used."""

    score: Callable[[Task, str], float]
    """Returns a score from 0 to 1. It must pickle: a model, or a module-level function."""
    threshold: float = 0.5
    """Smallest score at which a reply is judged correct."""
    graded: bool = True
    """Pay the score; if false, pay 1 from the threshold on and 0 below."""
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def verify(self, task: Task, reply: str) -> Verdict:
        score: Any = self.score(task, reply)
        if not isinstance(score, int | float) or not 0 <= score <= 1:
            raise ValueError(f"the score is {score!r:.100}; it must be a number from 0 to 1")
        right = score >= self.threshold
        part = Part(name="score", value=float(score) if self.graded else float(right))
        detail = f"scored {score:.4f} where {self.threshold} is needed"
        return Verdict(status=Status.CORRECT if right else Status.WRONG, parts=(part,), detail=detail)
