"""Stored rollouts as the episodes they were: with which key, what every player replied and saw."""

from __future__ import annotations

import math
from array import array
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gnomon.config import RunConfig
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Plain, choose
from gnomon.rendering.reply_text import reply_text
from gnomon.store import Record
from gnomon.types import Message, Stop, Task

__all__ = ["Stored", "reading", "stored"]

LIMITS = (Stop.TURNS, Stop.CONTEXT, Stop.TIME)
"""Why an episode was ended although the environment would have gone on."""
Read = Callable[[Mapping[str, Any]], tuple[str, ...]]
"""What the environment got of each of a stored rollout's replies."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A rollout, with the episode that it is a part of."""

    record: Record
    task: Task
    key: Key
    """Of the episode."""
    player: int
    replies: tuple[tuple[str, ...] | None, ...]
    """Of every player in order; None for one whose replies were not stored."""
    observations: tuple[tuple[Message, ...], ...] | None
    """What the player saw before each of its replies; None where only the task was stored."""

    @property
    def text(self) -> str:
        """All that the player replied."""
        return "".join(self.replies[self.player] or ())

    def complete(self, players: int) -> bool:
        """Whether the replies of all players were stored."""
        return len(self.replies) == players and None not in self.replies

    @property
    def limited(self) -> bool:
        """Whether a limit of the run ended the episode."""
        return self.record.body["stop"] in LIMITS


def stored(asked: Iterable[tuple[Record, Task]], config: RunConfig, read: Read) -> Iterator[Stored]:
    """The rollouts of a run, in order.

    Args: asked: every rollout with its task; read: see `Read`.
    """
    for (kind, step), part in groupby(asked, lambda pair: (pair[0].kind, pair[0].step)):
        rollouts = list(part)
        size = config.rollout.group if kind == "rollout" else config.eval.samples
        top = Key(config.seed).at("rollouts", step=step or 0) if kind == "rollout" else Key(config.seed).at("eval")
        players: dict[tuple[int, int], dict[int, tuple[str, ...]]] = defaultdict(dict)
        for record, _ in rollouts:
            players[place(record, size)][player_of(record)] = read(record.body)
        for record, task in rollouts:
            index, sample = place(record, size)
            replies = players[index, sample]
            yield Stored(
                record=record,
                task=task,
                key=top.at("episode", task=index, sample=sample),
                player=player_of(record),
                replies=tuple(map(replies.get, range(max(replies) + 1))),
                observations=observed(record.body),
            )


def player_of(record: Record) -> int:
    return int(record.body.get("seat", 0))


def place(record: Record, size: int) -> tuple[int, int]:
    """The index of a rollout's task, and the number of its episode among those of the task."""
    return record.task or 0, (record.sample or 0) - player_of(record) * size


def observed(body: Mapping[str, Any]) -> tuple[tuple[Message, ...], ...] | None:
    if "turns" not in body:
        return None
    return tuple(tuple(Message(**message) for message in turn["messages"]) for turn in body["turns"])


def reading(config: RunConfig, turns: int) -> Read:
    """How the replies of a run's rollouts are read from their records, as its renderer read them then.

    Args: turns: how many turns of the policy an episode may have.
    Raises: ModelError, when the folder of the policy is gone.
    """
    renderer = choose(Tokenizer(model_folder(config.policy.path)), config.policy.renderer, turns=turns)

    def read(body: Mapping[str, Any]) -> tuple[str, ...]:
        parts = list(turns_of(body))
        if isinstance(renderer, Plain) or (config.rollout.demonstrations and prefilled(body)):
            return tuple(text for text, _ in parts)
        return tuple(reply_text(renderer, text, token_ids) for text, token_ids in parts)

    return read


def turns_of(body: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[int]]]:
    """Text and tokens of each reply."""
    start = 0
    for turn in body.get("turns", [{"reply": body["reply"], "tokens": body["tokens"]}]):
        yield turn["reply"], body["token_ids"][start : start + turn["tokens"]]
        start += turn["tokens"]


def prefilled(body: Mapping[str, Any]) -> bool:
    """Whether nobody sampled a rollout: its tokens have no log-probability."""
    logprobs = array("f", b64decode(body["logprobs"]))
    return all(map(math.isnan, logprobs))
