"""What a right reply of a policy costs in sampling, beside what a verdict costs: the asymmetry of a verifier."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gnomon.config import RunConfig
from gnomon.keys import Key
from gnomon.run.loops import run_to_end
from gnomon.run.parts import here, open_parts
from gnomon.training import evaluate, first
from gnomon.types import Status

__all__ = ["Solving", "solving"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solving:
    """The held-out tasks of an environment, sampled and judged."""

    policy: str
    replies: int
    right: int
    seconds: float
    """Of sampling and judging all replies, on this machine."""

    def on(self, card: Mapping[str, Any]) -> dict[str, Any]:
        """A verifier's card, with what a right reply costs in seconds and in verdicts; None where none was right."""
        each = self.seconds / self.right if self.right else None
        verdict = card["milliseconds per verdict, median"]
        return {
            **card,
            "policy": self.policy,
            "right replies": self.right,
            "replies": self.replies,
            "seconds per right reply": each,
            "solve-to-verify ratio": 1000 * each / verdict if each and verdict else None,
        }


def solving(config: RunConfig) -> Solving:
    """Sample the held-out tasks of `config.eval` and measure; one task is sampled before, to warm up."""
    key = Key(config.seed)
    with open_parts(here(config)) as parts:
        parts.engine.load(parts.learner.publish())
        tasks = first(parts.env.tasks("test"), config.eval.tasks)
        run_to_end(evaluate(parts.actor, tasks[:1], key.at("eval"), config.eval))
        began = time.perf_counter()
        evaluation = run_to_end(evaluate(parts.actor, tasks, key.at("eval"), config.eval))
        seconds = time.perf_counter() - began
    return Solving(
        policy=config.policy.path,
        replies=sum(evaluation.statuses.values()),
        right=evaluation.statuses.get(Status.CORRECT, 0),
        seconds=seconds,
    )
