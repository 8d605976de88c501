"""Log-probabilities of given tokens in one packed pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gnomon.models.attention import MIN_ROWS
from gnomon.models.policy import Pass, Policy
from gnomon.models.projection import WHOLE, Truncation
from gnomon.models.trie import Trie

__all__ = ["Text", "pack_rows", "packed_logp", "score", "text_collision", "text_entropy", "text_logp", "text_pass"]

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


class Completed(NamedTuple):
    """A prompt and what follows it."""

    token_ids: Tensor
    trainable: Tensor


def text_pass(policy: Policy, texts: Sequence[Text]) -> Pass:
    """The pass that reads every trainable token of the texts, end to end. What texts begin with alike passes once."""
    trainable = [text.trainable.nonzero().flatten() for text in texts]
    trie = Trie([text.token_ids[: int(at[-1])] for text, at in zip(texts, trainable, strict=True)], least=MIN_ROWS)
    index = torch.cat([torch.from_numpy(path)[at - 1] for path, at in zip(trie.paths, trainable, strict=True)])
    target = torch.cat([text.token_ids[text.trainable] for text in texts])
    ids, index, target = (values.to(policy.device) for values in (trie.ids, index, target))
    return Pass(ids=ids, layout=policy.pack(trie), rows=index, target=target)


def pack_rows(policy: Policy, prompts: Sequence[tuple[int, ...]], rows: Sequence[Row]) -> Pass:
    """The pass that reads every token of the rows, rows one after the other; none is empty."""
    whole = [(len(prompts[group]), torch.tensor(prompts[group] + row, device="cpu")) for group, row in rows]
    return text_pass(policy, [Completed(ids, torch.arange(len(ids), device="cpu") >= start) for start, ids in whole])


def packed_logp(
    policy: Policy, prompts: Sequence[tuple[int, ...]], rows: Sequence[Row], temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of every token of the rows, each [T], rows one after the other; with gradients."""
    scores = policy(pack_rows(policy, prompts, rows), temperature)
    return scores.logp, scores.entropy


@torch.no_grad()
def score(policy: Policy, prompts: Sequence[tuple[int, ...]], rows: Sequence[Row], temperature: float = 1.0) -> Tensor:
    """`packed_logp` without gradients: [T]."""
    return packed_logp(policy, prompts, rows, temperature)[0]


@torch.no_grad()
def text_logp(
    policy: Policy, texts: Sequence[Text], temperature: float = 1.0, truncation: Truncation = WHOLE
) -> Tensor:
    """[T] log-probability of every trainable token of the texts, end to end, without gradients."""
    logp: Tensor = policy(text_pass(policy, texts), temperature, truncation=truncation).logp
    return logp


@torch.no_grad()
def text_entropy(
    policy: Policy, texts: Sequence[Text], temperature: float = 1.0, truncation: Truncation = WHOLE
) -> Tensor:
    """[T] entropy of the distribution that every trainable token of the texts is drawn from, in nats, no gradients."""
    entropy: Tensor = policy(text_pass(policy, texts), temperature, truncation=truncation).entropy
    return entropy


@torch.no_grad()
def text_collision(
    policy: Policy, texts: Sequence[Text], temperature: float = 1.0, truncation: Truncation = WHOLE
) -> Tensor:
    """[T] Σ_v π(v)² of the distribution that every trainable token of the texts is drawn from, no gradients."""
    return policy.collision(text_pass(policy, texts), temperature, truncation)
