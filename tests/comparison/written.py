"""Runs that tests write record by record, with the replies that they need and no policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gnomon.config import Source, resolve, to_toml
from gnomon.envs import Env
from gnomon.run.find import make_env
from gnomon.store import Record, Run, RunStatus
from gnomon.store.codec import encode
from gnomon.types import Completion, Finish, Group, Part, Rollout, Status, Stop, Task, Turn, Verdict

Replies = Sequence[tuple[str, ...]]
"""Of the rollouts of one task; each has one text per turn."""


def completion(text: str) -> Completion:
    return Completion(token_ids=(5,), logprobs=(0.0,), text=text, finish=Finish.STOP, version=0)


def rollout(task: Task, sample: int, texts: Sequence[str], status: Status) -> Rollout:
    turns, prompt = [], (1,)
    for text in texts:
        turns.append(
            Turn(prompt_ids=prompt, completion=completion(text), messages=task.messages if len(prompt) == 1 else ())
        )
        prompt = (*prompt, 5, 7)
    parts = (Part(name="correct", value=float(status is Status.CORRECT)),)
    return Rollout(
        task=task, sample=sample, turns=tuple(turns), verdict=Verdict(status=status, parts=parts), stop=Stop.DONE
    )  # fmt: skip


def write(
    folder: Path,
    env: Mapping[str, Any],
    steps: Sequence[Mapping[int, Sequence[tuple[tuple[str, ...], Status]]]],
    kind: str = "rollout",
) -> Path:
    """A finished run in an environment.

    Args: steps: by step and index of the task, the texts and the status of its rollouts.
    """
    config, _ = resolve([Source({"env": dict(env)}, {})])
    made: Env = make_env(config.env)
    tasks = made.tasks("train" if kind == "rollout" else "test")
    with Run.create(folder, recipe=to_toml(config), manifest={}, genesis={}) as run:
        for step, groups in enumerate(steps):
            for index, rollouts in groups.items():
                of_task = tuple(rollout(tasks[index], at, *each) for at, each in enumerate(rollouts))
                run.append(list(encode(Group(task=tasks[index], index=index, rollouts=of_task), kind=kind, step=step)))
            run.append([Record(kind="step", step=step, body={"metrics": {}})])
        run.set_status(RunStatus.FINISHED)
    return folder
