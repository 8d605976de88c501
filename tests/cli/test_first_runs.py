"""Runs that cannot learn, as a first user writes them: each says so, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import command

NO_SLOT = '''
import random
from dataclasses import dataclass

from gnomon.envs import SingleTurn, identity
from gnomon.envs.base import user
from gnomon.types import Task
from gnomon.verifiers import integer


@dataclass(frozen=True, kw_only=True)
class Sums(SingleTurn):
    """Add."""

    def make(self, rng: random.Random) -> Task:
        a, b = rng.randint(1, 50), rng.randint(1, 50)
        return Task(id=identity("sums", a, b), messages=user(f"{a}+{b}? "), answer=a + b)

    def check(self, task: Task, answer: str) -> bool:
        return integer(answer) == task.answer

    def solution(self, task: Task) -> str:
        return str(task.answer)
'''
SMALL = ("prompts=4", "group=4", "steps=1", "eval.tasks=4", "threads=1")


@pytest.mark.parametrize(
    ("env", "settings", "alarm", "advice"),
    [
        ("sums.py:Sums", ("max_tokens=16",), "prompt.without_slot", "SLOT from gnomon.envs.base"),
        ("char_count", ("max_tokens=2",), "replies.truncated", "set rollout.max_tokens=128 (now 2)"),
    ],
    ids=["no slot", "cut off"],
)
def test_a_run_that_cannot_learn_says_so(env, settings, alarm, advice, tmp_path: Path):
    (tmp_path / "sums.py").write_text(NO_SLOT)
    done = command("train", env, "run=r", *SMALL, *settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"ALARM {alarm} at step 0" in done.stdout and advice in done.stdout
    again = command("alarms", "r", cwd=tmp_path).stdout
    assert alarm in again and advice in again
