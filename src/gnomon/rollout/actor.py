"""An actor plays tasks: env × renderer × engine → groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from gnomon.engines.base import Engine, Tier
from gnomon.envs import offers
from gnomon.envs.base import Env, Step
from gnomon.envs.workers import EnvWorkers, Remote, verdicts_of
from gnomon.errors import ConfigError, VerifierError
from gnomon.keys import Key
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import WeightsRef
from gnomon.rendering import Plain, Renderer, Transcript, choose
from gnomon.rendering.reply_text import reply_text
from gnomon.types import (
    Completion,
    Finish,
    Group,
    Message,
    Origin,
    Request,
    Rollout,
    Sampling,
    Status,
    Stop,
    Task,
    Turn,
)

__all__ = ["Actor", "Limits", "Unjudged", "judged", "one_turn", "together"]

FORGIVEN = 3
"""Failed rollouts of a run that are borne whatever their share."""


class Unjudged(VerifierError):
    """Too many rollouts could not be judged."""

    groups: tuple[Group, ...] = ()
    """All that were played, so that a run can keep what it stopped for."""
    held_out = False
    """Whether they were played to measure the policy."""

    @classmethod
    def of(cls, error: VerifierError, groups: Sequence[Group]) -> Unjudged:
        """The error with what was played."""
        found = cls(error.code, error.what, where=error.where, why=error.why, fix=error.fix)
        found.groups = tuple(groups)
        return found


@contextmanager
def together(groups: Sequence[Group]) -> Iterator[None]:
    """Where playing more groups fails, the error carries these too."""
    try:
        yield
    except Unjudged as error:
        error.groups = (*groups, *error.groups)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When an episode is ended although its environment would go on."""

    turns: int | None = None
    """Replies, of all seats together; the environment's own number if not given."""
    context: int | None = None
    """Tokens of one seat's conversation, sampled and told."""
    seconds: float = inf
    """By the clock, from the first reply of all to the last. A limit that is met makes a run that no rerun equals."""
    failures: float = 0.005
    """Share of the rollouts that may fail by our own doing before the run stops."""


UNHEARD = Step(done=False)


@dataclass(slots=True)
class Seat:
    """One seat's conversation as it grows."""

    talk: Transcript | None = None
    """None until it is told something."""
    turns: list[Turn] = field(default_factory=list)

    def say(self, completion: Completion, messages: tuple[Message, ...]) -> None:
        """A reply to the messages that were just told."""
        assert self.talk is not None
        prompt, segments = self.talk.token_ids, self.talk.segments
        last = max((i + 1 for i, segment in enumerate(segments) if segment.origin is Origin.POLICY), default=0)
        given = segments if self.turns and self.turns[-1].fork != self.talk.forks else segments[last:]
        self.turns.append(
            Turn(prompt_ids=prompt, completion=completion, messages=messages, given=given, fork=self.talk.forks)
        )
        self.talk = self.talk.sampled(completion.token_ids)


@dataclass(slots=True)
class Play:
    """One episode as it grows."""

    index: int
    task: Task
    sample: int
    key: Key
    """Of the episode's own chance."""
    seats: list[Seat]
    voices: tuple[Engine, ...] = ()
    """Who speaks in each seat; where none are given, the actor's engine in all."""
    step: Step = UNHEARD
    """What the environment said last."""
    replies: tuple[str, ...] = ()
    episode: Remote | None = None
    """Where it lives; None before it begins."""
    stop: Stop | None = None
    """Why it was ended although the environment would go on."""

    @property
    def seat(self) -> Seat:
        """Whose turn it is."""
        return self.seats[self.step.seat]

    def say(self, completion: Completion, text: str) -> None:
        """The reply of the seat whose turn it is. Args: text: what the environment hears of it."""
        self.seat.say(completion, self.step.messages)
        self.replies += (text,)

    def rollout(self, seat: int, group: int) -> Rollout:
        """What a seat made of it."""
        turns, verdict = self.seats[seat].turns, verdicts_of(self.step)[seat]
        assert verdict is not None
        stop = self.stop or STOPS.get(verdict.status)
        if stop is None:
            cut = turns and turns[-1].completion.finish is Finish.LENGTH
            stop = Stop.TRUNCATED if cut else Stop.DONE
        sample = self.sample + seat * group
        return Rollout(task=self.task, sample=sample, turns=tuple(turns), verdict=verdict, stop=stop, seat=seat)


STOPS = {Status.EXCEEDED: Stop.EXCEEDED, Status.FAILED: Stop.FAILED}


class Actor:
    """Plays an environment with an engine.

    Args:
        group: rollouts per task.
        sampling: how every completion is drawn.
        renderer: of the model family; the one that the tokenizer's folder wants if not given.
        workers: play the environment's side; two processes if not given.
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
    ) -> None:
        self.env, self.tokenizer, self.engine = env, tokenizer, engine
        self.group, self.sampling = group, sampling
        self.renderer = renderer or choose(tokenizer, turns=env.max_turns)
        self.workers, self.limits = workers or EnvWorkers(env), limits or Limits()
        self._played, self._failed = 0, 0

    @property
    def exact(self) -> bool:
        """Whether the engine's log-probabilities equal the learner's in every bit."""
        return self.engine.tier is Tier.EXACT

    @property
    def longest(self) -> int:
        """Most tokens that a rollout can sample: every reply of an episode at its limit, within one context."""
        turns = min(self.limits.turns or self.env.max_turns, self.env.max_turns)
        whole = turns * self.sampling.max_tokens
        return whole if self.limits.context is None else min(whole, self.limits.context)

    async def sync(self, weights: WeightsRef, step: int) -> None:
        """Sample with these weights from now on. Args: step: of the run, that begins with them."""
        self.engine.load(weights)

    def save_state(self, folder: Path) -> None:
        """Write what the next steps of a run depend on into a checkpoint; here there is nothing."""

    def load_state(self, folder: Path) -> None:
        """Go on from a checkpoint."""

    async def collect(self, tasks: Sequence[tuple[int, Task]], key: Key) -> list[Group]:
        """The groups of a training step; here, what `play` gives."""
        return await self.play(tasks, key, self.group)

    async def play(
        self, tasks: Sequence[tuple[int, Task]], key: Key, group: int, sampling: Sampling | None = None
    ) -> list[Group]:
        """Play every task `group` times: a group per task, and where several sit, per task and seat.

        Args:
            tasks: each with its index in the split.
            sampling: how every completion is drawn; the actor's own unless given.
            key: of this call; turn t of sample s of task i draws from `key.at("sample", task=i, sample=s, turn=t)`.
        Raises: Unjudged E104 when more rollouts failed by the environment's own doing than may.
        """
        plays = self.plays(tasks, key, range(group))
        await self.finish(plays, key, sampling)
        groups = [
            Group(task=task, index=index, rollouts=tuple(play.rollout(seat, group) for play in part))
            for place, (index, task) in enumerate(tasks)
            for part in [plays[place * group : (place + 1) * group]]
            for seat in range(self.workers.players)
            if self.voice(part[0], seat) is self.engine
        ]
        self.count(plays, groups)
        return groups

    async def finish(self, plays: Sequence[Play], key: Key, sampling: Sampling | None = None) -> None:
        """Play episodes that have not begun to their ends. Args: as of `play`."""
        try:
            await self.hear(plays)
            deadline, live, turn = time.monotonic() + self.limits.seconds, list(plays), 0
            while live:
                asked = [(play, self._request(play, key, turn, sampling or self.sampling, deadline)) for play in live]
                going = [(play, request) for play, request in asked if request is not None]
                for play, completion in await self._spoken(going):
                    play.say(completion, self.heard(completion))
                live, turn = [play for play, _ in going], turn + 1
                await self.hear(live)
        finally:
            for play in plays:
                if play.episode is not None:
                    self.workers.abandon(play.episode)

    def voice(self, play: Play, seat: int) -> Engine:
        """Who speaks in a seat."""
        return play.voices[seat] if play.voices else self.engine

    async def _spoken(self, going: Sequence[tuple[Play, Request]]) -> list[tuple[Play, Completion]]:
        """What is said in every episode, by the engine of the seat whose turn it is."""
        asked: dict[int, tuple[Engine, list[tuple[Play, Request]]]] = {}
        for play, request in going:
            engine = self.voice(play, play.step.seat)
            asked.setdefault(id(engine), (engine, []))[1].append((play, request))
        return [
            (play, completion)
            for engine, part in asked.values()
            for (play, _), completion in zip(part, await engine.sample([r for _, r in part]), strict=True)
        ]

    def begun(self, messages: Sequence[Message]) -> Transcript:
        """A conversation that begins with these messages."""
        # Plain text has no place for tools: there the environment's own messages tell of them.
        tools = () if isinstance(self.renderer, Plain) else offers.tools(self.env)
        return Transcript.begun(self.renderer, messages, tools)

    def heard(self, completion: Completion) -> str:
        """What an environment hears of a reply: its text, without reasoning that has a place of its own."""
        return reply_text(self.renderer, completion.text, completion.token_ids)

    def plays(self, tasks: Sequence[tuple[int, Task]], key: Key, samples: Sequence[int]) -> list[Play]:
        """Episodes that have not begun: every task once for each number of a sample."""
        return [
            Play(
                index=index,
                task=task,
                sample=sample,
                key=key.at("episode", task=index, sample=sample),
                seats=[Seat() for _ in range(self.workers.players)],
            )
            for index, task in tasks
            for sample in samples
        ]

    async def hear(self, plays: Sequence[Play]) -> None:
        """What the environment says to the last reply of each."""
        for play, step in zip(plays, await asyncio.gather(*map(self._next, plays)), strict=True):
            play.step = step

    async def _next(self, play: Play) -> Step:
        """The environment's next step in an episode."""
        if play.episode is None:
            play.episode, step = await self.workers.start(play.task, play.key)
            return step
        return await self.workers.step(play.episode, play.replies[-1])

    def _request(self, play: Play, key: Key, turn: int, sampling: Sampling, deadline: float) -> Request | None:
        """What to sample next of an episode; None when it is over."""
        step, limits = play.step, self.limits
        if step.done:
            return None
        seat = play.seat
        seat.talk = seat.talk.told(step.messages) if seat.talk else self.begun(step.messages)
        prompt = seat.talk.token_ids
        room = sampling.max_tokens if limits.context is None else limits.context - len(prompt)
        for over, stop in (
            (turn >= (limits.turns or self.env.max_turns), Stop.TURNS),
            (room < 1, Stop.CONTEXT),
            (time.monotonic() > deadline, Stop.TIME),
        ):
            if over:
                play.stop, play.step = stop, self.workers.over(BUDGETS[stop])
                return None
        return Request(
            prompt_ids=prompt,
            key=key.at("sample", task=play.index, sample=play.sample, turn=turn).bytes,
            sampling=replace(sampling, max_tokens=min(sampling.max_tokens, room), stop_ids=self.renderer.stop),
        )

    def count(self, plays: Sequence[Play], groups: Sequence[Group] = ()) -> None:
        """Stop the run when too much of it failed by our own doing. Args: groups: what came of the plays."""
        broken = [play for play in plays if failure(play.step)]
        self._played, self._failed = self._played + len(plays), self._failed + len(broken)
        if self._failed <= FORGIVEN + self.limits.failures * self._played:
            return
        play = broken[-1]
        error = VerifierError(
            "E104",
            f"{type(self.env).__name__} failed in {self._failed} of {self._played} rollouts",
            where=f"task {play.index}, sample {play.sample}; the last reply was {''.join(play.replies[-1:])[:200]!r}",
            why=f"a verifier failure is not evidence that the answer is wrong\n{indented(failure(play.step))}",
            fix="return a Verdict in `reward_range` (or raise gnomon.verifiers.Malformed) for every text, then run "
            "gnomon check ENV",
        )
        raise Unjudged.of(error, groups)


BUDGETS = {
    Stop.TURNS: "the turns were used up before the episode was over",
    Stop.CONTEXT: "the conversation has no room left, and the episode is not over",
    Stop.TIME: "the time was used up before the episode was over",
}


def judged(groups: Sequence[Group]) -> list[Group]:
    """The groups whose every rollout could be judged; of the others none is trained on, right or wrong.

    Raises: Unjudged E106 when none is left.
    """
    kept = [group for group in groups if group.judged]
    if not kept:
        error = VerifierError(
            "E106",
            f"the verifier failed in all {len(groups)} groups of a step",
            why=indented(groups[0].rollouts[0].verdict.detail),
            fix="gnomon check ENV",
        )
        raise Unjudged.of(error, groups)
    return kept


def one_turn(env: Env) -> None:
    """Raises: ConfigError E022 for an environment that plays several turns."""
    if env.max_turns != 1:
        raise ConfigError(
            "E022",
            "the environment has several turns, and the objective supports one turn only",
            where=type(env).__name__,
            fix="objective=rloo, or another objective that trains on sampled rollouts",
        )


def failure(step: Step) -> str:
    """Why the environment broke; empty when it did not."""
    first = verdicts_of(step)[0]
    return first.detail if first is not None and first.status is Status.FAILED else ""


def indented(text: str) -> str:
    return "\n".join("      " + line for line in text.splitlines())
