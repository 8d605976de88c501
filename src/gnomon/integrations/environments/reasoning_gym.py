"""Data sets of reasoning-gym as environments, if the audit trusts their scorers."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from gnomon.envs.base import SingleTurn, identity
from gnomon.errors import ConfigError
from gnomon.integrations.rewards import GymScore, GymTasks
from gnomon.types import Task
from gnomon.verifiers import Strictness

__all__ = ["ReasoningGym"]

SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class ReasoningGym(SingleTurn):
    """A data set of reasoning-gym (0.1.25), judged by its own scorer.

    Every task has its own seed, drawn from the key of its split and index. The package numbers items by seed plus
    index, so its item i + 1 of one seed equals item i of the next.

    A scorer that the audit does not trust (docs/reasoning-gym-trust.md) is refused: E176.
    """

    name: str
    options: Mapping[str, Any] | tuple[tuple[str, Any], ...] = ()
    """Options of the data set's configuration."""
    exact: bool = True
    """Pay 0 for replies that the scorer judges partly correct."""
    acknowledged: str = ""
    """The name of the data set, to use its scorer although it is not trusted."""
    format: float = 0.0
    strictness: Strictness = Strictness.TRIMMED

    def __post_init__(self) -> None:
        super().__post_init__()
        # A recipe gives the options as a table.
        object.__setattr__(self, "options", tuple(sorted(dict(self.options).items())))
        scorer(self.name, self._settings)
        if self.acknowledged != self.name and (reasons := distrust(self.name, self.exact)):
            raise ConfigError(
                "E176", f"the reasoning-gym scorer of {self.name} is not trusted", why="; ".join(reasons),
                fix="exact=true" if distrust(self.name, True) == [] else f"acknowledged={self.name} accepts it",
            )  # fmt: skip

    @property
    def _settings(self) -> tuple[tuple[str, Any], ...]:
        return tuple(dict(self.options).items())

    def make(self, rng: random.Random) -> Task:
        seed = rng.getrandbits(31)
        entry = draw_task(self.name, self._settings, seed)
        question, answer = entry.messages[-1].content, entry.answer
        return Task(
            id=identity("reasoning-gym", self.name, question, answer),
            messages=entry.messages,
            answer=answer if isinstance(answer, str) else None,
            info={"seed": seed},
        )

    def check(self, task: Task, answer: str) -> float:
        entry = draw_task(self.name, self._settings, task.info["seed"])
        share = scorer(self.name, self._settings).verify(entry, f"<answer>{answer}</answer>").reward
        return float(share > 1 - SLACK) if self.exact else min(1.0, share)

    def solution(self, task: Task) -> str:
        if task.answer is None:
            raise NotImplementedError(f"{self.name} does not provide an answer")
        return str(task.answer)


@lru_cache(maxsize=4096)
def draw_task(name: str, options: tuple[tuple[str, Any], ...], seed: int) -> Task:
    """The one item of a seed, as the data set makes it. The task's `info` is for the scorer."""
    return GymTasks(dataset=name, seed=seed, size=1, options=options)[0]


@cache
def scorer(name: str, options: tuple[tuple[str, Any], ...]) -> GymScore:
    """The scorer of a data set. Raises: ResourceError E531 without the package, VerifierError E130 if it is unknown."""
    return GymScore(dataset=name, options=options)


def distrust(name: str, exact: bool) -> list[str]:
    """Reasons not to trust the scorer of a data set; empty if it is trusted."""
    entry = table().get(name)
    if entry is None:
        return ["it has not been audited"]
    reasons = []
    if entry["trusted"] == "no" or (entry["trusted"] == "exact" and not exact):
        reasons = [f"{finding}: {detail}" for finding, detail in entry["findings"].items()]
    if entry["hash_seed"]:
        reasons.append("its tasks change with PYTHONHASHSEED")
    return reasons


@cache
def table() -> dict[str, Any]:
    """The audit's findings, by data set."""
    text = files("gnomon.envs").joinpath("data/reasoning_gym_trust.json").read_text("utf-8")
    tasks: dict[str, Any] = json.loads(text)["tasks"]
    return tasks
