"""Episodes live on workers between their turns, and lose nothing when a worker ends."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from gnomon.envs import ENVS, Env
from gnomon.envs.base import Step
from gnomon.envs.live import End, Episodes, Missing, Reply, Start
from gnomon.envs.workers import EnvWorkers, Remote
from gnomon.keys import Key
from gnomon.types import Message, Part, Status, Task, Verdict
from workers.plays import last_steps

KEY = Key(7).at("episodes")


@dataclass(frozen=True, kw_only=True)
class Notes:
    """An episode of a few turns that notes every start, step and close of it, and does to its process what it is told.

    What it answers depends on all replies so far, so an episode that lost one of them answers otherwise.
    """

    folder: str = ""
    turns: int = 5
    players: int = 1
    reward_range: tuple[float, float] = (-1.0, 1.0)

    @property
    def max_turns(self) -> int:
        return self.turns

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task(id=str(place), messages=(), answer=place) for place in range(100)]

    def start(self, task: Task, key: Key) -> NotedEpisode:
        self.note("start", task)
        return NotedEpisode(self, task, key)

    def note(self, what: str, task: Task) -> None:
        with open(Path(self.folder) / task.id, "a") as file:
            file.write(f"{what} {os.getpid()}\n")

    def notes(self, task: Task) -> list[tuple[str, int]]:
        lines = (Path(self.folder) / task.id).read_text().splitlines()
        return [(line.split()[0], int(line.split()[1])) for line in lines]


class NotedEpisode:
    def __init__(self, env: Notes, task: Task, key: Key) -> None:
        self.env, self.task = env, task
        self.random = key.random()
        self.messages = (Message(role="user", content=f"task {task.id}: {self.random.random()}"),)
        self.replies: list[str] = []
        self.held = b""

    def step(self, reply: str) -> Step:
        self.env.note("step", self.task)
        self.replies.append(reply)
        self.do(reply)
        text = f"{self.random.random()} after {' '.join(self.replies)}"
        if len(self.replies) < self.env.turns:
            player = len(self.replies) % self.env.players
            return Step(messages=(Message(role="user", content=text),), done=False, player=player)
        verdict = Verdict(status=Status.CORRECT, parts=(Part(name="right", value=1.0),), detail=text)
        return Step(done=True, verdict=verdict, verdicts=(verdict,) * self.env.players)

    def do(self, reply: str) -> None:
        word, _, rest = reply.partition(" ")
        if word == "spin":
            while True:
                pass
        if word == "sleep":
            time.sleep(float(rest))
        if word == "exit":
            os._exit(1)
        if word == "raise":
            raise RuntimeError(rest)
        if word == "fill":
            self.held = b"x" * int(rest)
        if word == "pid":
            self.replies[-1] = str(os.getpid())

    def close(self) -> None:
        self.env.note("close", self.task)


def alone(env: Notes, task: Task, replies: Sequence[str]) -> list[Step]:
    """The steps of an episode that is played in this process."""
    episode = env.start(task, KEY.at("episode", task=int(task.id)))
    steps = [Step(messages=episode.messages, done=False)]
    return steps + [episode.step(reply) for reply in replies]


def children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, fields = path.read_text().rpartition(")")
            if fields.split()[1] == str(pid):
                found.append(int(name.split()[0]))
    return found


async def begun(workers: EnvWorkers, task: Task, replies: Sequence[str] = ()) -> Remote:
    episode, _ = await workers.start(task, KEY.at("episode", task=int(task.id)))
    for reply in replies:
        await workers.step(episode, reply)
    return episode


@pytest.fixture
def env(tmp_path: Path) -> Notes:
    return Notes(folder=str(tmp_path))


@pytest.mark.parametrize("players", [1, 2])
@pytest.mark.parametrize("workers", [1, 3])
def test_every_turn_costs_one_step_on_the_worker_that_keeps_the_episode(tmp_path, workers, players):
    env = Notes(folder=str(tmp_path), turns=8, players=players)
    tasks = env.tasks("train")[:12]

    async def play() -> list[Remote]:
        pool = EnvWorkers(env, workers=workers)
        try:
            return await asyncio.gather(*(begun(pool, task, ["word"] * 8) for task in tasks))
        finally:
            pool.close()

    episodes = asyncio.run(play())
    used = set()
    for task, episode in zip(tasks, episodes, strict=True):
        noted = env.notes(task)
        assert [what for what, _ in noted] == ["start", *["step"] * 8, "close"]
        assert len({pid for _, pid in noted}) == 1
        used.add(noted[0][1])
        assert episode.steps == alone(env, task, ["word"] * 8)
    assert len(used) == workers


@pytest.mark.parametrize("turn", range(5))
@pytest.mark.parametrize("kept", [1, 256])
def test_a_worker_may_be_killed_between_any_two_turns(env, turn, kept):
    """Three episodes on two workers; all workers are killed before a turn, also where most episodes are not kept."""
    tasks = env.tasks("train")[:3]

    async def play() -> list[Remote]:
        pool = EnvWorkers(env, workers=2, episodes=kept)
        try:
            episodes = await asyncio.gather(*(begun(pool, task) for task in tasks))
            for now in range(5):
                if now == turn:
                    for pid in {pid for task in tasks for _, pid in env.notes(task)}:
                        os.kill(pid, signal.SIGKILL)
                await asyncio.gather(*(pool.step(episode, f"r{now}") for episode in episodes))
            return episodes
        finally:
            pool.close()

    for task, episode in zip(tasks, asyncio.run(play()), strict=True):
        assert episode.steps == alone(env, task, [f"r{now}" for now in range(5)])


def test_workers_may_be_killed_at_any_moment(env):
    """A thread kills one worker after the other, while twenty episodes play.

    A kill ends one try of one episode, so no episode can run out of tries: there are more of them than kills.
    """
    tasks, kills, over = env.tasks("train")[:20], 100, threading.Event()
    pool = EnvWorkers(env, workers=3, retries=kills)

    def kill() -> None:
        draw = random.Random(0)
        for _ in range(kills):
            if over.wait(0.02 * draw.random()):
                return
            if found := children(pool._pool._server.pid):
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(found), signal.SIGKILL)

    async def play() -> list[Remote]:
        return await asyncio.gather(*(begun(pool, task, ["sleep 0.01"] * 5) for task in tasks))

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        episodes = asyncio.run(play())
    finally:
        over.set()
        killer.join()
        pool.close()
    assert len({pid for task in tasks for _, pid in env.notes(task)}) > 10
    for task, episode in zip(tasks, episodes, strict=True):
        assert episode.steps == alone(env, task, ["sleep 0.01"] * 5)


@pytest.mark.parametrize(("bomb", "status"), [("spin", Status.EXCEEDED), ("exit", Status.FAILED)])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_episode_that_ends_its_worker_harms_no_other(env, bomb, status, workers):
    """Every third of a dozen episodes does it, each in another turn."""
    scripts = [
        [bomb if place % 3 == 0 and turn == place // 3 else f"r{turn}" for turn in range(5)] for place in range(12)
    ]
    tasks = env.tasks("train")[:12]

    async def one(pool: EnvWorkers, task: Task, script: list[str]) -> Remote:
        episode = await begun(pool, task)
        for reply in script:
            if (await pool.step(episode, reply)).done:
                break
        return episode

    async def play() -> list[Remote]:
        pool = EnvWorkers(env, workers=workers, seconds=0.3)
        try:
            return await asyncio.gather(*(one(pool, task, script) for task, script in zip(tasks, scripts, strict=True)))
        finally:
            pool.close()

    for place, episode in enumerate(asyncio.run(play())):
        end = episode.steps[-1].verdict
        assert end is not None
        if place % 3 == 0:
            assert end.status is status and len(episode.replies) == place // 3 + 1
        else:
            assert episode.steps == alone(env, tasks[place], scripts[place])


def test_what_other_episodes_hold_in_memory_is_not_charged_to_one(env):
    """Each holds less than half of what a worker may, and three of them are on one worker."""
    size = 220 * 2**20
    scripts = [(task, KEY, [f"fill {size}", "a", "b", "c", "d"]) for task in env.tasks("train")[:3]]
    steps = last_steps(env, scripts, workers=1, memory=2**29)
    assert [step.verdict and step.verdict.status for step in steps] == [Status.CORRECT] * 3
    (step,) = last_steps(env, [(env.tasks("train")[5], KEY, [f"fill {2**29}"])], workers=1, memory=2**29)
    assert step.verdict is not None and step.verdict.status is Status.EXCEEDED


def test_an_environment_that_breaks_is_tried_again_and_then_has_failed(env):
    task = env.tasks("train")[0]
    (step,) = last_steps(env, [(task, KEY, ["a", "raise no"])], workers=1, retries=2)
    assert (
        step.verdict is not None and step.verdict.status is Status.FAILED and "RuntimeError: no" in step.verdict.detail
    )
    assert [what for what, _ in env.notes(task)] == ["start", "step", "step", "close"] + [
        "start",
        "step",
        "step",
        "close",
    ] * 2


def test_an_environment_that_is_not_deterministic_has_failed(env):
    """It answers with its process id; what follows shows only once the episode is played again elsewhere."""
    task = env.tasks("train")[0]

    async def play(kill: bool) -> Step:
        pool = EnvWorkers(env, workers=1)
        try:
            episode = await begun(pool, task, ["pid"])
            if kill:
                os.kill(env.notes(task)[-1][1], signal.SIGKILL)
            return await pool.step(episode, "next")
        finally:
            pool.close()

    assert not asyncio.run(play(False)).done
    verdict = asyncio.run(play(True)).verdict
    assert verdict is not None and verdict.status is Status.FAILED
    assert "not deterministic" in verdict.detail and "step 1" in verdict.detail


def test_episodes_that_are_abandoned_or_pushed_out_are_closed(env):
    tasks = env.tasks("train")[:6]

    async def play() -> None:
        pool = EnvWorkers(env, workers=1, episodes=4)
        try:
            episodes = [await begun(pool, task, ["a"]) for task in tasks]
            for episode in episodes:
                pool.abandon(episode)
                pool.abandon(episode)
            await begun(pool, env.tasks("train")[7])  # It waits for all that was asked before it.
            with pytest.raises(ValueError, match="over"):
                await pool.step(episodes[0], "b")
        finally:
            pool.close()

    asyncio.run(play())
    for task in tasks:
        assert [what for what, _ in env.notes(task)] == ["start", "step", "close"]


def test_a_cancelled_step_can_be_asked_again_and_nothing_waits(env):
    task = env.tasks("train")[0]

    async def play() -> list[Step]:
        pool = EnvWorkers(env, workers=1, seconds=30)
        try:
            episode = await begun(pool, task, ["a"])
            running = asyncio.ensure_future(pool.step(episode, "sleep 60"))
            await asyncio.sleep(0.2)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            began = time.monotonic()
            await pool.step(episode, "b")
            assert time.monotonic() - began < 10
            return episode.steps
        finally:
            pool.close()

    assert asyncio.run(play()) == alone(env, task, ["a", "b"])


def test_the_loop_is_free_while_environments_run(env):
    async def play() -> int:
        pool, ticks = EnvWorkers(env, workers=2, seconds=5), 0
        try:
            running = asyncio.gather(*(begun(pool, task, ["sleep 0.3"]) for task in env.tasks("train")[:4]))
            while not running.done():
                await asyncio.sleep(0.01)
                ticks += 1
            return ticks
        finally:
            pool.close()

    assert asyncio.run(play()) >= 20


def test_a_pool_that_nobody_closed_ends_with_its_last_reference(env):
    async def play() -> int:
        pool = EnvWorkers(env, workers=1)
        await begun(pool, env.tasks("train")[0])
        return env.notes(env.tasks("train")[0])[0][1]

    pid = asyncio.run(play())
    gc.collect()
    due = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < due:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("name", ["countdown", "guess_number", "kuhn_poker"])
def test_shipped_environments_play_the_same_on_workers_and_here(name):
    env: Env = ENVS[name]()
    tasks = [env.tasks("train")[place] for place in range(4)]
    replies = ["<answer>1</answer>", "no", "<answer>check</answer>", "<answer>bet</answer>"]

    async def play(kept: int) -> list[list[Step]]:
        pool = EnvWorkers(env, workers=2, episodes=kept)

        async def one(task: Task) -> list[Step]:
            episode, step = await pool.start(task, KEY)
            while not step.done:
                step = await pool.step(episode, replies[len(episode.replies) % 4])
            return episode.steps

        try:
            return await asyncio.gather(*map(one, tasks))
        finally:
            pool.close()

    here = []
    for task in tasks:
        episode = env.start(task, KEY)
        steps = [Step(messages=episode.messages, done=False)]
        while not steps[-1].done:
            steps.append(episode.step(replies[(len(steps) - 1) % 4]))
        here.append(steps)
    assert asyncio.run(play(256)) == asyncio.run(play(1)) == here


def test_a_worker_closes_the_episode_that_was_used_last_when_it_keeps_too_many(env):
    episodes, tasks = Episodes(env, most=2), env.tasks("train")
    for number in range(3):
        episodes(Start(number, tasks[number], KEY))
    assert episodes(Reply(1, 0, "a")) == Missing() and isinstance(episodes(Reply(0, 0, "a")), Step)
    assert episodes(Reply(0, 0, "a")) == Missing()  # That turn is over, so the record and the worker differ.
    assert episodes(End(2)) == episodes(End(9)) == Missing()
    assert [env.notes(task)[-1][0] for task in tasks[:3]] == ["close"] * 3


@dataclass(frozen=True, kw_only=True)
class Unrepeatable(Notes):
    reproducible: bool = False


@pytest.mark.parametrize(("kind", "turn", "moves"), [(Notes, 0, True), (Notes, 1, False), (Unrepeatable, 0, False)])
def test_a_first_reply_does_not_wait_for_a_worker_that_is_busy_for_long(tmp_path, kind, turn, moves):
    """Four episodes on two workers. While one sleeps in its reply, the other episode of that worker goes on elsewhere,
    unless it has had a reply before or its environment need not repeat itself."""
    env = kind(folder=str(tmp_path), turns=3)
    tasks = env.tasks("train")[:4]

    async def play() -> tuple[float, float]:
        pool = EnvWorkers(env, workers=2, seconds=5.0)
        try:
            episodes = [await begun(pool, task, ["word"] * turn) for task in tasks]
            where = [env.notes(task)[0][1] for task in tasks]
            slow = next(place for place in range(1, 4) if where[place] == where[0])
            began = time.monotonic()
            sleeping = asyncio.ensure_future(pool.step(episodes[0], "sleep 2.5"))
            await asyncio.sleep(0.05)
            await pool.step(episodes[slow], "word")
            waited = time.monotonic() - began
            await sleeping
            starts = [note for note in env.notes(tasks[slow]) if note[0] == "start"]
            assert len({pid for _, pid in starts}) == (2 if moves else 1)
            return waited, time.monotonic() - began
        finally:
            pool.close()

    waited, slept = asyncio.run(play())
    assert slept >= 2.5 and (waited < 2.4) == moves
