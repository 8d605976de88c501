"""Which importance ratios leave the policy gradient unbiased off policy, by enumeration."""

from dataclasses import replace
from functools import partial

from gnomon.objectives import Objective, no_ratio, rloo, sequence_is, unclipped
from gnomon.theory.exact import declared_gradient, moments
from gnomon.theory.world import correct, outcomes, world
from gnomon_lab.studies import Claim, Study


def against_truth(seed: int, row: Objective) -> dict[str, float]:
    """Largest error of the expected gradient relative to its largest entry, and √variance over its norm."""
    place = world()
    policy, behavior = place.logits(), place.logits() + 0.3 * place.anchor()
    seen, own = (outcomes(place, logits, correct) for logits in (behavior, policy))
    found = moments(row, place, policy=policy, behavior=behavior, possible=seen, group=2)
    truth = declared_gradient(rloo().target, place, policy=policy, possible=own, group=2)
    bias = float((found.mean - truth).abs().max() / truth.abs().max())
    return {"bias": bias, "noise": found.variance**0.5 / float(found.mean.norm())}


study = Study(
    question="Is the ratio of whole replies unbiased off policy, where a ratio of tokens is not?",
    why="GSPO (Zheng et al. 2025, arXiv 2507.18071) builds on the ratio of the whole reply, PPO and GRPO take that of "
    "each token, which leaves out how likely the reply's beginning was.",
    arms={
        "reply": partial(against_truth, row=sequence_is()),
        "token": partial(against_truth, row=replace(rloo(), ratio=unclipped)),
        "none": partial(against_truth, row=replace(rloo(), ratio=no_ratio)),
    },
    exact=True,
    claims=[
        Claim(measure="bias", arm="reply", within=1e-9),
        Claim(measure="bias", arm="token", above=0.01),
        Claim(measure="bias", arm="none", than="token"),
        Claim(measure="noise", arm="reply", than="token"),
    ],
    prediction={"PASS": 0.75, "FAIL": 0.25, "INCONCLUSIVE": 0.0},
)
