"""Log-probabilities of given tokens in one packed pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Protocol

import torch
from torch import Tensor

from gnomon.models.attention import MIN_ROWS
from gnomon.models.policy import Pass, Policy

__all__ = ["Text", "packed", "packed_logp", "score", "text_logp", "text_pass"]

Row = tuple[int, tuple[int, ...]]
"""The index of its prompt and the tokens that follow."""


class Text(Protocol):
    """Tokens of which some are asked for."""

    @property
    def token_ids(self) -> Tensor:
        """[L] int64."""
        ...

    @property
    def trainable(self) -> Tensor:
        """[L] bool, never the first."""
        ...


def packed(policy: Policy, prompts: Sequence[tuple[int, ...]], rows: Sequence[Row]) -> Pass:
    """The pass that reads every token of the rows, rows one after the other.

    Every prompt passes through the model once, however many rows follow it, and rows that are equal pass once. Rows of
    a prompt stand together and none is empty.
    """
    distinct = list(dict.fromkeys(rows))
    wanted = [i for _, row in rows for i in row]
    count = sum(len(row) for _, row in distinct)
    short = MIN_ROWS - count - sum(len(prompt) - 1 for prompt in prompts)
    padded = [*distinct, *[distinct[-1]] * -(-max(0, short) // len(distinct[-1][1]))]
    ids = [i for prompt in prompts for i in prompt[:-1]]
    start = len(ids)
    ids += [i for group, row in padded for i in (prompts[group][-1], *row[:-1])]
    layout = policy.packed(
        [len(p) - 1 for p in prompts], [len(row) for _, row in padded], [group for group, _ in padded]
    )
    read: Tensor | slice = slice(start, start + count)
    if len(distinct) < len(rows):
        read = policy.place([start + place for place in tokens_among(distinct, rows)])
    return Pass(ids=policy.place(ids), layout=layout, read=read, target=policy.place(wanted))


def tokens_among(distinct: Sequence[Row], rows: Sequence[Row]) -> list[int]:
    """Where the tokens of the rows stand among those of the distinct ones, both end to end."""
    starts = accumulate((len(row) for _, row in distinct), initial=0)
    start = dict(zip(distinct, starts, strict=False))
    return [start[row] + place for row in rows for place in range(len(row[1]))]


def packed_logp(
    policy: Policy, prompts: Sequence[tuple[int, ...]], rows: Sequence[Row], temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of every token of the rows, each [T], rows one after the other; with gradients."""
    found = policy(packed(policy, prompts, rows), temperature)
    return found.logp, found.entropy


@torch.inference_mode()
def score(policy: Policy, prompts: Sequence[tuple[int, ...]], rows: Sequence[Row], temperature: float = 1.0) -> Tensor:
    """`packed_logp` without gradients: [T]."""
    return packed_logp(policy, prompts, rows, temperature)[0]


def text_pass(policy: Policy, texts: Sequence[Text]) -> Pass:
    """The pass that reads every trainable token of the texts, end to end."""
    found = [(text.token_ids[:start], text.token_ids[start:end]) for text in texts for start, end in runs(text)]
    known = [(tuple(prompt.tolist()), tuple(row.tolist())) for prompt, row in found]
    prompts = list(dict.fromkeys(prompt for prompt, _ in known))
    place = {prompt: at for at, prompt in enumerate(prompts)}
    order = sorted(range(len(known)), key=lambda at: place[known[at][0]])
    work = packed(policy, prompts, [(place[known[at][0]], known[at][1]) for at in order])
    if order == list(range(len(known))):
        return work
    tokens = torch.arange(len(work.ids), device=policy.device)[work.read]
    parts = dict(zip(order, torch.split(tokens, [len(known[at][1]) for at in order]), strict=True))
    target = policy.place([token for _, row in known for token in row])
    return work._replace(read=torch.cat([parts[at] for at in range(len(known))]), target=target)


def runs(text: Text) -> list[tuple[int, int]]:
    """Where its trainable tokens begin and end."""
    marks = [False, *text.trainable.tolist(), False]
    ends = [at for at, (before, after) in enumerate(pairwise(marks)) if before != after]
    return list(zip(ends[::2], ends[1::2], strict=True))


@torch.inference_mode()
def text_logp(policy: Policy, texts: Sequence[Text], temperature: float = 1.0) -> Tensor:
    """[T] log-probability of every trainable token of the texts, end to end, without gradients."""
    found: Tensor = policy(text_pass(policy, texts), temperature).logp
    return found
