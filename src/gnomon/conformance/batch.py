"""What a trainer is asked: the gradient of one optimiser step, on rollouts that are already sampled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

__all__ = ["END", "LIMIT", "Batch", "Row", "base", "group_of"]

ALPHABET = "ab."
END = ALPHABET.index(".")
"""The end token, which is the padding token too, as in many models."""
LIMIT = 6
"""The length limit of a completion in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rollout."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    reward: float | None
    """None: the verifier failed, so nothing is known of the completion."""
    mask: tuple[int, ...] = ()
    """1 for each token that the policy sampled, 0 for one that a tool wrote. Empty: all are sampled."""
    behavior_logp: tuple[float, ...] = ()
    """Log-probability of each token when it was sampled. Empty: the policy has not moved since."""

    @property
    def sampled_ids(self) -> tuple[int, ...]:
        return self.mask or (1,) * len(self.completion)

    @property
    def truncated(self) -> bool:
        return self.completion[-1] != END


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The rollouts of one optimiser step, group by group, and how it is computed."""

    groups: tuple[tuple[Row, ...], ...]
    micro_batch: int = 0
    """Rows of one backward pass. 0: all rows in one."""
    max_tokens: int = LIMIT
    kl: float = 0.0
    """Weight of the penalty toward the reference model."""
    temperature: float = 1.0
    mask_truncated: bool = False
    """Leave rollouts without an end token out of the loss."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the objective, by the names of its row."""

    @property
    def rows(self) -> Iterator[Row]:
        return (row for group in self.groups for row in group)

    def body(self, name: str, model: str, reference: str) -> dict[str, Any]:
        """What is sent to the trainer. Args: name, what the trainer calls the objective; model, reference, folders."""
        rows = [
            asdict(row) | {"mask": row.sampled_ids, "group": index}
            for index, group in enumerate(self.groups)
            for row in group
        ]
        settings = asdict(replace(self, groups=()))
        del settings["groups"]
        size = self.micro_batch or len(rows)
        header = {"objective": name, "model": model, "reference": reference, "group_size": len(self.groups[0])}
        return settings | header | {"rows": rows, "micro_batch": size}


def group_of(prompt: str, answers: Sequence[tuple[str, float | None]]) -> tuple[Row, ...]:
    """A group from texts of the alphabet. A tool wrote what is in upper case."""
    return tuple(
        Row(
            prompt=tuple(map(ALPHABET.index, prompt)),
            completion=tuple(map(ALPHABET.index, text.lower())),
            mask=tuple(int(letter == letter.lower()) for letter in text),
            reward=reward,
        )
        for text, reward in answers
    )


def base() -> Batch:
    """Three groups of four: lengths from 1 to 6, rewards between 0 and 1; every completion ends by itself."""
    return Batch(
        groups=(
            group_of("ab", [("a.", 1.0), ("bb.", 0.0), ("abab.", 0.25), (".", 0.0)]),
            group_of("ba", [("b.", 0.0), ("abbba.", 1.0), ("aa.", 1.0), ("ba.", 0.5)]),
            group_of("bb", [("ab.", 1.0), ("b.", 0.25), ("bba.", 0.0), ("baaa.", 0.75)]),
        )
    )
