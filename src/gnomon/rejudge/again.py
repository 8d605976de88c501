"""Judge stored rollouts again: an environment replays their episodes, or a verifier judges their text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from gnomon.config import Env as EnvConfig
from gnomon.envs import Env
from gnomon.envs.workers import EnvWorkers, verdicts_of
from gnomon.rejudge.stored import Stored
from gnomon.run.find import make_env
from gnomon.types import Message, Task, Verdict
from gnomon.verifiers import settle, settle_all
from gnomon.workers import Pool

__all__ = ["Again", "JudgeSpec", "Judging", "build_judge", "judging"]

AT_ONCE = 64
"""Number of concurrent episodes."""


@dataclass(frozen=True, slots=True)
class Again:
    """The new result of a rollout."""

    verdict: Verdict
    other: int | None = None
    """The first reply, from 1, before which the player's observation differs now; None if none differs."""


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """A verifier or an environment by name: light to send to a worker, which finds it again there."""

    name: str
    options: str = "{}"
    """As JSON: a text can be compared and sent, whatever stands in it."""

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict: Verdict = build_judge(self).verify(task, reply)
        return verdict


@cache
def build_judge(spec: JudgeSpec) -> Any:
    """The verifier or environment."""
    return make_env(EnvConfig(type=spec.name, **json.loads(spec.options)))


Judging = Callable[[Sequence[Stored]], list[Again | None]]
"""Judges rollouts, in order; None for a rollout whose episode cannot be replayed."""


@contextmanager
def judging(spec: JudgeSpec, *, workers: int, seconds: float, memory: int) -> Iterator[Judging]:
    """How rollouts are judged by what was named, in workers that end with the block. Equal ones are judged once.

    Args: seconds: of processor time for one reply; memory: bytes of address space of a worker.
    """
    subject = build_judge(spec)
    if isinstance(subject, Env):
        pool = EnvWorkers(subject, workers=workers, seconds=seconds, memory=memory)
        played: dict[object, Ended] = {}
        try:
            yield lambda rollouts: asyncio.run(all_played(pool, rollouts, played))
        finally:
            pool.close()
        return
    verdicts: dict[tuple[str, str], Verdict] = {}
    with Pool(spec.verify, workers, seconds=seconds, memory=memory, retries=0) as verifiers:
        yield lambda rollouts: verify_again(verifiers, subject.reward_range, rollouts, verdicts)


def verify_again(
    pool: Pool, reward_range: tuple[float, float], rollouts: Sequence[Stored], verdicts: dict[tuple[str, str], Verdict]
) -> list[Again | None]:
    """The verdicts of a verifier on the text of each rollout.

    Args: verdicts: by task and text; the new ones are added.
    """
    fresh = {(r.task.id, r.text): (r.task, r.text) for r in rollouts if (r.task.id, r.text) not in verdicts}
    verdicts |= zip(fresh, settle_all(pool, fresh.values(), partial(settle, reward_range=reward_range)), strict=True)
    return [Again(verdicts[rollout.task.id, rollout.text]) for rollout in rollouts]


@dataclass(frozen=True, slots=True)
class Ended:
    """A replayed episode."""

    verdicts: tuple[Verdict | None, ...]
    observations: tuple[tuple[tuple[Message, ...], ...], ...]
    """The observations of every player before each of its replies."""


async def all_played(
    workers: EnvWorkers, rollouts: Sequence[Stored], endings: dict[object, Ended]
) -> list[Again | None]:
    """The verdicts of an environment on each rollout.

    Args: endings: episodes by what decides them; the new ones are added.
    """
    playable = {episode_key(rollout): rollout for rollout in rollouts if rollout.complete(workers.players)}
    fresh = {name: rollout for name, rollout in playable.items() if name not in endings}
    room = asyncio.Semaphore(AT_ONCE)
    endings |= zip(
        fresh, await asyncio.gather(*(replay_episode(workers, r, room) for r in fresh.values())), strict=True
    )
    ended = [endings.get(episode_key(rollout)) for rollout in rollouts]
    return [None if end is None else again(rollout, end) for rollout, end in zip(rollouts, ended, strict=True)]


def episode_key(rollout: Stored) -> object:
    """The key of an episode: everything that determines it."""
    return rollout.task.id, rollout.key, rollout.replies, rollout.limited


async def replay_episode(workers: EnvWorkers, rollout: Stored, room: asyncio.Semaphore) -> Ended:
    """Replay the episode of a rollout with its stored replies."""
    observations: list[list[tuple[Message, ...]]] = [[] for _ in range(workers.players)]
    replies = [iter(replies or ()) for replies in rollout.replies]
    async with room:
        episode, step = await workers.start(rollout.task, rollout.key)
        while not step.done and (reply := next(replies[step.player], None)) is not None:
            observations[step.player].append(step.messages)
            step = await workers.step(episode, reply)
        workers.abandon(episode)
    if not step.done:
        going_on = "the episode continues after the stored replies"
        step = workers.over("a limit of the run ended it") if rollout.limited else workers.failure_step(going_on)
    return Ended(verdicts_of(step), tuple(map(tuple, observations)))


def again(rollout: Stored, ended: Ended) -> Again:
    verdict = ended.verdicts[rollout.player]
    assert verdict is not None
    return Again(verdict, other=first_difference(rollout.observations, ended.observations[rollout.player]))


def first_difference(were: Sequence[tuple[Message, ...]] | None, are: Sequence[tuple[Message, ...]]) -> int | None:
    """The index, from 1, of the first observation that differs or is missing.

    Before the first observation, the policy may have seen messages that are not the environment's.
    """
    for turn, before in enumerate(were or (), 1):
        now = are[turn - 1] if turn <= len(are) else None
        if now is None or (before[-len(now) :] if turn == 1 and now else before) != now:
            return turn
    return None
