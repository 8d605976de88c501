"""An environment that does what it is told, good or bad: the policy climbs by saying "up" until it is high enough."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.envs import Env, Step
from gnomon.envs.base import identity
from gnomon.keys import Key
from gnomon.types import Message, Part, Status, Task, Verdict


def say(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


def won(value: float) -> Verdict:
    return Verdict(status=Status.CORRECT if value > 0 else Status.WRONG, parts=(Part(name="won", value=value),))


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """Replies besides "up" and "down" harm the process that plays it; `slip` is a fault of its own."""

    rungs: int = 2
    players: int = 1
    slip: str = ""
    """Folder where the first process that hears "slip" leaves a mark, and breaks."""
    seconds: float = 0.0
    """That a step takes, asleep."""

    @property
    def reward_range(self) -> tuple[float, float]:
        return -1.0, 1.0

    @property
    def max_turns(self) -> int:
        return 8

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task(id=identity(split, i), messages=say(f"Climb {i}."), answer=i) for i in range(16)]

    def start(self, task: Task, key: Key) -> Climb:
        return Climb(self, task, key)


class Climb:
    def __init__(self, env: Ladder, task: Task, key: Key) -> None:
        self.env, self.messages, self.at, self.player = env, task.messages, 0, 0
        self.luck = key.random().randrange(1000)
        self.told = {0}

    def step(self, reply: str) -> Step:
        time.sleep(self.env.seconds)
        harm(reply, self.env.slip)
        self.at += reply == "up"
        if self.at >= self.env.rungs or reply == "down":
            gain = 1.0 if self.at >= self.env.rungs else -1.0
            if self.env.players == 1:
                return Step(done=True, verdict=won(gain))
            own = [won(gain if player == self.player else -gain) for player in range(self.env.players)]
            return Step(done=True, verdicts=tuple(own))
        self.player = (self.player + 1) % self.env.players
        opening = "" if self.player in self.told else "You are another. "
        self.told.add(self.player)
        return Step(messages=say(f"{opening}At {self.at}, luck {self.luck}."), done=False, player=self.player)

    def close(self) -> None:
        """Nothing is held."""


def harm(reply: str, folder: str) -> None:
    match reply:
        case "spin":
            while True:
                pass
        case "eat":
            bytearray(2**40)
        case "crash":
            ctypes.string_at(0)
        case "leave":
            os._exit(0)
        case "raise":
            raise KeyError("a rung is missing")
        case "slip" if not os.path.exists(mark := os.path.join(folder, "slipped")):
            open(mark, "x").close()
            os._exit(1)


conforming: Env = Ladder()
