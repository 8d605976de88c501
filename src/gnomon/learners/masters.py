"""The parameters that an optimiser moves, and those that a policy computes with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from gnomon.models.policy import Policy

__all__ = ["Masters"]


class Masters:
    """Float32 masters of a policy that computes in bfloat16; of any other policy, its own parameters, not copied.

    A step of 1e-6 is less than half a unit in the last place of most bfloat16 weights, so rounding would undo it. Every
    backward pass adds its gradient to the masters in float32 and leaves none on the policy; `round` gives the policy
    the masters' values, rounded.

    Args:
        policy: its parameters are the first values of the masters.
        compute: dtype of its forward and backward passes from now on; the one it has if not given.
    Raises: ValueError for float16, whose small gradients vanish without a scaled loss.
    Source: Micikevicius et al. 2018 (mixed precision training), arXiv 1710.03740, §3.1.
    """

    def __init__(self, policy: Policy, compute: torch.dtype | None = None) -> None:
        compute = compute or policy.head.dtype
        if compute == torch.float16:
            raise ValueError("float16 needs a scaled loss, which this learner does not have; bfloat16 needs none")
        self.policy, self.parameters = policy, policy.state()
        self._coarse = torch.finfo(compute).bits < 32
        if self._coarse:
            self.parameters = {name: own.detach().float().requires_grad_() for name, own in self.parameters.items()}
        policy.compute_in(compute)
        if self._coarse:
            for name, own in policy.state().items():
                own.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    partial(add_to, self.parameters[name])
                )

    @torch.no_grad()
    def round(self) -> None:
        """Give the policy the values of the masters, rounded to what it computes in."""
        if self._coarse:
            self.policy.update(self.parameters)

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take these values. Raises: ModelError E304 when names or shapes differ."""
        self.policy.update(dict(state))
        for name, master in self.parameters.items():
            master.copy_(state[name])


def add_to(master: Tensor, own: Tensor) -> None:
    """Move the gradient of a parameter to its master."""
    assert own.grad is not None
    found = own.grad.to(master.dtype)
    master.grad = found if master.grad is None else master.grad.add_(found)
    own.grad = None
