"""What a critic is taught, beside what the policy is."""

from __future__ import annotations

import pytest
import torch

from gnomon.learners.batch import Batch
from gnomon.learners.credit import credit
from gnomon.objectives import (
    CreditState,
    Denominators,
    Objective,
    Rollouts,
    ppo,
    ppo_whitened,
    rloo,
    turn_ppo,
    vapo,
    vc_ppo,
)
from learners.sequences import made

VALUES = torch.tensor([0.5, 0.25, 0.0, 2.0, 1.0], dtype=torch.float64)


def batch() -> Batch:
    """Two rollouts of two and three tokens; the second has a turn of two and one of one."""
    sequences = tuple(made([1], [2] * size, rollout=place) for place, size in enumerate((2, 3)))
    seen = Rollouts(
        rewards=torch.tensor([[1.0, 0.0]], dtype=torch.float64),
        lengths=torch.tensor([[2, 3]]),
        segment=torch.tensor([0, 0, 0, 0, 1]),
    )
    sizes = Denominators(groups=1, sequences=2, tokens=5, max_tokens=3, group_tokens=(5,))
    return Batch(sequences=sequences, rollouts=seen, denominators=sizes, temperature=1.0, exact=True)


@pytest.mark.parametrize(
    ("objective", "returns"),
    [
        (ppo(), [1.0, 1.0, 0.0, 0.0, 0.0]),
        (ppo(lam=0.0), [0.25, 1.0, 2.0, 1.0, 0.0]),
        (vc_ppo(), [1.0, 1.0, 0.0, 0.0, 0.0]),
        (vc_ppo(lam=1.0, lam_critic=0.0), [0.25, 1.0, 2.0, 1.0, 0.0]),
        (vapo(), [1.0, 1.0, 0.0, 0.0, 0.0]),
        (ppo_whitened(), [1.0, 1.0, 0.0, 0.0, 0.0]),
        (turn_ppo(lam=0.0), [1.0, 1.0, 1.0, 1.0, 0.0]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_critic_is_taught_what_the_objective_says(objective: Objective, returns: list[float]) -> None:
    """Not the advantage and its own word, where the advantage was whitened or read at another token."""
    assert credit(batch(), objective, values=VALUES, state=CreditState())[0].returns.tolist() == returns


def test_without_a_critic_nothing_is_taught() -> None:
    assert credit(batch(), rloo(), state=CreditState())[0].returns is None
