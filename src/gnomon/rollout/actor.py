"""An actor plays tasks and returns their groups. Every episode is an independent coroutine."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from gnomon.engines.base import Counted, Engine, Mixing, Tier
from gnomon.envs.base import Env
from gnomon.envs.workers import EnvWorkers
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import WeightsRef
from gnomon.rendering import Renderer
from gnomon.rollout.failures import Failures, together
from gnomon.rollout.played import Finished, Played
from gnomon.rollout.relabel import Relabel
from gnomon.rollout.reward import Reward
from gnomon.rollout.rounds import Rounds
from gnomon.rollout.runner import Episode, Limits, LocalRunner, Runner, reply_keys
from gnomon.rollout.select import Selector
from gnomon.rollout.speakers import Cast, Speakers
from gnomon.stats import Stats
from gnomon.types import Group, Sampling, Task

__all__ = ["Actor", "Progress", "all_of", "no_progress"]

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Called with the number of finished episodes and their total."""


Earlier = Callable[[str, int], Sequence[Group]]
"""Takes `rollout`, `held_out` or `held_out.SET`, and a step. Returns the groups that were recorded there, or none."""


def no_progress(done: int, total: int) -> None:
    """Shows no progress."""


def no_records(kind: str, step: int) -> Sequence[Group]:
    """Every group is sampled."""
    return ()


class Actor:
    """Plays an environment with an engine.

    Args:
        group: rollouts per task.
        sampling: how every completion is drawn.
        renderer: the format of the model family; by default chosen from the tokenizer's folder.
        workers: run the environment; by default two processes.
        speakers: who replies for each player; by default the engine for all.
        selector: selects the groups to train on; by default all that were planned.
        reward: decides the rewards of the groups; by default they are the verifier's.
        relabel: changes rollouts before training; by default they are trained as sampled.
        greedy: play every task that is trained on once more, at temperature 0 (`Group.greedy`).
        runner: runs the episodes; by default this process.
        kind: of the records of evaluations: `held_out`, or `held_out.SET`.
        progress: called after every finished episode.
    """

    def __init__(
        self,
        env: Env,
        tokenizer: Tokenizer,
        engine: Engine,
        *,
        group: int,
        sampling: Sampling,
        renderer: Renderer | None = None,
        workers: EnvWorkers | None = None,
        limits: Limits | None = None,
        speakers: Speakers | None = None,
        selector: Selector | None = None,
        reward: Reward | None = None,
        relabel: Relabel | None = None,
        greedy: bool = False,
        runner: Runner | None = None,
        kind: str = "held_out",
        progress: Progress = no_progress,
    ) -> None:
        here = LocalRunner(env, tokenizer, engine, renderer=renderer, workers=workers, limits=limits)
        self.runner: Runner = runner or here
        self.env, self.tokenizer, self.engine = env, tokenizer, engine
        self.renderer, self.workers, self.limits = here.renderer, here.workers, here.limits
        self.group, self.sampling, self.progress, self.greedy = group, sampling, progress, greedy
        self.speakers = speakers or here.own()
        self.selector, self.reward, self.relabel = selector, reward, relabel
        self.kind = kind
        self.failures = Failures(type(env).__name__, self.limits.failures)
        self.earlier: Earlier = no_records
        """Groups that are read back instead of sampled, where a resumed run does not repeat its samples."""
        self.finished: Finished | None = None
        """Episodes that finished before a run was resumed, in steps that were not recorded."""
        replies = here.turns * sampling.max_tokens
        self.longest = replies if here.limits.context is None else min(replies, here.limits.context)
        """Largest number of tokens that a rollout can sample: all replies at their limit, within one context."""
        self.step, self.weights = 0, ""
        """The run's step that begins with the current weights, and their `identity`."""

    @property
    def exact(self) -> bool:
        """Whether the engine's log-probabilities are bitwise equal to the learner's."""
        return self.engine.tier is Tier.EXACT

    async def sync(self, weights: WeightsRef, step: int) -> None:
        """Sample with these weights from now on. Args: step: the run's step that begins with them."""
        self.step, self.weights = step, weights.identity
        self.speakers.sync(weights, step)

    def save_state(self, folder: Path) -> None:
        """Write the state for the next steps of a run into a checkpoint."""
        self.speakers.save_state(folder)

    def load_state(self, folder: Path) -> None:
        """Restore the state from a checkpoint."""
        self.speakers.load_state(folder)

    def counts(self) -> Stats:
        """What went wrong in the engine since the last call, as metrics of a step."""
        return self.engine.counts() if isinstance(self.engine, Counted) else {}

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
        """The groups of a training step.

        Args: tasks: each with its index in the split; key: of this step.
        Raises: Unjudged E104 if the environment failed in too many rollouts.
        """
        if recorded := [group for group in self.earlier("rollout", self.step) if group.replayed is None]:
            return recorded
        with self.speakers.training(key, self.group) as cast:
            sampling = self.relabel.sampling(self.sampling) if self.relabel else self.sampling

            async def play(planned: Sequence[tuple[int, Task]]) -> list[Group]:
                return await self._groups(planned, key, self.group, cast, sampling)

            groups = await (self.selector.groups(tasks, key, play) if self.selector else play(tasks))
            if self.greedy:
                groups = await self._with_greedy(groups, key.at("greedy"), cast, replace(sampling, temperature=0.0))
            if self.reward:
                groups = await self.reward.groups(groups, key)
        if self.relabel:
            change = self.relabel.rollout
            groups = [replace(group, rollouts=tuple(map(change, group.rollouts))) for group in groups]
        return groups

    async def _with_greedy(self, groups: Sequence[Group], key: Key, cast: Cast, sampling: Sampling) -> list[Group]:
        """The groups, those that are trained on with a greedy rollout of the same task and player."""
        tasks = {group.index: group.task for group in groups if not group.spare}
        with together(groups):
            played = await self._groups(list(tasks.items()), key, 1, cast, sampling)
        greedy = {(group.index, rollout.player): rollout for group in played for rollout in group.rollouts}
        return [
            group if group.spare else replace(group, greedy=greedy[group.index, group.rollouts[0].player])
            for group in groups
        ]

    async def rollouts(self, tasks: Sequence[tuple[int, Task]], key: Key, group: int) -> list[Group]:
        """Play every task `group` times as in an evaluation, without selection, demonstrations or relabelling.

        Args, Raises: as in `collect`.
        """
        if recorded := self.earlier(self.kind, self.step):
            return list(recorded)
        with self.speakers.evaluation(key) as cast:
            return await self._groups(tasks, key, group, cast, self.sampling)

    async def _groups(
        self, tasks: Sequence[tuple[int, Task]], key: Key, group: int, cast: Cast, sampling: Sampling
    ) -> list[Group]:
        """A group for every task and every learning player, in order."""
        deadline, running = time.monotonic() + self.limits.seconds, asyncio.Semaphore(self.runner.room)
        total, number = len(tasks) * group, itertools.count(1)
        mixes = isinstance(self.engine, Mixing) and self.engine.mixes
        rounds = Rounds(total, self.runner.room) if mixes else None
        finished = None if mixes else self.finished  # Without those that ended, the others would have other bits.

        async def play(index: int, task: Task, sample: int) -> Played:
            episode = Episode(
                task=task,
                key=key.at("episode", task=index, sample=sample),
                speakers=cast(index, sample),
                reply_key=reply_keys(key, index, sample),
                sampling=sampling,
                deadline=deadline,
                rounds=rounds,
            )
            name = f"{self.weights}-{episode.key.bytes.hex()}"
            played = finished.get(self.step, name, task, episode.speakers) if finished else None
            if played is None:
                async with running:
                    played = await self.runner.run(episode)
                if finished:
                    finished.add(self.step, name, index, played)
            self.progress(next(number), total)
            return played

        all_played = await all_of([play(*task, sample) for task in tasks for sample in range(group)])
        samples = [all_played[start : start + group] for start in range(0, total, group)]
        groups = [
            Group(task=task, index=index, rollouts=tuple(p.rollout(n, s + n * group) for s, p in enumerate(played)))
            for (index, task), played in zip(tasks, samples, strict=True)
            for n, speaker in enumerate(played[0].speakers)
            if speaker.learns
        ]
        broken = [
            (index, p.rollout(0, s))
            for (index, _), played in zip(tasks, samples, strict=True)
            for s, p in enumerate(played)
            if p.failed
        ]
        self.failures.count(total, broken, groups)
        return groups


async def all_of(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of coroutines, in order. If one raises, the others are cancelled before the error is raised."""
    tasks = [asyncio.ensure_future(part) for part in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
