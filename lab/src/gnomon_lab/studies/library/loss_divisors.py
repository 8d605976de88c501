"""What the divisor of a loss does to lengths, by enumeration, with one advantage for all divisors."""

from dataclasses import replace
from functools import partial

from gnomon.objectives import Aggregate, constant, dr_grpo, sequence_mean, sequence_sum, token_mean
from gnomon.theory import length_bias
from gnomon_lab.studies import Claim, Study


def bias(seed: int, divisor: Aggregate) -> dict[str, float]:
    """Expected gradient on the logits of stopping, of right and of wrong replies."""
    found = length_bias(replace(dr_grpo(), aggregate=divisor))
    return {"right": found.right, "wrong": found.wrong, "either": max(abs(found.right), abs(found.wrong))}


study = Study(
    question="Does a mean over tokens change lengths where length earns nothing, and a constant divisor not?",
    why="`masked_mean` is the usual loss of PPO trainers, and it divides by the length of a reply or of the step. "
    "The measure is the expected gradient on the logit of stopping, of right replies and of wrong ones "
    "(Liu et al. 2025, arXiv 2503.20783). Advantages are those of Dr. GRPO in every arm.",
    arms={
        "mean over a reply": partial(bias, divisor=sequence_mean),
        "mean over the step": partial(bias, divisor=token_mean),
        "constant": partial(bias, divisor=constant),
        "sum": partial(bias, divisor=sequence_sum),
    },
    exact=True,
    claims=[
        Claim(measure="right", arm="mean over a reply", above=0.01),
        Claim(measure="wrong", arm="constant", than="mean over a reply", above=0.01),
        Claim(measure="either", arm="mean over a reply", than="mean over the step", above=0.0),
        Claim(measure="either", arm="mean over the step", above=1e-6),
        *(Claim(measure="either", arm=arm, within=1e-12) for arm in ("constant", "sum")),
    ],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)
