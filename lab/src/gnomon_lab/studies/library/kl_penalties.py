"""Which of the usual KL penalties has the gradient of the divergence, by enumeration of all answers."""

from functools import partial
from typing import Any

import torch

from gnomon.theory.world import world
from gnomon_lab.studies import Claim, Study

# The coefficient of ∇log π of every token, from log(policy/reference).
PENALTIES: dict[str, Any] = {
    "k1 in the reward": lambda place, log_ratio: -place.per_answer(log_ratio)[place.answer],
    "k1 as a loss": lambda place, log_ratio: -torch.ones_like(log_ratio),
    "k2 as a loss": lambda place, log_ratio: -log_ratio,
    "k3 as a loss": lambda place, log_ratio: (-log_ratio).expm1(),
}


def against_truth(seed: int, name: str) -> dict[str, float]:
    """Error of the expected gradient over the norm of the true one."""
    place = world(3)
    policy = place.logits().requires_grad_()
    divergence = place.chances(policy) @ place.per_answer(place.logp(policy) - place.logp(place.anchor()))
    (slope,) = torch.autograd.grad(divergence, policy)
    truth, logits = -slope.flatten(), policy.detach()
    weights = PENALTIES[name](place, place.logp(logits) - place.logp(place.anchor()))
    found = place.chances(logits) @ place.per_answer(weights[:, None] * place.scores(logits))
    return {"error": float((found - truth).norm() / truth.norm())}


study = Study(
    question="Of four usual KL penalties, has only k1 in the reward the gradient of the divergence of whole answers?",
    why="All four estimate the same number without bias. What trains is their gradient, which can be another one (Tang "
    "and Munos 2025, arXiv 2506.09477). Policies are on policy, and differ from the reference.",
    arms={name: partial(against_truth, name=name) for name in PENALTIES}, exact=True,
    claims=[Claim(measure="error", arm="k1 in the reward", within=1e-9)]
    + [Claim(measure="error", arm=f"{name} as a loss", above=0.05) for name in ("k1", "k2", "k3")],
    prediction={"PASS": 0.9, "FAIL": 0.1, "INCONCLUSIVE": 0.0},
)  # fmt: skip
