"""Demonstrations: replies from a file, judged like sampled ones, for supervised fine-tuning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import nan
from pathlib import Path

from gnomon.engines.base import Engine
from gnomon.envs.base import Env, Episode
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import WeightsRef
from gnomon.rollout.speakers import WHOLE, Cast, Prefix, Speaker, Speakers
from gnomon.types import Completion, Finish, Message, Request, Task

__all__ = ["Demonstrated", "Demonstration", "Shown", "demonstrations"]


def demonstrations(path: Path, env: Env) -> Demonstrated:
    """The environment, with only the train tasks for which a file has a reply.

    Every line of it is a JSON object: `task`, the index of a task in the train split, and `reply`.
    Raises: ConfigError E035 for a file that cannot be read, with the line.
    """
    tasks, pairs = env.tasks("train"), []
    try:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            where = f"{path}, line {number}"
            entry = json.loads(line)
            if not isinstance(entry["reply"], str):
                raise TypeError(f"reply must be text, not {type(entry['reply']).__name__}")
            pairs.append((tasks[entry["task"]], entry["reply"]))
    except OSError as error:
        raise problem("the demonstrations cannot be read", str(path), str(error.strerror)) from error
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise problem("a line of the demonstrations is invalid", where, why) from error
    if not pairs:
        raise problem("the demonstrations are empty", str(path), "training needs at least one demonstration")
    return Demonstrated(env=env, train=tuple(task for task, _ in pairs), replies=tuple(reply for _, reply in pairs))


def problem(what: str, where: str, why: str) -> ConfigError:
    return ConfigError("E035", what, where=where, why=why, fix='write lines such as {"task": 17, "reply": "..."}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstrated:
    """An environment whose train split contains only the demonstrated tasks. Its test split is unchanged."""

    env: Env
    train: tuple[Task, ...]
    replies: tuple[str, ...]
    """Replies to the train tasks, in order."""

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


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A speaker that gives a demonstrated reply."""

    demonstration: str
    tokenizer: Tokenizer
    version: int
    """Version of the policy's weights at that time."""
    learns: bool = True
    preface: tuple[Message, ...] = ()
    prefix: Prefix = WHOLE

    async def reply(self, request: Request) -> Completion:
        ids = self.tokenizer.encode(self.demonstration)[: request.sampling.max_tokens]
        return Completion(
            token_ids=ids, logprobs=(nan,) * len(ids), text=self.demonstration, finish=Finish.STOP, version=self.version
        )

    def text(self, completion: Completion, prompt_ids: Sequence[int]) -> str:
        return self.demonstration


class Shown:
    """Uses the demonstrated reply as the last rollout of every group. Evaluations are sampled.

    Args: own: who replies in the other rollouts; players: number of players of the environment.
    Raises: ConfigError E022 for an environment of several turns or players, since a demonstration is one reply.
    """

    def __init__(
        self, own: Speakers, env: Demonstrated, engine: Engine, tokenizer: Tokenizer, players: int = 1
    ) -> None:
        if env.max_turns != 1 or players != 1:
            raise ConfigError(
                "E022",
                "the environment has several turns, and the objective supports one turn only",
                where=type(env.env).__name__,
                fix="objective=rloo, or another objective that trains on sampled rollouts",
            )
        self.own, self.replies, self.engine, self.tokenizer = own, env.replies, engine, tokenizer

    def sync(self, weights: WeightsRef, step: int) -> None:
        self.own.sync(weights, step)

    def save_state(self, folder: Path) -> None:
        self.own.save_state(folder)

    def load_state(self, folder: Path) -> None:
        self.own.load_state(folder)

    @contextmanager
    def training(self, key: Key, group: int) -> Iterator[Cast]:
        with self.own.training(key, group) as cast:

            def with_demonstration(index: int, sample: int) -> tuple[Speaker, ...]:
                if sample < group - 1:
                    return cast(index, sample)
                return (Demonstration(self.replies[index], self.tokenizer, self.engine.version),)

            yield with_demonstration

    def evaluation(self, key: Key) -> AbstractContextManager[Cast]:
        return self.own.evaluation(key)
