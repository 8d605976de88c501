"""Where a reward that is tossed moves a policy in expectation, by enumeration, with and without clipping."""

from dataclasses import replace
from functools import partial

import torch

from gnomon.objectives import Objective, objective, ppo_clip, rloo, unclipped
from gnomon.theory.exact import moments
from gnomon.theory.world import correct, outcomes, world
from gnomon_lab.studies import Claim, Study

CLIPPED, UNBIASED = partial(ppo_clip, low=0.2, high=0.2), ("grpo", "dr_grpo", "rloo", "unclipped, off policy")


def moved(seed: int, row: Objective, drift: float) -> dict[str, float]:
    """The norm of the expected gradient, with a fair coin for the reward, after the policy drifted from its sampler."""
    place = world()
    policy, behavior = place.logits() + drift * place.anchor(), place.logits()
    plain = outcomes(place, behavior, correct)
    tossed = torch.tensor([0.0, 1.0], dtype=torch.float64).repeat_interleave(15)
    coin = replace(plain, answer=plain.answer.repeat(2), chance=plain.chance.repeat(2) / 2, reward=tossed)
    return {"norm": float(moments(row, place, policy=policy, behavior=behavior, possible=coin, group=2).mean.norm())}


study = Study(
    question="Does a random reward move a policy in expectation only where the objective clips?",
    why="Random rewards raised Qwen's scores by 21 points, and clipping was named as the cause (arXiv 2506.10947).",
    arms={
        **{name: partial(moved, row=objective(name), drift=0.0) for name in UNBIASED[:3]},
        "unclipped, off policy": partial(moved, row=replace(rloo(), ratio=unclipped), drift=0.5),
        "clipped, off policy": partial(moved, row=replace(rloo(), ratio=CLIPPED), drift=0.5),
    },
    exact=True,
    claims=[
        *(Claim(measure="norm", arm=arm, within=1e-12) for arm in UNBIASED),
        Claim(measure="norm", arm="clipped, off policy", above=1e-3),
    ],
    prediction={"PASS": 0.8, "FAIL": 0.2, "INCONCLUSIVE": 0.0},
)
