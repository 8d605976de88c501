"""Replies that somebody else wrote, judged like any other: what supervised fine-tuning trains on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

from gnomon.engines.base import Engine
from gnomon.envs.base import Env, Episode
from gnomon.envs.workers import EnvWorkers
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.rollout.actor import Actor, one_turn, together
from gnomon.types import Completion, Finish, Group, Rollout, Task

__all__ = ["Demonstrated", "Mixed", "Teacher", "demonstrations"]


def demonstrations(path: Path, env: Env) -> Demonstrated:
    """The environment with only those train tasks to which a file holds a reply.

    Every line of it is a JSON object: `task`, the index of a task in the train split, and `reply`.
    Raises: ConfigError E035 for a file that cannot be read, with the line.
    """
    tasks, found = env.tasks("train"), []
    try:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            where = f"{path}, line {number}"
            entry = json.loads(line)
            found.append((tasks[entry["task"]], str(entry["reply"])))
    except OSError as error:
        raise problem("the demonstrations cannot be read", str(path), str(error.strerror)) from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        why = f"{type(error).__name__}: {error}"
        raise problem("a line of the demonstrations is invalid", where, why) from error
    if not found:
        raise problem("the demonstrations are empty", str(path), "training needs at least one demonstration")
    return Demonstrated(env=env, train=tuple(task for task, _ in found), replies=tuple(reply for _, reply in found))


def problem(what: str, where: str, why: str) -> ConfigError:
    return ConfigError("E035", what, where=where, why=why, fix='write lines such as {"task": 17, "reply": "..."}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstrated:
    """An environment whose train split is what was demonstrated; the test split is as it was."""

    env: Env
    train: tuple[Task, ...]
    replies: tuple[str, ...]
    """To the train tasks, in order."""

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.env.reward_range

    @property
    def max_turns(self) -> int:
        return self.env.max_turns

    def tasks(self, split: str) -> Sequence[Task]:
        return self.train if split == "train" else self.env.tasks(split)

    def start(self, task: Task, key: Key) -> Episode:
        return self.env.start(task, key)


class Teacher(Actor):
    """Collects the demonstrated replies instead of sampling; `play`, and so every evaluation, samples."""

    def __init__(self, env: Demonstrated, tokenizer: Tokenizer, engine: Engine, **settings: Any) -> None:
        one_turn(env)
        super().__init__(env, tokenizer, engine, **{"workers": EnvWorkers(env.env), **settings})
        self.replies = env.replies

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
        shown = await self.shown(tasks, key)
        return [
            Group(task=task, index=index, rollouts=(rollout,))
            for (index, task), rollout in zip(tasks, shown, strict=True)
        ]

    async def shown(self, tasks: Sequence[tuple[int, Task]], key: Key, sample: int = 0) -> list[Rollout]:
        """The demonstrated reply to each task, as the rollout at this place of its group.

        Raises: Unjudged E104 as `play` does.
        """
        plays = self.plays(tasks, key, [sample])
        await self.hear(plays)
        for play in plays:
            reply = self.replies[play.index]
            ids = self.tokenizer.encode(reply)[: self.sampling.max_tokens]
            completion = Completion(
                token_ids=ids, logprobs=(nan,) * len(ids), text=reply, finish=Finish.STOP, version=self.engine.version
            )
            play.seat.talk = self.begun(play.step.messages)
            play.say(completion, reply)
        await self.hear(plays)
        rollouts = [play.rollout(seat=0, group=1) for play in plays]
        groups = [Group(task=r.task, index=p.index, rollouts=(r,)) for p, r in zip(plays, rollouts, strict=True)]
        self.count(plays, groups)
        return rollouts


class Mixed(Teacher):
    """Samples all of a group but one; its last rollout is the demonstrated reply."""

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
        last = self.group - 1
        groups = await self.play(tasks, key, last)
        with together(groups):
            shown = await self.shown(tasks, key, last)
        return [
            replace(group, rollouts=(*group.rollouts, rollout)) for group, rollout in zip(groups, shown, strict=True)
        ]
