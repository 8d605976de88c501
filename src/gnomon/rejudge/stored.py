"""Stored rollouts as the episodes they were: with which key, what every player replied and saw."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from gnomon.config import RunConfig
from gnomon.keys import Key
from gnomon.models.folder import present_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import choose
from gnomon.rendering.transcript import reply_text
from gnomon.run.order import reorder
from gnomon.store import Record
from gnomon.store.layout import set_of
from gnomon.types import Completion, Message, Rollout, Stop, Task, Turn

__all__ = ["Read", "Stored", "read_rollouts", "reading"]

LIMITS = (Stop.TURNS, Stop.CONTEXT, Stop.TIME)
"""Why an episode was ended although the environment would have gone on."""
Read = Callable[[Rollout], tuple[str, ...]]
"""What the environment got of each reply of a rollout."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A rollout, with the episode that it is a part of."""

    record: Record
    rollout: Rollout
    key: Key
    """Of the episode."""
    replies: tuple[tuple[str, ...] | None, ...]
    """Of every player in order; None for one whose replies were not stored."""

    @property
    def task(self) -> Task:
        return self.rollout.task

    @property
    def player(self) -> int:
        return self.rollout.player

    @property
    def text(self) -> str:
        """All that the player replied."""
        return "".join(self.replies[self.player] or ())

    @property
    def observations(self) -> tuple[tuple[Message, ...], ...] | None:
        """What the player saw before each of its replies; None where only the task was stored, or a program asked."""
        several = "turns" in self.record.body and not self.rollout.end
        return tuple(turn.messages for turn in self.rollout.turns) if several else None

    @property
    def limited(self) -> bool:
        """Whether a limit of the run ended the episode."""
        return self.rollout.stop in LIMITS

    def complete(self, players: int) -> bool:
        """Whether the replies of all players were stored."""
        return len(self.replies) == players and None not in self.replies


def read_rollouts(rollouts: Iterable[tuple[Record, Rollout]], config: RunConfig, replies_of: Read) -> Iterator[Stored]:
    """The rollouts of a run, in order. Args: rollouts: each with its record; replies_of: see `Read`."""
    for (kind, step), part in groupby(rollouts, lambda pair: (pair[0].kind, pair[0].step)):
        pairs = list(part)
        size, top = sampling_of(config, kind, step or 0)
        players: dict[tuple[int, int], dict[int, tuple[str, ...]]] = defaultdict(dict)
        for record, rollout in pairs:
            players[position(record, rollout, size)][rollout.player] = replies_of(rollout)
        for record, rollout in pairs:
            index, sample = position(record, rollout, size)
            replies = players[index, sample]
            own = top
            if replayed := record.body.get("replayed"):
                seed, sampled_in = replayed
                own = Key(seed).at("rollouts", step=sampled_in)
            yield Stored(
                record=record,
                rollout=rollout,
                key=own.at("episode", task=index, sample=sample),
                replies=tuple(map(replies.get, range(max(replies) + 1))),
            )


def sampling_of(config: RunConfig, kind: str, step: int) -> tuple[int, Key]:
    """How many rollouts of a kind a task has, and the key that theirs lie below."""
    if kind == "rollout":
        if config.rollout.order_seed:
            step = reorder(config.rollout.order_seed, config.budget.steps)[step]
        return config.rollout.group, Key(config.seed).at("rollouts", step=step)
    name = set_of(kind)
    return config.eval.of(name).samples, Key(config.seed).at("eval", **({"set": name} if name else {}))


def position(record: Record, rollout: Rollout, size: int) -> tuple[int, int]:
    """The index of a rollout's task, and the number of its episode among those of the task."""
    return record.task or 0, rollout.sample - rollout.player * size


def reading(config: RunConfig, turns: int) -> Read:
    """How the replies of a run's rollouts are read, as its renderer read them when they were sampled.

    Args: turns: how many turns of the policy an episode may have.
    Raises: ModelError, when the folder of the policy is gone.
    """
    tokenizer = Tokenizer(present_folder(config.policy.path))
    renderer = choose(tokenizer, config.policy.renderer, turns=turns)

    def read(rollout: Rollout) -> tuple[str, ...]:
        if rollout.end:
            return (rollout.end,)
        if config.rollout.demonstrations and prefilled(rollout):
            return tuple(turn.completion.text for turn in rollout.turns)
        return tuple(text_of(turn) for turn in rollout.turns)

    def text_of(turn: Turn) -> str:
        completion = with_prefix(turn, tokenizer)
        before = turn.prompt_ids[: len(turn.prompt_ids) - len(turn.prefix)]
        return reply_text(renderer, before, completion.text, completion.token_ids)

    return read


def with_prefix(turn: Turn, tokenizer: Tokenizer) -> Completion:
    """The reply of a turn as the environment got it, with the prefix that was continued."""
    if not turn.prefix:
        return turn.completion
    ids = turn.prefix + turn.completion.token_ids
    text = tokenizer.decode(turn.prefix) + turn.completion.text
    logprobs = (math.nan,) * len(turn.prefix) + turn.completion.logprobs
    return replace(turn.completion, token_ids=ids, logprobs=logprobs, text=text)


def prefilled(rollout: Rollout) -> bool:
    """Whether nobody sampled a rollout: its tokens have no log-probability."""
    return all(math.isnan(logp) for turn in rollout.turns for logp in turn.completion.logprobs)
