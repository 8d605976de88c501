"""What a run did to its model, from a checkpoint and recorded replies: divergence, likeliest tokens, weights."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import process_time

import torch
from torch import Tensor

from gnomon.comparison.change_card import Card, Moved
from gnomon.config import recorded_recipe, resolve
from gnomon.errors import RunError
from gnomon.models.adapter import PREFIX
from gnomon.models.policy import Policy, Scored
from gnomon.models.precision import Precision
from gnomon.models.scoring import pack_rows
from gnomon.run.makers.policy import make_policy
from gnomon.run.saved import checkpoint, require_base, trained_policy
from gnomon.run.subject import split_step
from gnomon.stats import difference_interval
from gnomon.store import RunReader
from gnomon.store.layout import RECIPE

__all__ = ["change"]

REPLIES = 64
"""Most replies that are scored."""
PLACES = 256
"""Places whose scores over the vocabulary are held at once."""
LAYER = re.compile(r"\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Reply:
    """The tokens of one turn after its prompt."""

    task: str
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """The change of one parameter."""

    name: str
    first: float
    """Norm of its first values."""
    norm: float
    """Of the change."""
    stable_rank: float | None
    """Of the change; None for a vector."""


def change(name: str) -> Card:
    """What training did until the newest checkpoint of `RUN`, or until the one of `RUN:STEP`.

    Raises: RunError E185 for a run without such a checkpoint, E186 where its base model has changed, E436 for a run
        without held-out replies.
    """
    began = process_time()
    folder, step = split_step(name)
    with RunReader(folder) as reader, torch.no_grad():
        config, _ = resolve([recorded_recipe(folder / RECIPE)])
        path = checkpoint(folder, step)
        sampled_step, replies = held_out(reader, int(path.name))
        require_base(reader, config)
        policy = trained_policy(reader, config, path, Precision())
        first = policy.without_adapter if policy.adapter else make_policy(config, Precision())
        kl, flips = compare_replies(policy, first, replies, config.rollout.temperature)
        changes = list(adapter_changes(policy) if policy.adapter else weight_changes(policy, first))
        return Card(
            run=reader.fingerprint,
            step=int(path.name),
            sampled=sampled_step,
            replies=len(replies),
            kl=difference_interval(by_task(replies, kl)),
            tokens=sum(len(reply.tokens) for reply in replies),
            kl_token=math.fsum(kl) / sum(len(reply.tokens) for reply in replies),
            flipped=flips,
            whole=together("all", changes),
            layers=tuple(group_changes(changes, layer_of)),
            kinds=tuple(group_changes(changes, kind_of)),
            cpu_seconds=process_time() - began,
        )


def held_out(reader: RunReader, step: int) -> tuple[int, list[Reply]]:
    """The step of the last evaluation up to a checkpoint, and some of its replies: the first of every task, then the
    second."""
    steps = [record.step or 0 for record in reader.evaluations() if (record.step or 0) <= step]
    groups = list(reader.groups(steps[-1], "held_out")) if steps else []
    ordered = sorted(
        ((sample, group.task.id, rollout) for group in groups for sample, rollout in enumerate(group.rollouts)),
        key=lambda item: item[0],
    )
    replies = [
        Reply(task, turn.prompt_ids, turn.completion.token_ids)
        for _, task, rollout in ordered
        for turn in rollout.turns
        if turn.completion.token_ids
    ]
    if not replies:
        raise RunError(
            "E436", "the run has no held-out replies", where=str(reader.folder),
            why="the divergence is measured on replies that the policy sampled", fix="in a new run: eval.tasks=32",
        )  # fmt: skip
    return steps[-1], replies[:REPLIES]


def compare_replies(
    policy: Policy, first: Policy, replies: Sequence[Reply], temperature: float
) -> tuple[list[float], int]:  # fmt: skip
    """KL(policy‖first) of every reply in nats, and the number of places with another likeliest token."""
    prompts, rows = [reply.prompt for reply in replies], [(row, reply.tokens) for row, reply in enumerate(replies)]
    anchor = first.anchor(pack_rows(first, prompts, rows))
    scored: Scored = policy(pack_rows(policy, prompts, rows), temperature, anchor)
    assert scored.kl is not None
    pieces = zip(torch.split(scored.hidden, PLACES), torch.split(anchor.hidden, PLACES), strict=True)
    flips = sum(int((likeliest(policy, now) != likeliest(first, was)).sum()) for now, was in pieces)
    return [float(each.sum()) for each in torch.split(scored.kl, [len(reply.tokens) for reply in replies])], flips


def likeliest(policy: Policy, hidden: Tensor) -> Tensor:
    return policy.logits(hidden).argmax(-1)


def by_task(replies: Sequence[Reply], kl: Sequence[float]) -> list[float]:
    """The mean over the replies of every different task."""
    tasks: dict[str, list[float]] = {}
    for reply, each in zip(replies, kl, strict=True):
        tasks.setdefault(reply.task, []).append(each)
    return list(map(statistics.fmean, tasks.values()))


def adapter_changes(policy: Policy) -> Iterator[Parameter]:
    """Every product (alpha / rank)·B·A, from the small factors alone."""
    assert policy.adapter
    state, of = policy.adapter.state(), policy.adapter.adapter
    for name, layer in policy.adapter.layers.items():
        down, up = (state[f"{PREFIX}{name}.lora_{part}.weight"].double() for part in "AB")
        inner = torch.linalg.qr(up).R @ torch.linalg.qr(down.T).R.T
        singular = torch.linalg.svdvals(inner) * (of.alpha / of.rank)
        base = layer.get_base_layer().weight
        yield Parameter(f"{name}.weight", float(base.norm()), float(singular.norm()), stable_rank(singular))


def weight_changes(policy: Policy, first: Policy) -> Iterator[Parameter]:
    """Every parameter."""
    before = first.state()
    for name, now in policy.state().items():
        delta = (now - before[name]).double()
        rank = stable_rank(singular_values(delta)) if delta.ndim > 1 else None
        yield Parameter(name, float(before[name].norm()), float(delta.norm()), rank)


def singular_values(change: Tensor) -> Tensor:
    """Of a matrix, from the product with itself on its shorter side."""
    flat = change.flatten(1)
    gram = flat @ flat.T if flat.shape[0] < flat.shape[1] else flat.T @ flat
    values: Tensor = torch.linalg.eigvalsh(gram).clamp(min=0).sqrt()
    return values


def layer_of(name: str) -> str:
    """`layer 3`, or the name of a parameter outside the layers."""
    match = LAYER.search(name)
    return f"layer {match[1]}" if match else name.removesuffix(".weight")


def kind_of(name: str) -> str:
    """The name of a parameter within its layer, such as `q_proj` or `q_proj.bias`; empty outside the layers."""
    parts = name.removesuffix(".weight").split(".") if LAYER.search(name) else [""]
    return ".".join(parts[-2:] if parts[-1] == "bias" else parts[-1:])


def group_changes(changes: Sequence[Parameter], key: Callable[[str], str]) -> Iterator[Moved]:
    groups: dict[str, list[Parameter]] = {}
    for each in changes:
        groups.setdefault(key(each.name), []).append(each)
    yield from (together(name, group) for name, group in groups.items() if name)


def together(name: str, changes: Sequence[Parameter]) -> Moved:
    """Some weights as one."""
    norm, first = math.hypot(*(each.norm for each in changes)), math.hypot(*(each.first for each in changes))
    ranks = [each.stable_rank for each in changes if each.stable_rank is not None]
    rank = statistics.median(ranks) if ranks else None
    return Moved(name=name, norm=norm, relative=norm / first if first else 0.0, stable_rank=rank)


def stable_rank(singular: Tensor) -> float:
    """‖Δ‖²_F / ‖Δ‖²_2; 0 for no change. Source: Rudelson & Vershynin 2007, J. ACM 54."""
    squares = singular.square()
    return float(squares.sum() / squares.max()) if float(squares.max()) > 0 else 0.0
