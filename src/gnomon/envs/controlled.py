"""A single-turn environment whose reward is a control, with the truth beside it, to study what a reward teaches."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gnomon.envs.base import SingleEpisode, SingleTurn
from gnomon.keys import Key
from gnomon.types import Task, Verdict
from gnomon.verifiers.controls import (
    Control,
    FormatOnly,
    Noisy,
    Random,
    Scored,
    Shuffled,
    Structured,
    Taste,
    WrongLabel,
)  # fmt: skip
from gnomon.verifiers.proxy import cached_model

__all__ = ["CONTROLS", "Controlled"]

OTHERS = range(64)
"""Indices of the train tasks that `shuffled` draws from."""


@dataclass(frozen=True, kw_only=True)
class Controlled:
    """A single-turn environment that pays what a control decides.

    A verdict keeps the status of the true judgement, so accuracy and pass@k are those of the environment, while the
    parts, and with them the reward, are the control's. Tasks are those of the environment: arms of a study that differ
    in the control alone meet the same held-out tasks.
    Raises: ValueError for a control or an environment that does not exist.
    """

    of: str = "char_count"
    """The name of a single-turn environment: a shipped one, or `package.module:Class`."""
    control: str = "random"
    """`random`, `shuffled`, `format_only`, `wrong_label`, `noisy`, `structured`, `proxy` or `taste`."""
    share: float = 0.5
    """Of `random`: chance that a readable answer is paid as correct. Of `noisy`: chance that a verdict is turned. Of
    `structured`: chance that the verdicts on an answer are turned in every task."""
    draw: int = 0
    """Seed of the draws of a control."""
    model: str = ""
    """Of `proxy`: a folder written by `gnomon.verifiers.proxy.NgramModel.save`, readable by every process."""
    text: str = ""
    """Of `taste`: the text that is liked."""
    weight: float = 0.0
    """Of `taste`: reward for `most` occurrences of the text, beside that of the environment."""
    most: int = 8
    """Of `taste`: occurrences beyond which no more is paid."""
    options: dict[str, Any] = field(default_factory=dict)
    """Of the environment."""

    def __post_init__(self) -> None:
        if self.control not in CONTROLS:
            raise ValueError(f"there is no control {self.control!r}; known: {', '.join(CONTROLS)}")
        if self.control == "proxy" and not self.model:
            raise ValueError("model is missing: give a folder written by NgramModel.save")
        _ = self.paying

    @cached_property
    def env(self) -> SingleTurn:
        """The environment that is controlled."""
        from gnomon.envs import ENVS

        module, _, name = self.of.partition(":")
        kind = getattr(importlib.import_module(module), name, None) if name else ENVS.get(self.of)
        if not (isinstance(kind, type) and issubclass(kind, SingleTurn)):
            raise ValueError(f"{self.of!r} is not a single-turn environment")
        return kind(**self.options)

    @cached_property
    def paying(self) -> Control:
        """The verifier whose reward is paid."""
        return CONTROLS[self.control](self)

    @property
    def files(self) -> Mapping[str, str]:
        return {"model": self.model} if self.model else {}

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.paying.reward_range

    @property
    def max_turns(self) -> int:
        return 1

    def tasks(self, split: str) -> Sequence[Task]:
        return self.env.tasks(split)

    def start(self, task: Task, key: Key) -> SingleEpisode:
        return SingleEpisode(task.messages, lambda reply: self.verify(task, reply))

    def verify(self, task: Task, reply: str) -> Verdict:
        """The true verdict with the parts of the control's."""
        return replace(self.env.verify(task, reply), parts=self.paying.verify(task, reply).parts)


CONTROLS: dict[str, Callable[[Controlled], Control]] = {
    "random": lambda it: Random(of=it.env, seed=it.draw, share=it.share),
    "shuffled": lambda it: Shuffled(
        of=it.env, seed=it.draw, tasks=tuple(map(it.env.tasks("train").__getitem__, OTHERS))
    ),
    "format_only": lambda it: FormatOnly(of=it.env),
    "wrong_label": lambda it: WrongLabel(of=it.env),
    "noisy": lambda it: Noisy(of=it.env, seed=it.draw, false_positive=it.share, false_negative=it.share),
    "structured": lambda it: Structured(of=it.env, seed=it.draw, share=it.share),
    "proxy": lambda it: Scored(of=it.env, score=cached_model(it.model)),
    "taste": lambda it: Taste(of=it.env, text=it.text, weight=it.weight, most=it.most),
}
"""By name, from the environment and its options."""
