"""Speakers: who replies for each player of an episode, and how a run assigns them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gnomon.engines.base import Engine
from gnomon.keys import Key
from gnomon.models.weights import WeightsRef
from gnomon.rendering import Renderer
from gnomon.rendering.transcript import reply_text
from gnomon.types import Completion, Message, Request

__all__ = ["WHOLE", "Cast", "Own", "Prefix", "Sampler", "Speaker", "Speakers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The beginning of a reply, which is a part of the prompt."""

    token_ids: tuple[int, ...] = ()
    text: str = ""


WHOLE = Prefix()
"""Of a reply that begins by itself."""


class Speaker(Protocol):
    """Replies for one player of an episode."""

    @property
    def learns(self) -> bool:
        """Whether its rollouts are trained on."""
        ...

    @property
    def preface(self) -> tuple[Message, ...]:
        """Messages that it sees before the environment's first messages."""
        ...

    @property
    def prefix(self) -> Prefix:
        """The beginning of its first reply, which it continues."""
        ...

    async def reply(self, request: Request) -> Completion: ...

    def text(self, completion: Completion, prompt_ids: Sequence[int]) -> str:
        """The text of a reply for the environment. Args: prompt_ids: the prompt, with the prefix of the reply."""
        ...


Cast = Callable[[int, int], tuple[Speaker, ...]]
"""Returns the speakers of an episode, one per player. Takes the index of the task and the number of the sample."""


class Speakers(Protocol):
    """Assigns speakers to the episodes of a run. Implementations wrap each other, and each changes the inner result."""

    def sync(self, weights: WeightsRef, step: int) -> None:
        """The policy has these weights from now on. Args: step: the run's step that begins with them."""
        ...

    def save_state(self, folder: Path) -> None:
        """Write the state for the next steps of a run into a checkpoint."""
        ...

    def load_state(self, folder: Path) -> None:
        """Restore the state from a checkpoint."""
        ...

    def training(self, key: Key, group: int) -> AbstractContextManager[Cast]:
        """The cast for one training step. Args: group: number of samples per task."""
        ...

    def evaluation(self, key: Key) -> AbstractContextManager[Cast]:
        """The cast for an evaluation."""
        ...


@dataclass(frozen=True, slots=True)
class Sampler:
    """An engine replies."""

    engine: Engine
    renderer: Renderer
    learns: bool = True
    preface: tuple[Message, ...] = ()
    prefix: Prefix = WHOLE

    async def reply(self, request: Request) -> Completion:
        return await self.engine.sample(request)

    def text(self, completion: Completion, prompt_ids: Sequence[int]) -> str:
        """The text of a reply with its prefix, without separate reasoning."""
        text, ids = self.prefix.text + completion.text, self.prefix.token_ids + completion.token_ids
        before = prompt_ids[: len(prompt_ids) - len(self.prefix.token_ids)]
        return reply_text(self.renderer, before, text, ids)


class Own:
    """The policy replies for every player, in training and in evaluations."""

    def __init__(self, engine: Engine, renderer: Renderer, players: int = 1) -> None:
        self.speaker, self.players = Sampler(engine, renderer), players

    def sync(self, weights: WeightsRef, step: int) -> None:
        self.speaker.engine.load(weights)

    def save_state(self, folder: Path) -> None:
        """Nothing: the policy's weights are the learner's."""

    def load_state(self, folder: Path) -> None:
        """Nothing."""

    @contextmanager
    def training(self, key: Key, group: int) -> Iterator[Cast]:
        yield self.cast

    @contextmanager
    def evaluation(self, key: Key) -> Iterator[Cast]:
        yield self.cast

    def cast(self, index: int, sample: int) -> tuple[Speaker, ...]:
        return (self.speaker,) * self.players
