"""An actor cleans up after itself, whatever breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from gnomon.engines.scripted import Scripted
from gnomon.envs import Arithmetic
from gnomon.envs.base import Episode, Step
from gnomon.errors import VerifierError
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rollout import Actor
from gnomon.types import Completion, Message, Request, Sampling, Task


@dataclass(kw_only=True)
class Held:
    """An episode that notes in a common list that it is open."""

    inner: Episode
    open: list[Episode]

    def __post_init__(self) -> None:
        self.open.append(self)

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.inner.messages

    def step(self, reply: str) -> Step:
        return self.inner.step(reply)

    def close(self) -> None:
        self.open.remove(self)


@dataclass(frozen=True, kw_only=True)
class Counted(Arithmetic):
    open: list[Episode] = field(default_factory=list)

    def start(self, task: Task, key: Key) -> Episode:
        return Held(inner=super().start(task, key), open=self.open)


def collect(env: Counted, engine: Scripted) -> None:
    tasks = [(index, env.tasks("train")[index]) for index in range(3)]
    actor = Actor(env, engine.tokenizer, engine, group=2, sampling=Sampling(max_tokens=32))
    asyncio.run(actor.collect(tasks, Key(0)))


def test_episodes_are_closed_after_an_engine_that_raises():
    env = Counted()

    class Broken(Scripted):
        async def sample(self, requests: Sequence[Request]) -> list[Completion]:
            assert len(env.open) == 6
            raise RuntimeError("the engine broke")

    with pytest.raises(RuntimeError, match="the engine broke"):
        collect(env, Broken(Tokenizer(model_folder("tiny")), lambda prompt, place: ""))
    assert env.open == []


def test_episodes_are_closed_after_a_judge_that_raises_and_after_none_does():
    class Faulty(Counted):
        def verify(self, task: Task, reply: str):  # type: ignore[no-untyped-def]
            raise KeyError("missing")

    tokenizer = Tokenizer(model_folder("tiny"))
    sound, faulty = Counted(), Faulty()
    collect(sound, Scripted(tokenizer, lambda prompt, place: "<answer>1</answer>"))
    with pytest.raises(VerifierError, match="E104"):
        collect(faulty, Scripted(tokenizer, lambda prompt, place: "<answer>1</answer>"))
    assert sound.open == faulty.open == []
