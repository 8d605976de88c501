"""Run folders whose rollouts are made up and whose records are made by the recorder of real runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gnomon.config import RunConfig, to_toml
from gnomon.stats import Mean
from gnomon.store import Record, Run
from gnomon.store.codec import encode
from gnomon.training.evaluate import Evaluation
from gnomon.training.step import StepLog
from gnomon.types import Completion, Finish, Group, Message, Part, Rollout, Status, Stop, Task, Turn, Verdict

STEPS, PROMPTS, GROUP, HELD_OUT = 12, 12, 4, 80


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What one rollout came to."""

    status: Status
    answer: str | None
    text: str
    tokens: int = 12
    cut: bool = False
    parts: tuple[Part, ...] = ()


def sound(step: int, task: int, sample: int, rng: random.Random) -> Reply:
    """A policy that goes from 30 % to 80 % right."""
    right = rng.random() < 0.3 + 0.5 * step / STEPS
    answer = str(task % 10 if right else (task + rng.randint(1, 9)) % 10)
    status = Status.CORRECT if right else Status.WRONG
    text = f"{rng.choice('abc')} {rng.randint(100, 999)} so <answer>{answer}</answer>"
    return Reply(status=status, answer=answer, text=text, tokens=rng.randint(8, 16))


@dataclass(frozen=True, kw_only=True)
class Script:
    """A run."""

    play: Callable[[int, int, int, random.Random], Reply] = sound
    advantage: Callable[[Sequence[float]], Sequence[float]] = lambda rewards: [
        reward - sum(rewards) / len(rewards) for reward in rewards
    ]
    metrics: Callable[[int], Mapping[str, float]] = lambda step: {"entropy": 1.0 - step / 20, "logp_mismatch": 0.0}
    version: Callable[[int], int] = lambda step: step
    question: Callable[[str, int], str] = lambda split, task: f"{split} question {task}?"
    test_play: Callable[[int, int, int, random.Random], Reply] | None = None
    """On held-out tasks, where it differs."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    status: str = "finished"
    reason: str = ""
    steps: int = STEPS


def rollout(task: Task, sample: int, found: Reply, version: int) -> Rollout:
    parts = found.parts or (Part(name="correct", value=float(found.status is Status.CORRECT)),)
    finish = Finish.LENGTH if found.cut else Finish.STOP
    completion = Completion(
        token_ids=tuple(range(found.tokens)), logprobs=(-0.5,) * found.tokens, text=found.text, finish=finish,
        version=version,
    )  # fmt: skip
    verdict = Verdict(status=found.status, parts=parts, extracted=found.answer, detail="the service did not respond")
    stop = Stop.FAILED if found.status is Status.FAILED else Stop.TRUNCATED if found.cut else Stop.DONE
    turn = Turn(prompt_ids=(1,), completion=completion, messages=task.messages)
    return Rollout(task=task, sample=sample, turns=(turn,), verdict=verdict, stop=stop)


def group(script: Script, split: str, step: int, index: int, size: int) -> Group:
    rng = random.Random(f"{split} {step} {index}")
    text = script.question(split, index)
    asked = Task(id=f"{split}{index}", messages=(Message(role="user", content=text),), answer=index % 10)
    play = script.test_play or script.play if split == "test" else script.play
    replies = [play(step, index, sample, rng) for sample in range(size)]
    rollouts = [rollout(asked, sample, reply, script.version(step)) for sample, reply in enumerate(replies)]
    return Group(task=asked, index=index, rollouts=tuple(rollouts))


def evaluation(script: Script, step: int) -> Evaluation:
    groups = tuple(group(script, "test", step, index, 1) for index in range(HELD_OUT))
    return Evaluation(groups=groups, version=step, pass_at={}, reward=0.0, length=0.0, truncated=0.0, statuses={})


@pytest.fixture
def write(tmp_path) -> Callable[[Script], Path]:
    def run(script: Script) -> Path:
        folder = tmp_path / "run"
        config = RunConfig.model_validate({"env": {"type": "object:Made"}, **script.settings})
        with Run.create(folder, recipe=to_toml(config), manifest={"tier": "exact"}, genesis={"config": {}}) as store:
            for step in range(script.steps):
                log = StepLog(step)
                if step == 0:
                    log.evaluation(evaluation(script, 0))
                groups = [group(script, "train", step, step * PROMPTS + k, GROUP) for k in range(PROMPTS)]
                log.rollouts(groups)
                judged = [each for each in groups if each.judged]
                log.advantages([value for each in judged for value in script.advantage(each.rewards)])
                log.stats({name: Mean(value) for name, value in script.metrics(step).items()})
                store.append(log.records())
            if script.status == "finished":
                last = evaluation(script, script.steps)
                found = [r for each in last.groups for r in encode(each, kind="held_out", step=script.steps)]
                store.append([*found, Record(kind="evaluation", step=script.steps, body=last.body())])
            store.set_status(script.status, script.reason)
        return folder

    return run
