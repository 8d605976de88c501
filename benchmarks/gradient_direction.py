"""Which way objectives move a policy before training: the cosine of their expected gradients with ∇p, p the chance of a
correct rollout, and what a step of length one along them changes in p and in the tokens of a rollout, to first order.

    python benchmarks/gradient_direction.py online_orpo online_orpo,weight=10 online_cpo --env char_count --tasks 512

Gradients are taken of two halves of the tasks, and products across the halves, so that their noise does not enter.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gnomon.learners import Batch
    from gnomon.objectives import Objective
    from gnomon.run.parts import Parts
    from gnomon.types import Group

Halves = tuple[Tensor, Tensor]


def sampled(parts: Parts, tasks: int) -> list[Group]:
    """Rollouts of train tasks by the policy as it is."""
    from gnomon.keys import Key

    parts.actor.engine.load(parts.learner.publish())
    train, key, found = parts.env.tasks("train"), Key(0).at("gradients"), []
    with closing(parts.actor.workers):
        for start in range(0, tasks, 64):
            chosen = [(index, train[index]) for index in range(start, min(start + 64, tasks))]
            found += asyncio.run(parts.actor.collect(chosen, key))
    return found


def gradient(parts: Parts, batch: Batch, row: Objective, rewards: Tensor | None = None) -> Tensor:
    """Of what a row maximises. Args: rewards: [G, N] in place of the verdicts'."""
    from gnomon.learners.credit import Crediting
    from gnomon.learners.local import LocalLearner

    learner = parts.learner
    assert isinstance(learner, LocalLearner)
    if rewards is not None:
        batch = replace(batch, rollouts=replace(batch.rollouts, rewards=rewards.double()))
    for value in learner.parameters.values():
        value.grad = None
    learner.forward_backward(Crediting(row)(batch, learner), row)
    return -torch.cat([value.grad.flatten() for value in learner.parameters.values() if value.grad is not None])


def product(one: Halves, other: Halves) -> float:
    return float(one[0] @ other[1] + one[1] @ other[0]) / 2


def named(text: str) -> Objective:
    """A row by its name and options: `online_orpo,weight=10`."""
    from gnomon.objectives import objective

    name, *options = text.split(",")
    values: dict[str, float | str] = {}
    for key, _, value in (option.partition("=") for option in options):
        values[key] = value if value.isalpha() else float(value)
    return objective(name, **values)


def lines(parts: Parts, groups: Sequence[Group], rows: Sequence[str]) -> list[str]:
    from gnomon.rollout import pack

    halves = [groups[::2], groups[1::2]]
    first, second = (pack(half, sampling=parts.actor.sampling, exact=True) for half in halves)
    correct = [torch.tensor([[float(r.verdict.correct) for r in group.rollouts] for group in half]) for half in halves]
    rloo = named("rloo")
    ahead: Halves = gradient(parts, first, rloo, correct[0]), gradient(parts, second, rloo, correct[1])
    longer: Halves = (
        gradient(parts, first, rloo, first.rollouts.lengths),
        gradient(parts, second, rloo, second.rollouts.lengths),
    )
    found = ["| objective | cosine with ∇p | Δp | Δ tokens |", "|---|---|---|---|"]
    for name in rows:
        own: Halves = gradient(parts, first, named(name)), gradient(parts, second, named(name))
        size, norm = product(own, own) ** 0.5, product(ahead, ahead) ** 0.5
        up, length = product(own, ahead) / size, product(own, longer) / size
        found.append(f"| {name} | {up / norm:.2f} | {up:+.3f} | {length:+.2f} |")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", help="objectives, with options after commas")
    parser.add_argument("--env", default="char_count")
    parser.add_argument("--tasks", type=int, default=512)
    options = parser.parse_args()
    from gnomon.config import RunConfig
    from gnomon.run.parts import build

    parts = build(RunConfig.model_validate({"env": {"type": options.env}, "threads": 1}))
    groups = sampled(parts, options.tasks)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    equal = sum(len(set(group.rewards)) == 1 for group in groups) / len(groups)
    by_length = {verdict: [r.tokens for r in rollouts if r.verdict.correct is verdict] for verdict in (True, False)}
    right, wrong = (sum(lengths) / len(lengths) for lengths in by_length.values())
    print(f"{len(rollouts)} rollouts; {equal:.0%} of groups have equal rewards; tokens of a rollout: ", end="")
    print(f"{right:.1f} of right ones, {wrong:.1f} of wrong ones")
    print("\n".join(lines(parts, groups, options.rows)))


if __name__ == "__main__":
    main()
