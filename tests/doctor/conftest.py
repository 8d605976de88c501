"""Run folders whose rollouts are made up and whose records are made by the recorder of real runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import pytest

from gnomon.config import RunConfig, to_toml
from gnomon.stats import mean_interval
from gnomon.store import Record, Run
from gnomon.training.step import records_of, rollout_stats
from gnomon.types import Calls, Completion, Finish, Group, Message, Part, Rollout, Status, Stop, Task, Turn, Verdict
from gnomon.verifiers.breakdown import breakdown, entries

STEPS, PROMPTS, GROUP, HELD_OUT = 12, 12, 4, 80


NONE = Calls()


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What one rollout came to."""

    status: Status
    answer: str | None
    text: str
    tokens: int = 12
    cut: bool = False
    stop: Stop = Stop.DONE
    """Where it is neither cut nor failed."""
    parts: tuple[Part, ...] = ()
    end: str = ""
    """Of a program."""
    calls: Calls = NONE
    silent: bool = False
    """Whether the program received no reply."""


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
    stop = Stop.FAILED if found.status is Status.FAILED else Stop.TRUNCATED if found.cut else found.stop
    turn = Turn(prompt_ids=(1,), completion=completion, messages=task.messages)
    turns = () if found.silent else (turn,)
    return Rollout(task=task, sample=sample, turns=turns, verdict=verdict, stop=stop, end=found.end, calls=found.calls)


def group(script: Script, split: str, step: int, index: int, size: int) -> Group:
    rng = random.Random(f"{split} {step} {index}")
    text = script.question(split, index)
    asked = Task(id=f"{split}{index}", messages=(Message(role="user", content=text),), answer=index % 10)
    play = script.test_play or script.play if split == "test" else script.play
    replies = [play(step, index, sample, rng) for sample in range(size)]
    rollouts = [rollout(asked, sample, reply, script.version(step)) for sample, reply in enumerate(replies)]
    return Group(task=asked, index=index, rollouts=tuple(rollouts))


def evaluated(script: Script, step: int, kind: str) -> list[Record]:
    """The records of an evaluation."""
    groups = [group(script, "test", step, index, 1) for index in range(HELD_OUT)]
    rate = mean_interval([float(each.rollouts[0].verdict.correct) for each in groups])
    body = {"pass_at": {"1": asdict(rate)}, "length": 12.0, "truncated": 0.0, "statuses": {}}
    return [*records_of("held_out", step, groups), Record(kind=kind, step=step, body=body)]


@pytest.fixture
def write(tmp_path) -> Callable[[Script], Path]:
    def run(script: Script) -> Path:
        folder = tmp_path / "run"
        config = RunConfig.model_validate({"env": {"type": "object:Made"}, **script.settings})
        with Run.create(folder, recipe=to_toml(config), manifest={"tier": "exact"}, genesis={"config": {}}) as store:
            for step in range(script.steps):
                if step == 0:
                    store.append(evaluated(script, 0, "baseline"))
                groups = [group(script, "train", step, step * PROMPTS + k, GROUP) for k in range(PROMPTS)]
                judged = [each for each in groups if each.judged]
                credit = [{"advantage": value} for each in judged for value in script.advantage(each.rewards)]
                stats = {**rollout_stats(groups), **breakdown(entries(groups))}
                metrics = {name: stat.value for name, stat in stats.items()} | dict(script.metrics(step))
                finite = {name: value for name, value in metrics.items() if isfinite(value)}
                done = Record(kind="step", step=step, body={"metrics": finite, "statuses": {}})
                store.append([*records_of("rollout", step, groups, credit), done])
            if script.status == "finished":
                store.append(evaluated(script, script.steps, "evaluation"))
            store.set_status(script.status, script.reason)
        return folder

    return run
