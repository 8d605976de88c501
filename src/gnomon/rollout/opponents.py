"""Self-play with an opponent: one player learns, and an opponent plays the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gnomon.engines.base import Engine
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.past import Past
from gnomon.models.weights import WeightsRef
from gnomon.rendering import Renderer
from gnomon.rollout.speakers import Cast, Sampler, Speaker, Speakers

__all__ = ["Against"]


class Against:
    """The policy plays one player of every episode, chosen by the task's index; an opponent plays the others.

    Only the policy's player gives groups, so the opponent's replies are not trained on.

    Args:
        own: who replies for the policy.
        opponent: the opponent's engine.
        past: earlier weights of the policy. One of them is drawn for the opponent in each training step. Evaluations
            use the first, so that they are comparable. None for an opponent with fixed weights.
        ahead: steps that batches are sampled ahead. Their opponents are drawn from the versions as of so many steps
            before, however far training has come. Whoever has 0 adds the versions.
    Raises: ConfigError E181 for an environment of one player.
    """

    def __init__(
        self,
        own: Speakers,
        opponent: Engine,
        renderer: Renderer,
        *,
        players: int,
        past: Past | None = None,
        ahead: int = 0,
    ) -> None:
        if players < 2:
            raise ConfigError(
                "E181",
                "the environment has one player, so an opponent cannot play",
                where="players.opponent",
                fix='players.opponent="", or an environment for several players (gnomon env list)',
            )
        self.own, self.opponent, self.renderer, self.past, self.ahead = own, opponent, renderer, past, ahead
        self._step = 0

    def sync(self, weights: WeightsRef, step: int) -> None:
        self.own.sync(weights, step)
        self._step = step
        if self.past is not None and not self.ahead:
            self.past.remember(weights, step)

    def save_state(self, folder: Path) -> None:
        self.own.save_state(folder)
        if self.past is not None:
            self.past.save_state(folder)

    def load_state(self, folder: Path) -> None:
        self.own.load_state(folder)
        if self.past is not None:
            self.past.load_state(folder)

    @contextmanager
    def training(self, key: Key, group: int) -> Iterator[Cast]:
        if self.past is not None:
            self.opponent.load(self.past.draw(key.at("opponent").random(), self._step - self.ahead))
        with self.own.training(key, group) as cast:
            yield self._oppose(cast, key)

    @contextmanager
    def evaluation(self, key: Key) -> Iterator[Cast]:
        if self.past is not None:
            self.opponent.load(self.past.first)
        with self.own.evaluation(key) as cast:
            yield self._oppose(cast, key)

    def _oppose(self, cast: Cast, key: Key) -> Cast:
        def cast_opponents(index: int, sample: int) -> tuple[Speaker, ...]:
            speakers = cast(index, sample)
            own = key.at("player", task=index).random().randrange(len(speakers))
            # An earlier version of the policy gets the same prompts as the policy.
            preface = speakers[own].preface if self.past is not None else ()
            opponent = Sampler(self.opponent, self.renderer, learns=False, preface=preface)
            return tuple(speaker if seat == own else opponent for seat, speaker in enumerate(speakers))

        return cast_opponents
