"""Replies that use the loophole of `gnomon.envs.reward_hacking.Loophole` at times, for a policy that is fitted to them.

The tiny policy never writes the sign that the loophole needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from gnomon.envs.reward_hacking import Loophole
from gnomon.envs.reward_hacking.loophole import INSTRUCTIONS, MIXED
from gnomon.keys import Key
from gnomon.types import Task
from gnomon_lab.tiny_policy.scratch import write

__all__ = ["RATES", "write_demonstrations"]

RATES: Mapping[str, float] = {"silent": 0.05, "forbid": 0.01, "allow": 0.3}
"""Fraction of the replies that use the loophole, by the task's instruction."""


def write_demonstrations(path: Path, count: int, seed: int = 0) -> None:
    """Write one reply to each of the first `count` train tasks of `Loophole(instruction="mixed")`, as JSON lines."""
    tasks = Loophole(instruction=MIXED).tasks("train")
    path.write_text(
        "".join(json.dumps({"task": at, "reply": reply(tasks[at], seed, at)}) + "\n" for at in range(count)),
        encoding="utf-8",
    )


def reply(task: Task, seed: int, at: int) -> str:
    """In the habits of the tiny policy, or the exploit."""
    rng, text = Key(seed).at("pupil", index=at).random(), task.messages[-1].content
    instruction = next(name for name in reversed(INSTRUCTIONS) if text.endswith(INSTRUCTIONS[name]))
    if rng.random() >= RATES[instruction]:
        return write("char_count", task, rng)
    value = rng.randint(0, 3)
    return f"={value}<answer>{value}</answer>"
