"""Games of several turns for a small chat model: the prompt shows games that an expert played, in bare replies."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from gnomon.envs.guess_number import GuessNumber
from gnomon.envs.mastermind import Mastermind
from gnomon.envs.turns import MultiTurn
from gnomon.keys import Key
from gnomon.types import Message, Task
from gnomon.verifiers import Strictness

__all__ = ["ShownCodes", "ShownGames", "ShownGuesses"]


@dataclass(frozen=True, kw_only=True)
class ShownGames(MultiTurn):
    """A game after `games` others, the same in all prompts, in which every reply is the `best` action.

    `seed` decides them too. They are played like any game, so they show the answers to actions.
    """

    games: int = 2
    """Number of games in the prompt."""
    hint: bool = False
    retries: int = 0
    strictness: Strictness = Strictness.LENIENT

    def word(self, task: Task) -> Task:
        examples, own = random.Random(self.seed), super().word(task)
        shown = [
            message
            for _ in range(self.games)
            for message in self.conversation(super(ShownGames, self).word(self.make(examples)))
        ]
        return replace(own, messages=(*shown, *own.messages))

    def conversation(self, task: Task) -> list[Message]:
        """The conversation of a game that the expert plays."""
        episode = self.start(task, Key(self.seed))
        messages, done = list(episode.messages), False
        while not done:
            reply = self.best(task, episode.ask)
            step = episode.step(reply)
            messages += [Message(role="assistant", content=reply), *step.messages]
            done = step.done
        return messages


@dataclass(frozen=True, kw_only=True)
class ShownGuesses(ShownGames, GuessNumber):
    """A number from 1 to 7, found by answers of higher and lower in three guesses."""

    largest: int = 7
    guesses: int = 3


@dataclass(frozen=True, kw_only=True)
class ShownCodes(ShownGames, Mastermind):
    """Two digits from 1 to 3, found by the marks of three guesses."""

    length: int = 2
    digits: int = 3
    guesses: int = 3
