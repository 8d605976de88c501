"""What an episode costs by its number of turns: kept on its worker between them, or replayed at every turn.

    python benchmarks/turn_cost.py

An environment that computes for a millisecond in every step plays episodes of 2, 8 and 32 turns, many at once on two
workers. Each line gives milliseconds of wall-clock time per episode and per turn, the median of the rounds: with
episodes that live on their worker, and with workers that keep one episode each, so that almost every turn replays its
episode from the record.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.envs.base import Step
from gnomon.envs.workers import EnvWorkers
from gnomon.keys import Key
from gnomon.types import Message, Part, Status, Task, Verdict

SAY = (Message(role="user", content="go on"),)


@dataclass(frozen=True, kw_only=True)
class Computing:
    """An episode of a given number of turns, each of which uses processor time."""

    turns: int
    seconds: float = 0.001
    reward_range: tuple[float, float] = (0.0, 1.0)

    @property
    def max_turns(self) -> int:
        return self.turns

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task(id="1", messages=SAY, answer=None)]

    def start(self, task: Task, key: Key) -> ComputingEpisode:
        return ComputingEpisode(self)


class ComputingEpisode:
    def __init__(self, env: Computing) -> None:
        self.env, self.messages, self.left = env, SAY, env.turns

    def step(self, reply: str) -> Step:
        began = time.process_time()
        while time.process_time() - began < self.env.seconds:
            pass
        self.left -= 1
        if self.left:
            return Step(messages=SAY, done=False)
        return Step(done=True, verdict=Verdict(status=Status.CORRECT, parts=(Part(name="played", value=1.0),)))

    def close(self) -> None:
        """Nothing is held."""


def milliseconds(turns: int, episodes: int, kept: int, workers: int) -> float:
    """Of wall-clock time per episode, with all episodes at once."""
    env = Computing(turns=turns)
    (task,) = env.tasks("train")

    async def one(pool: EnvWorkers, number: int) -> None:
        episode, step = await pool.start(task, Key(0).at("episode", sample=number))
        while not step.done:
            step = await pool.step(episode, "on")

    async def every(pool: EnvWorkers) -> float:
        await one(pool, -1)  # The workers start.
        began = time.perf_counter()
        await asyncio.gather(*(one(pool, number) for number in range(episodes)))
        return 1000 * (time.perf_counter() - began) / episodes

    pool = EnvWorkers(env, workers=workers, episodes=kept)
    try:
        return asyncio.run(every(pool))
    finally:
        pool.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}, {options.workers} workers")
    for name, kept in (("kept on its worker", 256), ("replayed each turn", 1)):
        for turns in (2, 8, 32):
            rounds = [milliseconds(turns, options.episodes, kept, options.workers) for _ in range(options.rounds)]
            cost = statistics.median(rounds)
            print(f"{name:<20} {turns:>3} turns   {cost:8.2f} ms per episode   {cost / turns:6.2f} ms per turn")


if __name__ == "__main__":
    main()
