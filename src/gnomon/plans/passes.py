"""The passes of a step on the meta device: sampling, training, scoring. No weights are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from gnomon.engines.embedded import ROWS
from gnomon.engines.noise import rows_at_once
from gnomon.learners import TokenSequence
from gnomon.learners.batch import pieces
from gnomon.learners.local import TOKENS
from gnomon.models.adapter import Adapter
from gnomon.models.attention import BLOCK, MIN_ROWS, NAME, SPAN, blocks
from gnomon.models.decode import Decode
from gnomon.models.decode import Plan as Slots
from gnomon.models.packed import Packed
from gnomon.models.policy import Policy, Whole, configuration
from gnomon.models.precision import Precision
from gnomon.models.projection import logp_of, most_scores
from gnomon.models.scoring import text_pass
from gnomon.models.weights import PROBE
from gnomon.plans.count import RETURNED, Count
from gnomon.plans.devices import Device

__all__ = ["Cost", "decoding", "drawing", "meta_policy", "probing", "scoring", "texts", "training"]

NOISE_COPIES = 3
"""Arrays of the noise of some rows that are alive together; on a CPU NumPy's rows, their stack, the sum with scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What some work takes."""

    seconds: float
    peak: float
    """Most bytes at once, beside weights, gradients and the state of the optimiser."""
    cache: float = 0.0
    """Bytes of keys and values, a part of `peak`."""
    head: float = 0.0
    """Bytes of scores over the vocabulary and of the noise, a part of `peak`."""
    small: float = 0.0
    """Most bytes at once of tensors of at most `RETURNED` bytes."""
    large: float = 0.0
    """Most bytes at once of larger tensors."""

    def times(self, count: int, more: float = 0.0) -> Cost:
        """Of so many at the same time. Args: more: bytes of each beside its own."""
        return Cost(
            seconds=self.seconds,
            peak=count * (self.peak + more),
            cache=count * self.cache,
            head=count * self.head,
            small=count * self.small,
            large=count * self.large,
        )

    @staticmethod
    def most(seconds: float, counts: Sequence[Count]) -> Cost:
        """The cost of work done in pieces: the largest of each count."""
        return Cost(
            seconds=seconds,
            peak=max(count.peak for count in counts),
            small=max(count.small for count in counts),
            large=max(count.large for count in counts),
        )


def meta_policy(
    folder: Path, precision: Precision, adapter: Adapter | None = None, layers: int = 0, whole: Whole = Packed
) -> Policy:
    """A policy without numbers, from the `config.json` of a folder alone. Args: layers: 0 for all."""
    config = configuration(folder)
    config.pad_token_id = None  # Else transformers reads the tokens, to warn of padding.
    if layers:
        config.num_hidden_layers = layers
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:layers]
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            config,
            attn_implementation=NAME,
            dtype=precision.compute if adapter else precision.master,
        )
        return Policy(model.eval(), None, precision, None, adapter, whole)  # type: ignore[arg-type] # it never reads a text


def texts(prompts: Sequence[int], group: int, reply: int) -> list[TokenSequence]:
    """The sequences of a step: for every prompt length, a group of replies that share nothing but their prompt."""
    sequences: list[TokenSequence] = []
    for i, length in enumerate(prompts):
        prompt = torch.full((length,), i, device="cpu")
        for row in range(group):
            ids = torch.cat([prompt, torch.full((reply,), len(prompts) + row, device="cpu")])
            sequences.append(
                TokenSequence(
                    token_ids=ids,
                    trainable=torch.arange(len(ids), device="cpu") >= length,
                    behavior_logp=torch.zeros(reply, dtype=torch.float64, device="cpu"),
                    version=torch.zeros(reply, dtype=torch.int64, device="cpu"),
                    turn=torch.zeros(reply, dtype=torch.int64, device="cpu"),
                    rollout=len(sequences),
                    group=i,
                    player=0,
                )
            )
    return sequences


def micro_batches(sequences: Sequence[TokenSequence], tokens: int) -> Iterator[tuple[list[TokenSequence], int]]:
    """The distinct micro-batches of a step, with the number of each. Those of equal lengths count as one."""
    cuts = [[sequences[i] for i in indices] for indices in pieces(sequences, tokens)]

    def size(cut: Sequence[TokenSequence]) -> tuple[int, ...]:
        first = [len(list(rows)) for _, rows in groupby(cut, key=lambda text: text.group)]
        return (sum(len(text.token_ids) for text in cut) // 256, *first)

    for _, alike in groupby(sorted(cuts, key=size), key=size):
        some = list(alike)
        yield max(some, key=lambda cut: sum(len(text.token_ids) for text in cut)), len(some)


def training(
    policy: Policy,
    sequences: Sequence[TokenSequence],
    device: Device,
    *,
    entropy: bool = False,
    micro_batch: int = TOKENS,
) -> Cost:
    """A forward and a backward pass of all sequences."""
    policy.most_scores = most_scores(device.name)
    for parameter in policy.masters.parameters.values():
        parameter.grad = torch.zeros_like(parameter)
    seconds, counts = 0.0, []
    for some, times in micro_batches(sequences, micro_batch):
        work = text_pass(policy, some)
        with Count(device) as count:
            output = policy(work)
            gain = (torch.zeros_like(output.logp) * output.logp).sum()
            if entropy:
                gain = gain + (torch.zeros_like(output.logp) * output.entropy).sum()
            del output
            (-gain).backward()
        seconds += times * count.time
        counts.append(count)
        del gain
    return Cost.most(seconds, counts)


@torch.inference_mode()
def scoring(policy: Policy, sequences: Sequence[TokenSequence], device: Device, *, micro_batch: int = TOKENS) -> Cost:
    """A forward pass of all sequences."""
    policy.most_scores = most_scores(device.name)
    seconds, counts = 0.0, []
    for some, times in micro_batches(sequences, micro_batch):
        work = text_pass(policy, some)
        with Count(device) as count:
            policy(work)
        seconds += times * count.time
        counts.append(count)
    return Cost.most(seconds, counts)


def probing(policy: Policy, device: Device) -> Cost:
    """The pass by which an engine proves that it holds the weights."""
    return scoring(policy, texts([1], 1, PROBE - 1), device)


@torch.inference_mode()
def decoding(policy: Policy, prompts: Sequence[int], group: int, reply: int, device: Device, most: int = 0) -> Cost:
    """Sampling a reply to every prompt `group` times, by the embedded engine, at most `ROWS` rows at a time.

    Args: most: tokens that a reply may have, if more than `reply`.
    """
    rows = min(ROWS, len(prompts) * group)
    share = len(prompts) * group / rows
    lengths = [max(1, length - 1) for length in prompts[: max(1, rows // group)]]
    owners = [min(row // group, len(lengths) - 1) for row in range(rows)]
    costs, replayed = [], device.per_operation if device.per_replayed is None else device.per_replayed
    with Count(device) as count:
        layout = policy.decode()
        for depth in (0, 1, reply - 1):
            seconds, operations = count.seconds, count.operations
            plan = slots(lengths, owners, depth, max(length % SPAN for length in lengths) + max(reply, most))
            layout.follow(plan)
            tokens = (sum(lengths) if plan.new else 0) + len(plan.group)
            draw(policy, policy.hidden(policy.place([0] * tokens), layout)[-len(plan.group) :])
            costs.append((count.seconds - seconds, count.operations - operations))
            if depth == 1:
                grow(layout, max(length % SPAN for length in lengths), reply)
        cache = layout.nbytes
    noise = drawing(rows, policy.vocabulary, device)
    (first, operations_at_start), *others = costs
    seconds, operations = (sum(each) / 2 for each in zip(*others, strict=True))
    seconds = first + operations_at_start * device.per_operation + (reply - 1) * (seconds + operations * replayed)
    if device.per_replayed is not None:  # A pass of every new length is started from Python twice.
        seconds += 2 * (reply // BLOCK + 1) * operations * device.per_operation
    seconds += reply * (noise.seconds + rows * device.per_token)
    head = noise.peak + 4 * rows * policy.vocabulary * 4
    return Cost(
        seconds=share * seconds,
        peak=count.peak + noise.peak,
        cache=cache,
        head=head,
        small=count.small + noise.small,
        large=count.large + noise.large,
    )


@torch.inference_mode()
def drawing(rows: int, vocabulary: int, device: Device) -> Cost:
    """The noise of one token of every row, which is made for a few rows at a time."""
    some = min(rows, rows_at_once(vocabulary, torch.device("cpu" if device.name == "cpu" else "cuda")))
    array = some * vocabulary * 8
    peak = NOISE_COPIES * array
    small = peak if array <= RETURNED else 0
    return Cost(seconds=rows * vocabulary * device.per_noise, peak=peak, small=small, large=peak - small)


def grow(layout: Decode, start: int, reply: int) -> None:
    """Take the memory that keys and values of a reply have taken at its end. Args: start: tokens in front of it."""
    for length in range(start, start + reply, BLOCK):
        for layer in layout._own.values():
            layer.room(layout.most, blocks(length + 1), layout.furthest)
    for layer in layout._own.values():
        layer.room(layout.most, blocks(start + reply), layout.furthest)


def slots(lengths: Sequence[int], owners: Sequence[int], depth: int, furthest: int) -> Slots:
    """What a pass holds in which every row has as many tokens. Args: owners: the prompt of every row; furthest: as of
    the plan of a pass."""
    missing = max(0, MIN_ROWS - len(owners))
    return Slots(
        prompts=lengths,
        new=() if depth else range(len(lengths)),
        moved=(),
        group=[*owners, *[None] * missing],
        depth=[depth] * len(owners) + [0] * missing,
        copied=(),
        most=len(owners),
        furthest=furthest,
    )


def draw(policy: Policy, hidden: Tensor) -> Tensor:
    """What is computed to draw a token of every row."""
    logits = policy.logits(hidden)
    temperature = logits.new_ones(len(logits), 1)
    logp = logp_of(logits[torch.zeros(len(logits), dtype=torch.int64, device="meta")], temperature)
    token = (logp.double() + logp).argmax(-1)
    return logp.gather(1, token[:, None])
