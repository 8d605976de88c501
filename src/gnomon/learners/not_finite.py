"""Why a gradient is not finite: the first thing in a step that is not, and whose it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gnomon.errors import NumericsError
from gnomon.learners.batch import Batch
from gnomon.models.precision import whole

__all__ = ["not_finite", "only_overflows"]

RATES = {"policy": "optim.lr", "critic": "critic.lr"}
MOST = 8
"""Rollouts that are named one by one."""
LARGE = 1e6
"""Credit beyond this, in units of reward, makes gradients that overflow; rewards are near 1."""


class Cause(NamedTuple):
    """A reason for a gradient that is not finite, where the values before it are."""

    holds: bool
    why: str
    fix: str
    rollouts: Sequence[int] = ()
    """Of the optimiser step, where it is known which."""
    overflow: bool = False
    """Whether all that the backward pass begins with is finite."""


def not_finite(
    norms: Mapping[str, float],
    gathered: Sequence[Batch] = (),
    *,
    weights: Mapping[str, Mapping[str, Tensor]],
    logp: Callable[[Batch], Tensor] | None = None,
    where: str = "",
    first: bool = False,
    compute: torch.dtype = torch.float32,
) -> NumericsError:
    """The error E203 of an optimiser step that was not taken.

    Args:
        norms: of the gradient of each model, `policy` or `critic`; one at least is not finite.
        gathered: what the gradient is of.
        weights: of each model, by name.
        logp: [T] log-probabilities of a batch under the policy; it is asked only where all else is finite.
        where: the step.
        first: whether no optimiser step was taken before.
        compute: the precision of the models' passes.
    """
    broken = [name for name, norm in norms.items() if not math.isfinite(norm)]
    cause = first_cause(broken, gathered, weights, logp, first, compute)
    rollouts = [str(rollout) for rollout in cause.rollouts[:MOST]]
    more = f" and {len(cause.rollouts) - MOST} more" if len(cause.rollouts) > MOST else ""
    which = f"trained rollouts {', '.join(rollouts)}{more}, counted from 0" if rollouts else ""
    return NumericsError(
        "E203",
        f"the gradient of the {' and of the '.join(f'{name} (norm {norms[name]})' for name in broken)} is not finite",
        where=", ".join(filter(None, (where, which))),
        why=f"{cause.why}; the step was not taken and the weights are unchanged",
        fix=cause.fix,
    )


def only_overflows(
    norms: Mapping[str, float],
    gathered: Sequence[Batch] = (),
    weights: Mapping[str, Mapping[str, Tensor]] | None = None,
    logp: Callable[[Batch], Tensor] | None = None,
) -> bool:
    """Whether all that the backward pass began with is finite, so that a loss of a smaller scale may be. Args: as of
    `not_finite`."""
    return first_cause(list(norms), gathered, weights or {}, logp, first=True).overflow


def first_cause(
    broken: Sequence[str],
    gathered: Sequence[Batch],
    weights: Mapping[str, Mapping[str, Tensor]],
    logp: Callable[[Batch], Tensor] | None,
    first: bool,
    compute: torch.dtype = torch.float32,
) -> Cause:
    return next(cause for cause in causes(broken, gathered, weights, logp, first, compute) if cause.holds)


def causes(
    broken: Sequence[str],
    gathered: Sequence[Batch],
    weights: Mapping[str, Mapping[str, Tensor]],
    logp: Callable[[Batch], Tensor] | None,
    first: bool,
    compute: torch.dtype,
) -> Iterator[Cause]:
    """What may have happened, in the order in which a step computes; the last one holds."""
    rates = " and ".join(f"a smaller {RATES[name]}" for name in broken)
    slower = f"{rates}, in a new run"
    finer = "use another model folder" if compute is torch.float32 else "policy.dtype=float32, or another model folder"
    smaller = "return rewards near 1 for every rollout: divide them in the environment"
    diverged = finer if first else slower
    for name, state in weights.items():
        bad = [key for key, value in state.items() if not bool(whole(value.isfinite().all()))]
        why = f"weights of the {name} are not finite: {', '.join(bad[:3])}"
        yield Cause(bool(bad), why, "use a model folder or an earlier checkpoint with finite weights")
    tables = [batch.rollouts.rewards.flatten().isfinite() for batch in gathered]
    paid = sorted({i for table in tables for i in (~table).nonzero().flatten().tolist()})
    why = "the rewards of these rollouts are not finite"
    yield Cause(bool(paid), why, "return a finite reward for every rollout: gnomon check ENV", paid)
    huge = sorted(
        {i for batch in gathered for i in (batch.rollouts.rewards.flatten().abs() > LARGE).nonzero().flatten().tolist()}
    )
    for what, values_of, fix in (
        (
            "the engine's log-probabilities",
            behavior_logp,
            "use an engine that reports the distribution it samples from",
        ),
        ("log-probabilities under the reference", lambda batch: batch.reference_logp, "use finite reference weights"),
        ("log-probabilities at the start of the step", lambda batch: batch.proximal_logp, diverged),
        ("the critic's returns", lambda batch: batch.returns, "a smaller critic.lr, in a new run"),
        (
            "the advantages of these rollouts",
            lambda batch: batch.advantage,
            smaller if huge else "objective=rloo only subtracts rewards",
        ),
    ):
        rollouts = of_rollouts(gathered, values_of)
        yield Cause(bool(rollouts), f"{what} are not finite", fix, rollouts)
    if logp is not None:
        rollouts = of_rollouts(gathered, logp)
        why = "the log-probabilities of these rollouts under the policy are not finite"
        yield Cause(bool(rollouts), why, diverged, rollouts)
    for what, values_of in (
        ("advantages", lambda batch: batch.advantage),
        ("critic's returns", lambda batch: batch.returns),
    ):
        rollouts = of_rollouts(gathered, values_of, LARGE)
        why = f"the {what} of these rollouts exceed {LARGE:g} in size, and gradients grow with them until they overflow"
        yield Cause(bool(rollouts), why, smaller, rollouts, overflow=True)
    if first:
        why = "rewards, log-probabilities and advantages are finite in this first step: a model pass overflows"
        yield Cause(True, why, finer, overflow=True)
    why = (
        "rewards, log-probabilities and advantages are finite: the weights have grown until the backward pass overflows"
    )
    yield Cause(True, why, slower, overflow=True)


def behavior_logp(batch: Batch) -> Tensor:
    """What the engine reported, and zero for a token that was prefilled: it has nothing to report."""
    return batch.behavior_logp.nan_to_num(nan=0.0, posinf=math.inf, neginf=-math.inf)


def of_rollouts(batches: Sequence[Batch], field: Callable[[Batch], Tensor | None], most: float = math.inf) -> list[int]:
    """The rollouts with a value that is not a number, or not below a size."""
    pairs = [(batch.rollout, field(batch)) for batch in batches]
    return sorted({i for of, values in pairs if values is not None for i in of[~(values.abs() < most)].tolist()})
