"""An environment in worker processes that can be killed. Many coroutines share a few workers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from gnomon.envs import offers
from gnomon.envs.base import Env, Step
from gnomon.envs.live import KEPT, End, Episodes, Missing, Reply, Start
from gnomon.keys import Key
from gnomon.types import Task, Verdict
from gnomon.verifiers.judging import Retry, Tries, failure_verdict, fault, limit_verdict, settle
from gnomon.workers import Affinity, Exceeded, Lost, Outcome, Pool, Returned

__all__ = ["EnvWorkers", "Remote", "verdicts_of"]

MEMORY = Exceeded("memory")
BROKE = "the environment broke when an episode was replayed from its record, at step {turn}"
CHANGED = (
    "the environment is not deterministic: an episode was played again from its record, and step {turn} was another "
    "one than before; an episode must depend on its task, its key and the replies alone"
)


@dataclass(slots=True, eq=False)
class Remote:
    """An episode on a worker, with the record from which it can be replayed."""

    number: int
    task: Task
    key: Key
    replies: list[str] = field(default_factory=list)
    """The replies of all players, in order."""
    steps: list[Step] = field(default_factory=list)
    """The steps of the environment: its opening, and one for every reply."""
    affinity: Affinity = field(default_factory=Affinity)

    @property
    def done(self) -> bool:
        return bool(self.steps) and self.steps[-1].done

    @property
    def last_call(self) -> Reply:
        """The last reply, as a call to the worker."""
        return Reply(self.number, len(self.replies) - 1, self.replies[-1])

    @property
    def calls(self) -> list[Start | Reply]:
        """The whole episode, as calls to a worker that does not have it."""
        replies = [Reply(self.number, turn, text) for turn, text in enumerate(self.replies)]
        return [Start(self.number, self.task, self.key), *replies]


class EnvWorkers:
    """Plays the episodes of an environment in worker processes.

    A worker keeps its episodes between their turns, so a turn costs one call. If a worker ends, its episodes are
    replayed from their records on another worker, and must give the same steps.

    A step that exceeds its time, memory or output ends the episode as `exceeded`, with the lowest reward. If the
    environment fails, the step is retried on a fresh process; if that fails too, the episode ends as `failed`. No
    failure raises an exception here. The steps of an episode depend on its task, its key and its replies, not on the
    worker, the order or other episodes.

    Args:
        workers: largest number of processes.
        seconds: CPU seconds for one step; the wall-clock limit is ten times as long.
        memory: address space of a process, in bytes.
        retries: number of retries of a failed step.
        episodes: largest number of unfinished episodes that a worker keeps; others are replayed at each of their turns.
        movable: whether an episode whose worker is busy for long may begin again on another one that is free; by
            default if the environment does not declare `reproducible = False`.
    """

    def __init__(
        self,
        env: Env,
        *,
        workers: int = 2,
        seconds: float = 2.0,
        memory: int = 2**31,
        retries: int = 1,
        episodes: int = KEPT,
        movable: bool | None = None,
    ) -> None:
        self.reward_range, self.players, self.retries = env.reward_range, offers.players(env), retries
        self.movable = offers.reproducible(env) if movable is None else movable
        imports = offers.imports(env)
        self._pool = Pool(Episodes(env, episodes), workers, seconds=seconds, memory=memory, retries=0, imports=imports)
        self._numbers = itertools.count()
        self.room = workers * episodes
        """Number of unfinished episodes that the workers keep together."""

    async def start(self, task: Task, key: Key) -> tuple[Remote, Step]:
        """Start an episode. Returns: it and its opening. It lives until a step is `done` or it is abandoned."""
        episode = Remote(next(self._numbers), task, key)
        return episode, await self._next_step(episode)

    async def step(self, episode: Remote, reply: str) -> Step:
        """The environment's step after a reply of the player to act.

        Raises: ValueError if the episode is over.
        """
        if episode.done:
            raise ValueError("the episode is over")
        episode.replies.append(reply)
        try:
            return await self._next_step(episode)
        except BaseException:
            episode.replies.pop()
            raise

    def abandon(self, episode: Remote) -> None:
        """End an unfinished episode. A finished one does not change."""
        if not episode.done:
            episode.steps.append(self.over("the episode was abandoned"))
            self._forget(episode)

    def over(self, detail: str) -> Step:
        """The final step of an episode that exceeded a limit."""
        return self._end(limit_verdict(detail, self.reward_range))

    def failure_step(self, detail: str) -> Step:
        """The final step of an episode in which the environment failed."""
        return self._end(failure_verdict(detail))

    def close(self) -> None:
        """End the worker processes and their episodes."""
        self._pool.close()

    async def _next_step(self, episode: Remote) -> Step:
        """The next step of an episode, after all its replies."""
        tries, fresh = Tries(self.retries), False
        try:
            while isinstance(result := await self._ask(episode, fresh), Retry) and tries.another(result):
                fresh = True
        except BaseException:  # The call was cancelled, or the pool was closed.
            self._forget(episode)
            raise
        step = self._end(result.verdict) if isinstance(result, Retry) else result
        episode.steps.append(step)
        if step.done:
            self._forget(episode)
        return step

    async def _ask(self, episode: Remote, fresh: bool) -> Step | Retry:
        """The next step from the episode's worker, or from another worker by replay.

        Args: fresh: whether to use only a new worker.
        """
        if episode.steps and not fresh:
            outcome = await self._continue(episode)
            if outcome is not None and outcome != MEMORY:
                return self._settle(outcome)
            fresh = outcome == MEMORY
        outcomes = await self._call(episode, episode.calls, fresh=fresh)
        if outcomes[-1] == MEMORY and not fresh:  # Other episodes may have used the memory.
            return await self._ask(episode, fresh=True)
        for turn, (before, outcome) in enumerate(zip(episode.steps, outcomes, strict=False)):
            if not isinstance(outcome, Returned):
                return Retry(failure_verdict(f"{BROKE.format(turn=turn)}: {reason(outcome)}"))
            if not same(before, outcome.value):
                return self.failure_step(CHANGED.format(turn=turn))
        return self._settle(outcomes[-1])

    async def _continue(self, episode: Remote) -> Outcome | None:
        """The outcome of the next call on the episode's worker; None if the episode must be replayed on another.

        The first reply of an episode does not wait for a worker that is busy for long: replaying an opening is cheap.
        """
        movable = self.movable and len(episode.replies) == 1
        try:
            (outcome,) = await self._call(episode, [episode.last_call], bound=True, movable=movable)
        except Lost:
            self._forget(episode)
            return None
        return None if outcome == Returned(Missing()) else outcome

    async def _call(
        self,
        episode: Remote,
        calls: Sequence[Start | Reply],
        *,
        bound: bool = False,
        movable: bool = False,
        fresh: bool = False,
    ) -> list[Outcome]:
        """The outcomes of consecutive calls in one worker. It stops at the first failure."""
        each = [(call,) for call in calls]
        future = self._pool.submit(each, episode.affinity, bound=bound, movable=movable, fresh=fresh)
        return await asyncio.wrap_future(future)

    def _forget(self, episode: Remote) -> None:
        """Close an episode on its worker, if it has one."""
        with suppress(ValueError):  # The pool is closed, so no episode is alive.
            self._pool.submit([(End(episode.number),)], episode.affinity, bound=True)
            self._pool.release(episode.affinity)

    def _settle(self, outcome: Outcome) -> Step | Retry:
        if not isinstance(outcome, Returned):
            verdict = settle(outcome, self.reward_range)
            return verdict if isinstance(verdict, Retry) else self._end(verdict)
        if problem := self._problem(outcome.value):
            return Retry(failure_verdict(problem))
        step: Step = outcome.value
        return step

    def _end(self, verdict: Verdict) -> Step:
        """The final step of an episode that the environment did not end itself."""
        return Step(done=True, verdict=verdict, verdicts=(verdict,) * self.players)

    def _problem(self, step: object) -> str:
        """Why a step is invalid; empty if it is valid."""
        if not isinstance(step, Step):
            return f"the environment returned {step!r:.400} instead of a step"
        if not step.done:
            has_player = 0 <= step.player < self.players
            return "" if has_player else f"the environment has {self.players} players, and asked player {step.player}"
        verdicts = verdicts_of(step)
        if len(verdicts) != self.players:
            return f"the environment gave {len(verdicts)} verdicts for {self.players} players"
        return next(filter(None, (fault(verdict, self.reward_range) for verdict in verdicts)), "")


def verdicts_of(step: Step) -> tuple[Verdict | None, ...]:
    """The verdict of every player, in order."""
    return step.verdicts or (step.verdict,)


def same(one: Step, other: object) -> bool:
    try:
        return one == other
    except Exception:  # The environment's objects define the comparison, which may raise.
        return False


def reason(outcome: Outcome) -> str:
    """Why a call did not return."""
    verdict = settle(outcome, (0.0, 0.0))
    return (verdict.verdict if isinstance(verdict, Retry) else verdict).detail
