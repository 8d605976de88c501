"""A shipped environment whose reward is a control, with the truth beside it, for studies of what a reward teaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gnomon.envs.base import SingleEpisode, SingleTurn
from gnomon.keys import Key
from gnomon.types import Task, Verdict
from gnomon.verifiers.controls import Control, FormatOnly, Noisy, Random, Shuffled, WrongLabel

__all__ = ["CONTROLS", "Controlled"]

OTHERS = 64
"""Train tasks that `shuffled` draws from."""
CONTROLS: dict[str, Callable[[SingleTurn, float], Control]] = {
    "random": lambda env, share: Random(of=env, share=share),
    "shuffled": lambda env, share: Shuffled(of=env, tasks=tuple(env.tasks("train")[i] for i in range(OTHERS))),
    "format_only": lambda env, share: FormatOnly(of=env),
    "wrong_label": lambda env, share: WrongLabel(of=env),
    "noisy": lambda env, share: Noisy(of=env, false_positive=share, false_negative=share),
}
"""By name, from the environment and `share`."""


@dataclass(frozen=True, kw_only=True)
class Controlled:
    """A single-turn environment that pays what a control decides.

    A verdict keeps the status of the true judgement, so accuracy and pass@k are those of the environment, while the
    parts, and with them the reward, are the control's. Tasks are those of the environment: arms of a study that differ
    in the control alone meet the same held-out tasks.
    Raises: ValueError for a control or an environment that does not exist.
    """

    of: str = "char_count"
    """The name of a shipped single-turn environment."""
    control: str = "random"
    """`random`, `shuffled`, `format_only`, `wrong_label` or `noisy`."""
    share: float = 0.5
    """Of `random`: chance that a readable answer is paid as correct. Of `noisy`: chance that a verdict is turned."""
    options: dict[str, Any] = field(default_factory=dict)
    """Of the environment."""

    def __post_init__(self) -> None:
        if self.control not in CONTROLS:
            raise ValueError(f"there is no control {self.control!r}; known: {', '.join(CONTROLS)}")
        _ = self.paying

    @cached_property
    def env(self) -> SingleTurn:
        """The environment that is controlled."""
        from gnomon.envs import ENVS

        kind = ENVS.get(self.of)
        if kind is None or not issubclass(kind, SingleTurn):
            raise ValueError(f"{self.of!r} is no shipped single-turn environment")
        return kind(**self.options)

    @cached_property
    def paying(self) -> Control:
        """The verifier whose reward is paid."""
        return CONTROLS[self.control](self.env, self.share)

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.env.reward_range

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
