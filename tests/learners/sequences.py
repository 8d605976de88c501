"""Sequences of one turn, made by hand, and read turn by turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon import learners
from gnomon.learners import Batch
from gnomon.learners.base import Learner
from gnomon.learners.credit import Crediting
from gnomon.objectives import Denominators, Objective, Rollouts


def made(
    prompt: Sequence[int], reply: Sequence[int], logp: float = -1.0, *, rollout: int, group: int = 0
) -> learners.TokenSequence:
    """A conversation of one turn."""
    count = len(reply)
    return learners.TokenSequence(
        token_ids=torch.tensor([*prompt, *reply]),
        trainable=torch.tensor([False] * len(prompt) + [True] * count),
        behavior_logp=torch.full((count,), logp, dtype=torch.float64),
        version=torch.zeros(count, dtype=torch.int64),
        turn=torch.zeros(count, dtype=torch.int64),
        rollout=rollout,
        group=group,
        player=0,
    )


def batch_of_four() -> Batch:
    """Two groups of two rollouts."""
    sequences = tuple(made([5, 9 + i // 2], [20 + i, 31], rollout=i, group=i // 2) for i in range(4))
    seen = Rollouts(rewards=torch.tensor([[1.0, 0], [0, 1]], dtype=torch.float64), lengths=torch.full((2, 2), 2))
    sizes = Denominators(groups=2, sequences=4, tokens=8, max_tokens=2, group_tokens=(4, 4))
    return Batch(sequences=sequences, rollouts=seen, denominators=sizes, temperature=1.0, exact=False)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One turn, with what the batch holds of its tokens."""

    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    rollout: int
    group: int
    advantage: tuple[float, ...]
    proximal_logp: tuple[float, ...]
    reference_logp: tuple[float, ...]


def lines(batch: Batch) -> Iterator[Line]:
    """Every turn of the batch, in order."""
    start = 0
    for sequence in batch.sequences:
        ids = sequence.token_ids.tolist()
        places = sequence.trainable.nonzero().flatten()
        for turn in sequence.turn.unique().tolist():
            first, count = int(places[sequence.turn == turn][0]), int((sequence.turn == turn).sum())
            known = {
                name: tuple(value[start : start + count].tolist())
                for name in ("advantage", "proximal_logp", "reference_logp")
                for value in [getattr(batch, name)]
                if isinstance(value, Tensor)
            }
            yield Line(
                prompt=tuple(ids[:first]),
                reply=tuple(ids[first : first + count]),
                rollout=sequence.rollout,
                group=sequence.group,
                **{"advantage": (), "proximal_logp": (), "reference_logp": ()} | known,
            )
            start += count


def credited(learner: Learner, batch: Batch, objective: Objective, *, updates: int = 1) -> Batch:
    """The batch with credit, as of the first step of a run."""
    return Crediting(objective)(batch, learner, updates=updates)
