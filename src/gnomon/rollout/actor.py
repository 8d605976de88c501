"""An actor plays tasks: environment × renderer × engine → groups. Every episode is an independent coroutine."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gnomon.agents.recorder import Bounds, Recorder
from gnomon.engines.base import Counted, Engine, Tier
from gnomon.envs.agent import Launch
from gnomon.envs.base import Env, Step
from gnomon.envs.workers import EnvWorkers, Remote
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import WeightsRef
from gnomon.rendering import Renderer, Transcript, choose
from gnomon.rollout.conversation import Conversation, beginning
from gnomon.rollout.failures import Failures, together
from gnomon.rollout.finished import Finished, NotKept
from gnomon.rollout.played import Played
from gnomon.rollout.programs import Programs
from gnomon.rollout.relabel import AsSampled, Relabel
from gnomon.rollout.reward import ByVerifier, Reward
from gnomon.rollout.select import All, Selector
from gnomon.rollout.speakers import Cast, Own, Speaker, Speakers
from gnomon.stats import Stats
from gnomon.types import Group, Request, Sampling, Stop, Task

__all__ = ["Actor", "Limits", "Place", "Progress", "unseen"]

AT_ONCE = 1024
"""Largest number of concurrent episodes in this process, unless the environment workers keep more."""
T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Called with the number of finished episodes and their total."""


Earlier = Callable[[str, int], Sequence[Group]]
"""Takes `rollout`, `held_out` or `held_out.SET`, and a step. Returns the groups that were recorded there, or none."""


def unseen(done: int, total: int) -> None:
    """Shows no progress."""


def unrecorded(kind: str, step: int) -> Sequence[Group]:
    """Every group is sampled."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that end an episode before its environment does."""

    turns: int | None = None
    """Largest number of replies, over all players; by default the environment's `max_turns`."""
    context: int | None = None
    """Largest number of tokens of one player's conversation, sampled and observed."""
    seconds: float = inf
    """Wall-clock seconds for all episodes played together. A run that reaches this limit is not reproducible."""
    failures: float = 0.005
    """Largest fraction of rollouts in which the environment may fail before the run stops."""


class Place(Protocol):
    """Where the episodes of an actor are played."""

    @property
    def room(self) -> int:
        """Most episodes of one call that are begun and not over."""
        ...

    async def play(
        self,
        task: Task,
        key: Key,
        speakers: Sequence[Speaker] = (),
        *,
        drawn: Callable[[int], Key] | None = None,
        sampling: Sampling | None = None,
        deadline: float = inf,
    ) -> Played:
        """One episode. Args: as of `Actor.play`."""
        ...


BUDGETS = {
    Stop.TURNS: "the turns were used up before the episode was over",
    Stop.CONTEXT: "the conversation has no room left, and the episode is not over",
    Stop.TIME: "the time was used up before the episode was over",
}


class Actor:
    """Plays an environment with an engine.

    Args:
        group: rollouts per task.
        sampling: how every completion is drawn.
        renderer: the format of the model family; by default chosen from the tokenizer's folder.
        workers: run the environment; by default two processes.
        speakers: who replies for each player; by default the engine for all.
        selector: selects the groups to train on; by default all.
        reward: decides the rewards of the groups; by default the verifier's.
        relabel: changes rollouts before training; by default they are trained as sampled.
        greedy: play every task that is trained on once more, at temperature 0 (`Group.greedy`).
        place: where the episodes of groups are played; by default here, by `play`.
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
        place: Place | None = None,
        kind: str = "held_out",
        progress: Progress = unseen,
    ) -> None:
        self.env, self.tokenizer, self.engine = env, tokenizer, engine
        self.group, self.sampling, self.progress, self.greedy = group, sampling, progress, greedy
        self.renderer = renderer or choose(tokenizer, turns=env.max_turns)
        self.workers, self.limits = workers or EnvWorkers(env), limits or Limits()
        self.speakers = speakers or Own(engine, self.renderer, self.workers.players)
        self.selector, self.reward, self.relabel = selector or All(), reward or ByVerifier(), relabel or AsSampled()
        self.place: Place = place or self
        self.kind = kind
        self.failures = Failures(type(env).__name__, self.limits.failures)
        self.earlier: Earlier = unrecorded
        """Groups that are read back instead of sampled, where a resumed run does not repeat its samples."""
        self.finished: Finished = NotKept()
        """Episodes that finished before a run was resumed, in steps that were not recorded."""
        self.programs = Programs()
        self._begin = beginning(env, self.renderer)
        self.step, self.weights = 0, ""
        """The run's step that begins with the current weights, and their `identity`."""

    @property
    def exact(self) -> bool:
        """Whether the engine's log-probabilities are bitwise equal to the learner's."""
        return self.engine.tier is Tier.EXACT

    @property
    def room(self) -> int:
        """Most concurrent episodes that are played here."""
        return max(AT_ONCE, self.workers.room)

    @property
    def longest(self) -> int:
        """Largest number of tokens that a rollout can sample: all replies at their limit, within one context."""
        whole = self._turns * self.sampling.max_tokens
        return whole if self.limits.context is None else min(whole, self.limits.context)

    @property
    def _turns(self) -> int:
        return min(self.limits.turns or self.env.max_turns, self.env.max_turns)

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
            sampling = self.relabel.sampling(self.sampling)

            async def play(chosen: Sequence[tuple[int, Task]]) -> list[Group]:
                return await self._groups(chosen, key, self.group, cast, sampling)

            groups = await self.selector.groups(tasks, key, play)
            if self.greedy:
                groups = await self._with_greedy(groups, key.at("greedy"), cast, replace(sampling, temperature=0.0))
            groups = await self.reward.groups(groups, key)
        return [replace(group, rollouts=tuple(map(self.relabel.rollout, group.rollouts))) for group in groups]

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

        Args, Raises: as of `collect`.
        """
        if recorded := self.earlier(self.kind, self.step):
            return list(recorded)
        with self.speakers.evaluation(key) as cast:
            return await self._groups(tasks, key, group, cast, self.sampling)

    async def play(
        self,
        task: Task,
        key: Key,
        speakers: Sequence[Speaker] = (),
        *,
        drawn: Callable[[int], Key] | None = None,
        sampling: Sampling | None = None,
        deadline: float = inf,
    ) -> Played:
        """One episode.

        Args:
            key: key of the episode's random draws.
            speakers: one per player; by default the engine for all.
            drawn: returns the key of reply t; by default `key.at("reply", turn=t)`.
            sampling: how every completion is drawn; by default the actor's `sampling`.
            deadline: monotonic time after which no reply begins.
        """
        sampling, drawn = sampling or self.sampling, drawn or (lambda turn: key.at("reply", turn=turn))
        cast = tuple(speakers) or Own(self.engine, self.renderer, self.workers.players).cast(0, 0)
        conversations = tuple(Conversation(self._begin, s.preface, s.prefix.token_ids) for s in cast)
        episode, step = await self.workers.start(task, key)
        if step.launch is not None:
            return await self._run(episode, step.launch, cast, drawn(0), sampling)
        stop, before = None, len(cast[0].prefix.text)
        try:
            for turn in itertools.count():
                if step.done:
                    break
                speaker, conversation = cast[step.player], conversations[step.player]
                prompt = conversation.observe(step.messages)
                room = sampling.max_tokens if self.limits.context is None else self.limits.context - len(prompt)
                if stop := self._over(turn, room, deadline):
                    step = self.workers.over(BUDGETS[stop])
                    break
                begun = 0 if conversation.turns else len(speaker.prefix.token_ids)
                limit = min(sampling.max_tokens - begun, room)
                limit = limit if step.tokens is None else min(limit, step.tokens)
                limited = replace(sampling, max_tokens=limit, stop_ids=self.renderer.stop)
                request = Request(prompt_ids=prompt, key=drawn(turn).bytes, sampling=limited)
                completion = await speaker.reply(request)
                conversation.reply(completion)
                reply = speaker.text(completion, prompt)
                before = len(reply) - len(completion.text) if reply.endswith(completion.text) else before
                step = await self.workers.step(episode, reply)
        finally:
            self.workers.abandon(episode)
        turns = tuple(tuple(conversation.turns) for conversation in conversations)
        return Played(task=task, speakers=cast, turns=turns, step=sampled_span(step, before), stop=stop)

    async def _run(
        self, episode: Remote, launch: Launch, cast: tuple[Speaker, ...], key: Key, sampling: Sampling
    ) -> Played:
        """One episode that a program plays. Args: key: of its replies."""
        (speaker,), renderer = cast, self.renderer
        recorder = Recorder(
            renderer,
            partial(Transcript.begun, renderer),
            speaker.reply,
            key=key,
            sampling=sampling,
            bounds=Bounds(calls=launch.calls, tokens=launch.tokens, context=self.limits.context),
            piece=lambda token: self.tokenizer.decode([token]),
        )
        try:
            ended = await self.programs.play(launch, recorder, key.at("endpoint").bytes.hex())
            end = ended.dumps(launch.files)
            step = await self.workers.step(episode, end)
        finally:
            self.workers.abandon(episode)
        return Played(
            task=episode.task,
            speakers=cast,
            turns=(recorder.turns(),),
            step=step,
            stop=None,
            end=end,
            calls=recorder.calls,
        )

    def _over(self, turn: int, room: int, deadline: float) -> Stop | None:
        """The limit that an episode has reached; None if it may continue."""
        met = {
            Stop.TURNS: turn >= self._turns,
            Stop.CONTEXT: room < 1,
            Stop.TIME: time.monotonic() > deadline,
        }
        return next((stop for stop, over in met.items() if over), None)

    async def _groups(
        self, tasks: Sequence[tuple[int, Task]], key: Key, group: int, cast: Cast, sampling: Sampling
    ) -> list[Group]:
        """A group for every task and every learning player, in order."""
        plan = [(index, task, sample) for index, task in tasks for sample in range(group)]
        deadline, room, over = (
            time.monotonic() + self.limits.seconds,
            asyncio.Semaphore(self.place.room),
            itertools.count(1),
        )

        async def one(index: int, task: Task, sample: int) -> Played:
            episode, speakers = key.at("episode", task=index, sample=sample), cast(index, sample)
            name = f"{self.weights}-{episode.bytes.hex()}"
            found = self.finished.get(self.step, name, task, speakers)
            if found is None:
                drawn = draws(key, index, sample)
                async with room:
                    found = await self.place.play(
                        task, episode, speakers, drawn=drawn, sampling=sampling, deadline=deadline
                    )
                self.finished.add(self.step, name, index, found)
            self.progress(next(over), len(plan))
            return found

        played = await all_of([one(*episode) for episode in plan])
        groups = [
            Group(task=task, index=index, rollouts=tuple(p.rollout(player, s + player * group) for s, p in part))
            for place, (index, task) in enumerate(tasks)
            for part in [list(enumerate(played[place * group : (place + 1) * group]))]
            for player, speaker in enumerate(part[0][1].speakers)
            if speaker.learns
        ]
        broken = [(i, p.rollout(0, s)) for (i, _, s), p in zip(plan, played, strict=True) if p.failed]
        self.failures.count(len(plan), broken, groups)
        return groups


def sampled_span(step: Step, before: int) -> Step:
    """The step, with the span of its verdict in what was sampled; None if it begins before that.

    Args: before: characters of the last reply that the prompt wrote.
    """
    if not before or step.verdict is None or step.verdict.span is None:
        return step
    start, end = (place - before for place in step.verdict.span)
    return replace(step, verdict=replace(step.verdict, span=(start, end) if start >= 0 else None))


def draws(key: Key, index: int, sample: int) -> Callable[[int], Key]:
    """The keys of an episode's replies. Args: key: key of the call; index: index of the task."""
    return partial(draw, key, index, sample)  # It can be sent to another process.


def draw(key: Key, index: int, sample: int, turn: int) -> Key:
    return key.at("sample", task=index, sample=sample, turn=turn)


async def all_of(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of coroutines, in order. If one raises, the others are cancelled before the error is raised."""
    tasks = [asyncio.ensure_future(part) for part in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
