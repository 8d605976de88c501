"""What the number of tokens per timestep does to the bias and the noise of a policy gradient, by enumeration."""

from functools import partial
from itertools import pairwise

import torch

from gnomon.theory.timesteps import timestep_gradient
from gnomon.theory.world import correct, world
from gnomon_lab.studies import Claim, Study

SIZES = (1, 2, 3, 6)


def against_truth(seed: int, size: int) -> dict[str, float]:
    """Error of the expected gradient of answers of up to six tokens over its norm, off policy, and the noise."""
    place = world(6)
    policy, behavior = place.logits(), place.logits() + 0.3 * place.anchor()
    rewards = torch.tensor([correct(answer) for answer in place.answers], dtype=policy.dtype)
    whole = timestep_gradient(place, 6, policy=policy, behavior=policy, rewards=rewards).mean
    found = timestep_gradient(place, size, policy=policy, behavior=behavior, rewards=rewards)
    return {
        "bias": float((found.mean - whole).norm() / whole.norm()),
        "noise": found.variance**0.5 / float(whole.norm()),
    }


study = Study(
    question="Do more tokens per timestep lower the bias of a policy gradient off policy, and raise its noise?",
    why="Ratios of tokens (PPO, GRPO) and of whole replies (GSPO, Zheng et al. 2025, arXiv 2507.18071) are two ends of "
    "one dial: the number of tokens that count as one action. If both change steadily, the dial can be set by need.",
    arms={f"k = {size}": partial(against_truth, size=size) for size in SIZES},
    exact=True,
    claims=[
        *(Claim(measure="bias", arm=f"k = {fewer}", than=f"k = {more}") for fewer, more in pairwise(SIZES)),
        *(Claim(measure="noise", arm=f"k = {more}", than=f"k = {fewer}") for fewer, more in pairwise(SIZES)),
        Claim(measure="bias", arm="k = 6", within=1e-9),
    ],
    prediction={"PASS": 0.6, "FAIL": 0.4, "INCONCLUSIVE": 0.0},
)
