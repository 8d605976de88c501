"""Floating-point operations of a run, from the tokens that it recorded and the shape of its model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from gnomon.config import RunConfig, recorded_recipe, resolve
from gnomon.models.attention import Flat, Form
from gnomon.models.delta import CHUNK, Inputs, after, chunk, outputs
from gnomon.models.delta_tree import convolve
from gnomon.models.packed import Packed
from gnomon.models.policy import Pass, Policy
from gnomon.plans.count import Count
from gnomon.plans.devices import GPUS
from gnomon.plans.subject import trainable
from gnomon.store import RunReader
from gnomon.store.layout import RECIPE
from gnomon.types import Group, Turn

__all__ = ["PassFlops", "Span", "StepFlops", "model_flops", "step_flops"]

SHORT, LONG = CHUNK, 2 * CHUNK
"""Tokens of the counted passes: few rows would be filled up."""


class Span(NamedTuple):
    """Consecutive tokens of one text."""

    begin: int
    """Position of the first."""
    end: int
    """Position after the last."""
    scored: int
    """Tokens behind which the next one is scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassFlops:
    """What a pass of a model takes, in floating-point operations of products; a multiply and an add are two.

    Padding is not counted, so the numbers do not depend on how an engine or a learner lays its tokens out.
    """

    token: float
    """Of a token in all layers, without attention."""
    pair: float
    """Of a token and one that it attends to, in one layer."""
    scored: float
    """Of the scores over the vocabulary behind one token."""
    windows: tuple[int | None, ...]
    """How many tokens one attends to at most, itself among them, in every layer with attention; None for all."""

    def of(self, span: Span) -> float:
        """Of some tokens whose predecessors are known."""
        pairs = sum(attended_pairs(span.end, window) - attended_pairs(span.begin, window) for window in self.windows)
        return self.token * (span.end - span.begin) + self.pair * pairs + self.scored * span.scored


def attended_pairs(length: int, window: int | None) -> float:
    """Pairs of a token and one that it attends to, in a text of so many tokens."""
    full = min(length, window or length)
    return full * (full + 1) / 2 + (length - full) * full


@dataclass(slots=True)
class Everything(Flat):
    """A layout in which every token attends to every other one, so that a pass has known pairs; see `Layout`."""

    positions: Tensor
    windows: dict[int, int | None] = field(default_factory=dict)
    """Of the layers with attention."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, form: Form) -> Tensor:
        self.windows[layer] = form.window  # A layer may be computed again for its gradient.
        times = query.shape[1] // key.shape[1]
        q, k, v = (states.transpose(0, 1) for states in (query, *(s.repeat_interleave(times, 1) for s in (key, value))))
        return torch.softmax(q @ k.transpose(1, 2), -1).to(v.dtype).matmul(v).transpose(0, 1)

    def convolve(self, layer: int, inputs: Tensor, weight: Tensor) -> Tensor:
        """As in `Recurrent`; it has no products."""
        return convolve([inputs] * weight.shape[1], weight)

    def delta_rule(self, layer: int, inputs: Inputs) -> Tensor:
        """As in `Recurrent`. Every chunk counts as full, and as one that follows another."""
        tiles = (each.view(-1, CHUNK, *each.shape[1:]).transpose(1, 2).flatten(0, 1) for each in inputs)
        chunks = chunk(*tiles)
        blank = inputs.value.new_zeros(len(chunks.key), chunks.key.shape[2], chunks.value.shape[2])
        out = outputs(chunks, after(blank, chunks.key, chunks.decay, chunks.value))[0]
        return out.view(-1, inputs.key.shape[1], *out.shape[1:]).transpose(1, 2).flatten(0, 1)


def model_flops(policy: Policy, *, gradient: bool) -> PassFlops:
    """Count the passes of a model without numbers. Args: gradient: forward and backward, not forward alone."""
    (short, _), (long, windows), (scored, _) = (
        pass_flops(policy, length, scores, gradient) for length, scores in ((SHORT, SHORT), (LONG, SHORT), (LONG, LONG))
    )
    behind = (scored - long) / (LONG - SHORT)
    tokens_short, tokens_long = short - SHORT * behind, long - SHORT * behind
    pairs = (tokens_long / LONG - tokens_short / SHORT) / (LONG - SHORT)  # Of all layers: T² of them at length T.
    token = tokens_short / SHORT - pairs * SHORT
    return PassFlops(token=token, pair=pairs / len(windows), scored=behind, windows=windows)


def pass_flops(policy: Policy, length: int, scores: int, gradient: bool) -> tuple[int, tuple[int | None, ...]]:
    """The operations of one text, and the windows of the layers with attention."""
    ids = torch.zeros(length, dtype=torch.int64, device="meta")
    layout = Everything(torch.arange(length, device="meta"))
    work = Pass(ids=ids, layout=layout, rows=slice(length - scores, None), target=ids[:scores])
    with Count(GPUS["h100"]) as count, torch.set_grad_enabled(gradient):
        logp = policy(work).logp
        if gradient:
            logp.sum().backward()
    return count.flops, tuple(layout.windows.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFlops:
    """Floating-point operations of a step. A reference, a critic and evaluations are not counted."""

    step: int
    sampled: float
    """Of sampling its rollouts. The prompt of a turn is read once for all replies to it."""
    trained: float
    """Of training: forward and backward passes of the sequences that had a gradient, for every epoch."""

    @property
    def total(self) -> float:
        return self.sampled + self.trained


def step_flops(reader: RunReader) -> list[StepFlops]:
    """The operations of every step of a run. Rollouts that nobody sampled take none in sampling.

    Training takes the share of the sequences' operations that the metric `trained` has of their tokens, since records
    do not hold which sequences had a gradient; it is exact where all sequences of a group have one or none.
    Raises: ModelError E301 where the model is not there any more.
    """
    config, _ = resolve([recorded_recipe(reader.folder / RECIPE)])
    forward, both = flops_of(config.model_dump_json(include={"policy"}))
    training_flops = {record.step: record.body["metrics"].get("trained", 0.0) for record in reader.records("step")}
    result = []
    for step, groups in groupby(steps_of(reader), lambda pair: pair[0]):
        if step not in training_flops:
            continue  # The run is in the middle of it.
        some = [group for _, group in groups]
        replies = sum(rollout.tokens for group in some for rollout in group.rollouts)
        sampling_flops = sum(forward.of(span) for group in some for span in sampling(group))
        whole = sum(both.of(span) for group in some for span in training(group))
        result.append(
            StepFlops(step=step, sampled=sampling_flops, trained=whole * training_flops[step] / max(1, replies))
        )
    return result


def steps_of(reader: RunReader) -> Iterator[tuple[int, Group]]:
    """The groups of a run, each with its step."""
    for step in reader.steps_with(["rollout"]):
        yield from ((step, group) for group in reader.groups(step))


@lru_cache(maxsize=16)
def flops_of(policy: str) -> tuple[PassFlops, PassFlops]:
    """Forward, and forward with backward, of a model without numbers. Args: policy: its settings as JSON."""
    model = trainable(RunConfig.model_validate_json(policy), Packed)
    return model_flops(model, gradient=False), model_flops(model, gradient=True)


def sampling(group: Group) -> Iterator[Span]:
    """The tokens that are passed to sample a group: every different prompt once, then all of a reply but its last."""
    turns = [turn for rollout in group.rollouts for turn in rollout.turns if is_sampled(turn)]
    for prompt in {turn.prompt_ids for turn in turns}:
        yield Span(0, len(prompt), 0)
    for turn in turns:
        start, count = len(turn.prompt_ids), len(turn.completion.token_ids)
        yield Span(start, start + count - 1, count)


def is_sampled(turn: Turn) -> bool:
    """Whether a turn was sampled. Tokens that were supplied have no log-probability."""
    return bool(turn.completion.token_ids) and not all(map(math.isnan, turn.completion.logprobs))


def training(group: Group) -> Iterator[Span]:
    """The tokens that are passed to train on a group: its first prompt once, then the rest of every sequence."""
    sequences = [turns for rollout in group.rollouts for turns in forks(rollout.turns)]
    prompts = {turns[0].prompt_ids for turns in sequences}
    for prompt in prompts:
        yield Span(0, len(prompt), 0)
    for turns in sequences:
        end = len(turns[-1].prompt_ids) + len(turns[-1].completion.token_ids)
        scored = sum(len(turn.completion.token_ids) for turn in turns)
        yield Span(len(turns[0].prompt_ids), end - 1, scored)


def forks(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """The turns of every training sequence with a token."""
    sequences = [list(some) for _, some in groupby(turns, lambda turn: turn.fork)]
    return (some for some in sequences if any(turn.completion.token_ids for turn in some))
