"""What an environment of several turns is: its author writes `make`, and a `play` that asks for moves."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.envs.base import Step, Tasks, user
from gnomon.keys import Key
from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers import Extraction, Strictness, extract

__all__ = ["Ask", "MultiTurn", "Play", "Playing"]

SHOWN = 9
"""Legal moves are listed after an illegal one, if they are this many at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A player's turn to move."""

    text: str = ""
    """All that the player has not been told yet; empty for nothing. Player 0 was told the task's messages."""
    legal: Collection[str] | None = None
    """The moves that it may make, in lower case; None for any reply: the play is sent the text of its slot, or ""."""
    player: int = 0
    state: Any = None
    """What the player knows of the position, for experts; never shown."""


Play = Generator[Ask, str, Sequence[float | Verdict]]
"""A play: it yields an `Ask`, is sent the legal move that was made, and returns what every player earned."""


@dataclass(frozen=True, kw_only=True)
class MultiTurn(ABC):
    """An environment of several turns. A move stands in the one answer slot of a reply.

    A reply without a legal move is told so and asked for again, `retries` times an episode for each player. The
    next one ends the episode: its player earns the least there is, and of two players the other the most.
    A verdict is correct where a player earned more than nothing.
    """

    seed: int = 0
    """Of the tasks; independent of any run's seed, so that every run is judged on the same held-out tasks."""
    retries: int = 1
    """Replies without a legal move that each player is forgiven."""
    speed: float = 0.0
    """Paid to a lone player on top of success: all of it for one turn, nothing for the last turn allowed."""
    strictness: Strictness = Strictness.TRIMMED

    def __post_init__(self) -> None:
        # A recipe spells the strictness as text.
        object.__setattr__(self, "strictness", Strictness(self.strictness))
        if self.retries < 0 or self.speed < 0:
            raise ValueError(f"retries is {self.retries} and speed {self.speed}; they must be 0 or more")

    @abstractmethod
    def make(self, rng: random.Random) -> Task:
        """One task; a pure function of the generator's stream. Its messages are the rules that player 0 is told."""

    @abstractmethod
    def play(self, task: Task, rng: random.Random) -> Play:
        """One episode, a pure function of the task, the generator's stream and the moves. Player 0 is asked first."""

    @property
    @abstractmethod
    def moves(self) -> int:
        """Most legal moves that an episode can have, those of all players together."""

    def best(self, task: Task, ask: Ask) -> str:
        """A good legal move, for experts; it may look at the task's answer.

        Raises: NotImplementedError, where none is known.
        """
        raise NotImplementedError(f"{type(self).__name__} knows no good move")

    @property
    def players(self) -> int:
        return 1

    @property
    def payoffs(self) -> tuple[float, float]:
        """Least and most that `play` may return for a player; of several players the payoffs sum to 0."""
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
        """The next reply of an expert, who makes the move that is known to be good."""
        return f"<answer>{self.best(task, episode.ask)}</answer>"


class Playing:
    """The play of one task: reads moves, keeps the rule for illegal ones, pays at the end."""

    def __init__(self, env: MultiTurn, task: Task, key: Key) -> None:
        self.env = env
        self._play = env.play(task, key.random())
        self.ask = next(self._play)
        """Whose turn it is, and what may be moved."""
        if self.ask.player != 0:
            raise ValueError(f"{type(env).__name__} asks player {self.ask.player} first; player 0 acts first")
        self.messages = (*task.messages, *user(self.ask.text))
        self._retries = [env.retries] * env.players
        self._turns = 0
        self._over = False

    def step(self, reply: str) -> Step:
        """Raises: ValueError, when the episode is over."""
        if self._over:
            raise ValueError("the episode is over")
        self._turns += 1
        player, found = self.ask.player, extract(reply, self.env.strictness)
        move = found.text or ""
        if self.ask.legal is not None and (move := move.lower()) not in self.ask.legal:
            return self._illegal(player, found)
        try:
            self.ask = self._play.send(move)
        except StopIteration as end:
            return self._end(end.value, player, found)
        return Step(messages=user(self.ask.text), done=False, player=self.ask.player)

    def close(self) -> None:
        self._play.close()

    def _illegal(self, player: int, found: Extraction) -> Step:
        if self._retries[player]:
            self._retries[player] -= 1
            legal = self.ask.legal
            moves = f" Legal: {', '.join(legal)}" if legal is not None and len(legal) <= SHOWN else ""
            return Step(messages=user(f"No legal move.{moves}"), done=False, player=player)
        low = self.env.payoffs[0]
        payoffs = [low if at == player else -low / (self.env.players - 1) for at in range(self.env.players)]
        return self._end(payoffs, player, found, found.status or Status.REJECTED)

    def _end(
        self, payoffs: Sequence[float | Verdict], player: int, found: Extraction, status: Status | None = None
    ) -> Step:
        """The verdicts. Args: player, who spoke last, and `found` what; status, of the move that ended it illegally."""
        self._over = True
        if len(payoffs) != self.env.players:
            raise ValueError(f"{len(payoffs)} payoffs for {self.env.players} player(s)")
        verdicts = []
        for at, payoff in enumerate(payoffs):
            if isinstance(payoff, Verdict):
                verdicts.append(payoff)
                continue
            own = status if at == player else None
            lost = f"player {player} made no legal move" if status else ""
            verdicts.append(
                Verdict(
                    status=own or (Status.CORRECT if payoff > 0 else Status.WRONG),
                    parts=self._parts(payoff),
                    extracted=found.text if at == player else None,
                    span=found.span if at == player else None,
                    detail=(found.detail or "not a legal move") if own else lost,
                )
            )
        if self.env.players == 1:
            return Step(done=True, verdict=verdicts[0])
        return Step(done=True, verdicts=tuple(verdicts))

    def _parts(self, payoff: float) -> tuple[Part, ...]:
        if self.env.players > 1:
            return (Part(name="payoff", value=payoff),)
        allowed = self.env.max_turns
        saved = (allowed - self._turns) / max(1, allowed - 1)
        return (
            Part(name="solved", value=payoff),
            Part(name="speed", value=saved, weight=self.env.speed, gate="solved"),
        )
