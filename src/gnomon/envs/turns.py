"""Environments of several turns. An author writes `make`, and `play`, a generator that asks for actions."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gnomon.envs.base import Step, Tasks, user
from gnomon.envs.wording import Wording
from gnomon.images import Image
from gnomon.keys import Key
from gnomon.types import Message, Part, Status, Task, Verdict
from gnomon.verifiers import Extraction, Strictness, extract

__all__ = ["Ask", "MultiTurn", "Play", "Playing"]

SHOWN = 9
"""After an illegal action, the legal ones are listed if there are at most this many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request for a player's action."""

    text: str = ""
    """The player's observation since its last action; may be empty. Player 0 has already seen the task's messages."""
    images: tuple[Image, ...] = ()
    """They stand before the text."""
    legal: Collection[str] | None = None
    """The legal actions in lower case. None accepts any reply; `play` then receives the slot's text, or ""."""
    player: int = 0
    state: Any = None
    """The player's knowledge of the position, for experts. It is never shown to the policy."""
    tokens: int | None = None
    """Largest number of tokens of the reply; None: the limit of the run."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The observation; no message for an empty one."""
        return (Message(role="user", content=self.text, images=self.images),) if self.images else user(self.text)


Play = Generator[Ask, str, Sequence[float | Verdict]]
"""A play yields an `Ask`, receives the legal action, and returns every player's payoff or verdict."""


@dataclass(frozen=True, kw_only=True)
class MultiTurn(Wording, ABC):
    """An environment of several turns. The action is in the one answer slot of a reply.

    After a reply without a legal action, the player is asked again, up to `retries` times per episode. The next such
    reply ends the episode: its player earns the minimum, and in a game of two the other player earns the maximum.
    A verdict is correct if the player's payoff is positive.
    """

    seed: int = 0
    """Seed of the tasks. It does not depend on a run's seed, so every run has the same held-out tasks."""
    retries: int = 1
    """Replies without a legal action that each player may make."""
    speed: float = 0.0
    """Bonus for success with one player. It decreases from this value at one turn to 0 at the last allowed turn."""
    strictness: Strictness = Strictness.TRIMMED
    praise: ClassVar[str] = ""
    """The words that a player should earn from `feedback`. Empty: the environment gives no feedback in words."""
    stream: ClassVar[str] = ""
    """Name of the tasks' random stream. Empty: that of the environment's class, also in a class derived from it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # A recipe gives the strictness as text.
        object.__setattr__(self, "strictness", Strictness(self.strictness))
        if self.retries < 0 or self.speed < 0:
            raise ValueError(f"retries is {self.retries} and speed {self.speed}; they must be 0 or more")

    @abstractmethod
    def make(self, rng: random.Random) -> Task:
        """Make one task, a pure function of the generator's stream. Its messages are player 0's first observation."""

    @abstractmethod
    def play(self, task: Task, rng: random.Random) -> Play:
        """Play one episode, a pure function of the task, the generator's stream and the actions. Player 0 is first."""

    @property
    @abstractmethod
    def moves(self) -> int:
        """Largest number of legal actions in an episode, summed over all players."""

    def best(self, task: Task, ask: Ask) -> str:
        """A good legal action, for experts. It may use the task's answer.

        Raises: NotImplementedError if none is defined.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define `best`")

    def feedback(self, task: Task, verdict: Verdict, player: int) -> str:
        """Words on the episode of a player who got this verdict, if the environment has `praise`."""
        return verdict.feedback

    @classmethod
    def boards(cls, turns: Sequence[tuple[str, str]]) -> Sequence[str]:
        """The position before each turn and after the last one, as lines of text, for a page. Empty where the
        observations show it.

        Args: turns: observation and reply of every turn of one player.
        """
        return ()

    @property
    def players(self) -> int:
        return 1

    @property
    def payoffs(self) -> tuple[float, float]:
        """Smallest and largest payoff of a player. With several players, payoffs sum to 0."""
        return (0.0, 1.0) if self.players == 1 else (-1.0, 1.0)

    @property
    def reward_range(self) -> tuple[float, float]:
        low, high = self.payoffs
        return low, high + (self.speed if self.players == 1 else 0.0)

    @property
    def max_turns(self) -> int:
        return self.moves + self.retries * self.players

    def tasks(self, split: str) -> Tasks:
        return Tasks(self, split)

    def start(self, task: Task, key: Key) -> Playing:
        return Playing(self, task, key)

    def expert(self, task: Task, episode: Playing) -> str:
        """The next reply of the expert, which plays `best`."""
        return f"<answer>{self.best(task, episode.ask)}</answer>"


class Playing:
    """One episode: parses actions, handles illegal ones, and makes the verdicts."""

    def __init__(self, env: MultiTurn, task: Task, key: Key) -> None:
        self.env, self.task = env, task
        self._play = env.play(task, key.random())
        self.ask = next(self._play)
        """The current request: the player and its legal actions."""
        if self.ask.player != 0:
            raise ValueError(f"{type(env).__name__} asks player {self.ask.player} first; player 0 acts first")
        self.messages = (*task.messages, *env.without_hint(self.ask.messages))
        self.tokens = self.ask.tokens
        """Largest number of tokens of the first reply."""
        self._asked = {0}
        self._retries = [env.retries] * env.players
        self._turns = 0
        self._over = False

    def step(self, reply: str) -> Step:
        """Take one reply. Raises: ValueError if the episode is over."""
        if self._over:
            raise ValueError("the episode is over")
        self._turns += 1
        player, extraction = self.ask.player, extract(reply, self.env.strictness)
        move = extraction.text or ""
        if self.ask.legal is not None and (move := move.lower()) not in self.ask.legal:
            return self._illegal(player, extraction)
        try:
            self.ask = self._play.send(move)
        except StopIteration as end:
            return self._end(end.value, player, extraction)
        observed = self._observation(self.ask.messages)
        return Step(messages=observed, done=False, player=self.ask.player, tokens=self.ask.tokens)

    def close(self) -> None:
        self._play.close()

    def _observation(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The observation of the player who acts next. Only the first one of each player is put into the template."""
        first = self.ask.player not in self._asked
        self._asked.add(self.ask.player)
        return self.env.asking(messages) if first else self.env.without_hint(messages)

    def _illegal(self, player: int, extraction: Extraction) -> Step:
        if self._retries[player]:
            self._retries[player] -= 1
            legal = self.ask.legal
            moves = f" Legal: {', '.join(legal)}" if legal is not None and len(legal) <= SHOWN else ""
            messages = user(f"No legal move.{moves}")
            return Step(messages=messages, done=False, player=player, illegal=True, tokens=self.ask.tokens)
        low = self.env.payoffs[0]
        payoffs = [low if at == player else -low / (self.env.players - 1) for at in range(self.env.players)]
        return replace(self._end(payoffs, player, extraction, extraction.status or Status.REJECTED), illegal=True)

    def _end(
        self, payoffs: Sequence[float | Verdict], player: int, extraction: Extraction, status: Status | None = None
    ) -> Step:
        """The verdicts. Args: player, the last to act, with its `extraction`; status, of an illegal last action."""
        self._over = True
        if not isinstance(payoffs, list | tuple):
            hint = "did a branch end without `return`?" if payoffs is None else "in a list, also for one player"
            raise TypeError(f"play returned {payoffs!r:.60}; it must return the reward of every player: {hint}")
        if len(payoffs) != self.env.players:
            raise ValueError(f"{len(payoffs)} payoffs for {self.env.players} player(s)")
        verdicts = []
        for at, payoff in enumerate(payoffs):
            if isinstance(payoff, Verdict):
                verdicts.append(payoff)
                continue
            own = status if at == player else None
            reason = f"player {player} made no legal move" if status else ""
            verdicts.append(
                Verdict(
                    status=own or (Status.CORRECT if payoff > 0 else Status.WRONG),
                    parts=self._parts(payoff),
                    extracted=extraction.text if at == player else None,
                    span=extraction.span if at == player else None,
                    detail=(extraction.detail or "not a legal move") if own else reason,
                )
            )
        if self.env.praise:
            verdicts = [
                replace(verdict, feedback=self.env.feedback(self.task, verdict, at))
                for at, verdict in enumerate(verdicts)
            ]
        if self.env.players == 1:
            return Step(done=True, verdict=verdicts[0])
        return Step(done=True, verdicts=tuple(verdicts))

    def _parts(self, payoff: float) -> tuple[Part, ...]:
        if self.env.players > 1:
            return (Part(name="payoff", value=payoff),)
        limit = self.env.max_turns
        speed = (limit - self._turns) / max(1, limit - 1)
        return (
            Part(name="solved", value=payoff),
            Part(name="speed", value=speed, weight=self.env.speed, gate="solved"),
        )
