"""A learner's gradients have the same bits every time, also with several threads."""

from __future__ import annotations

import torch

from gnomon.learners.local import LocalLearner
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy


def gradient(index: torch.Tensor, values: torch.Tensor) -> bytes:
    x = torch.zeros(50, requires_grad=True)
    (x[index] * values).sum().backward()
    assert x.grad is not None
    return x.grad.numpy().tobytes()


def test_values_with_equal_indices_are_added_in_order():
    """400,000 values at 50 places by two threads: without the learner's setting, 40 gradients of 40 differed."""
    random = torch.Generator().manual_seed(0)
    index, values = torch.randint(0, 50, (400_000,), generator=random), torch.randn(400_000, generator=random)
    LocalLearner(Policy.load(model_folder("tiny")))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert len({gradient(index, values) for _ in range(10)}) == 1
    finally:
        torch.set_num_threads(threads)
