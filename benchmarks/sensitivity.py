"""What it changes that a prompt which is nearly always solved has little left to gain: the choice of an RL2ML member.

    python benchmarks/sensitivity.py                # seconds

Five prompts of their own tabular policy, groups of 8. The moments of the scores are enumerated, so the gain of every
member of family A is known. Printed is the share of the best member's gain that a choice keeps:

equal       every prompt as sensitive as any other: |∇log p|² one number
local       |∇log p|² = (1−p)²·Λ, Λ and the scatter one number each: what `gnomon tune-objective` does
measured    both moments of every prompt, from the scores of 64 groups of 12 (`scored_terms`); worst of ten seeds
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gnomon.theory import GainTerms, KnownChance, Scored, best_member, family_gains, gain_terms, metric, scored_terms
from gnomon.theory.curves import tilt
from gnomon.theory.world import correct, outcomes, world

GROUP, MEASURED, GROUPS, SEEDS = 8, 12, 64, 10
PROMPTS = {
    "spread": (0.05, 0.2, 0.5, 0.8, 0.95),
    "hard": (0.01, 0.03, 0.1, 0.2, 0.4),
    "easy": (0.4, 0.6, 0.8, 0.9, 0.97),
}
METRICS = ("pass@1", "pass@4", "log p")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A chance of success, the scores of the answers and their chances."""

    p: float
    chances: Tensor
    scores: Tensor
    right: Tensor
    local: float
    """|∇log p|²."""
    scatter: float
    """tr Cov of the score of a success."""


def prompt(p: float) -> Prompt:
    """A policy over 15 answers that is right so often."""
    place = world()
    policy = tilt(place, place.logits(), p)
    possible, scores = outcomes(place, policy, correct), place.per_answer(place.scores(policy))
    won = possible.chance * possible.reward / p
    mean = won @ scores
    return Prompt(
        p=p,
        chances=possible.chance,
        scores=scores,
        right=possible.reward == 1,
        local=float(mean @ mean),
        scatter=float(won @ (scores - mean).square().sum(dim=1)),
    )


def terms(prompts: Sequence[Prompt], name: str, *, equal: bool = False) -> GainTerms:
    """A_K and B_K from the moments of every prompt; or with one |∇log p|² and one scatter for all of them.

    Those are the means over the groups with two successes or more, which are the ones that a run can measure.
    """
    of, sensitivity, noise = metric(name), [0.0], [0.0]
    seen = [1 - (1 - x.p) ** GROUP - GROUP * x.p * (1 - x.p) ** (GROUP - 1) for x in prompts]
    pooled = [math.fsum(w * v for w, v in zip(seen, values, strict=True)) / math.fsum(seen)
              for values in ([x.local for x in prompts], [x.scatter for x in prompts])]  # fmt: skip
    for count in range(1, GROUP + 1):
        worth = square = 0.0
        for x in prompts:
            local, scatter = pooled if equal else (x.local, x.scatter)
            chance = math.comb(GROUP, count) * x.p**count * (1 - x.p) ** (GROUP - count)
            worth += chance * of.scale * x.p**of.successes * (1 - x.p) ** of.failures * local
            square += chance * (local + scatter / count)
        sensitivity.append(worth)
        noise.append(square)
    return GainTerms(sensitivity=tuple(sensitivity), noise=tuple(noise))


def sampled(prompts: Sequence[Prompt], seed: int) -> list[Scored]:
    """Groups of rollouts, their successes summed."""
    generator, found = torch.Generator().manual_seed(seed), []
    for x in prompts:
        drawn = torch.multinomial(x.chances, GROUPS * MEASURED, replacement=True, generator=generator)
        for members in drawn.reshape(GROUPS, MEASURED):
            won = x.scores[members[x.right[members]]]
            whole, squares = float(won.sum(0).square().sum()), float(won.square().sum())
            found.append(Scored(rollouts=MEASURED, successes=len(won), whole=whole, squares=squares))
    return found


def choices(prompts: Sequence[Prompt], name: str) -> dict[str, list[float]]:
    """The parameter that each way of looking at the prompts chooses."""
    odds = math.fsum(x.local / (1 - x.p) ** 2 for x in prompts)
    tau = math.fsum(x.scatter for x in prompts) / odds
    known = {KnownChance(x.p): 1.0 for x in prompts}
    found = {
        "equal": [best_member("A", terms(prompts, name, equal=True)).parameter],
        "local": [best_member("A", gain_terms(known, group=GROUP, of=metric(name), noise=tau)).parameter],
    }
    if metric(name).successes:
        measured = [scored_terms(sampled(prompts, seed), group=GROUP, of=metric(name)) for seed in range(SEEDS)]
        found["measured"] = [best_member("A", worth.floor()).parameter for worth in measured]
    return found


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'prompts':8}{'metric':8}{'best':>6}   " + "".join(f"{way:>18}" for way in ("equal", "local", "measured")))
    for kind, chances in PROMPTS.items():
        prompts = [prompt(p) for p in chances]
        for name in METRICS:
            truth = terms(prompts, name)
            best, cells = best_member("A", truth), []
            for parameters in choices(prompts, name).values():
                worst = min(family_gains("A", truth, parameters), key=lambda member: member.share)
                cells.append(f"{worst.parameter:>9.2f} keeps {worst.share / best.share:.2f}")
            print(f"{kind:8}{name:8}{best.parameter:>6.2f}   " + "".join(f"{cell:>18}" for cell in cells))


if __name__ == "__main__":
    main()
