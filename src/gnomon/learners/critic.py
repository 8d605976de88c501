"""A value function: what the rest of a rollout is expected to earn, before each of its tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gnomon.learners.batch import Batch
from gnomon.learners.eight_bit import from_store, to_store
from gnomon.learners.not_finite import not_finite, only_overflows
from gnomon.learners.optimisers import Adam, optimizer_of
from gnomon.learners.scaling import LossScale
from gnomon.models.policy import Policy
from gnomon.models.scoring import Text, text_pass
from gnomon.stats import Mean, Stats

__all__ = ["Critic"]

FILE = "critic.safetensors"
BETAS = (0.9, 0.999)
"""Of the critic's AdamW."""


class Critic:
    """A body of its own, begun from a policy's weights, with one linear read-out; AdamW of its own.

    The read-out begins at zero, so the first advantages are the rewards themselves.

    Args:
        body: a copy of the policy. Its vocabulary projection is not used.
        lr: constant over the run.
        max_grad_norm: the gradient is shortened to this norm.
        states: in which numbers the moments of AdamW are kept.
    """

    def __init__(
        self,
        body: Policy,
        *,
        lr: float,
        max_grad_norm: float = 1.0,
        states: Literal["float32", "8bit"] = "float32",
    ) -> None:
        self.body, self.max_grad_norm = body, max_grad_norm
        size, dtype, device = body.width, body.precision.master, body.device
        self.read_out = {
            "value.weight": torch.zeros(size, dtype=dtype, device=device, requires_grad=True),
            "value.bias": torch.zeros((), dtype=dtype, device=device, requires_grad=True),
        }
        self.parameters = dict(body.masters.parameters) | self.read_out
        adam = Adam(betas=BETAS, states=states)
        self.optimizer = optimizer_of(adam, self.parameters.values(), fused=False)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.scale = LossScale(body.precision.compute)

    @torch.no_grad()
    def values(self, sequences: Sequence[Text]) -> Tensor:
        """[T] what is expected before every trainable token, in units of reward."""
        return self._read(sequences)

    def forward_backward(self, batch: Batch, tokens: int, *, clip: float = math.inf) -> Stats:
        """Add the gradient of half the mean squared error over the batch's tokens.

        Equation: ½·mean max((V − R)², (V′ − R)²), V′ = V held within ε of the value as the batch began; for ε = ∞ half
            the mean of (V − R)².
        Args: tokens: size of a micro-batch; clip: ε > 0, in units of reward.
        Source: Schulman et al. 2017, arXiv 1707.06347, as released (value clipping); TRL and verl, cliprange_value.
        Returns: `value_error`, the mean squared error before the step; `value_explained`, the share of the variance
            of the returns that the critic explains, as 1 − error/variance of this batch. Neither without tokens.
        """
        returns = batch.returns
        assert returns is not None, "the batch was prepared without a critic"
        error = self._gather(batch, batch.micro_batches(tokens, self.body.packs), clip)
        stats: Stats = {"value_error": Mean(error, len(returns))} if len(returns) else {}
        spread = float((returns - returns.mean()).square().sum()) if len(returns) else 0.0
        if spread > 0:
            stats["value_explained"] = Mean(1 - error / spread)
        return stats

    def _gather(self, batch: Batch, cuts: Sequence[Sequence[int]], clip: float) -> float:
        """Add the gradients of the micro-batches. Returns: the sum of the squared errors."""
        return sum(self._backward(batch, places, clip) for places in cuts)

    def _backward(self, batch: Batch, places: Sequence[int], clip: float, share: float = 1.0) -> float:
        """Add the gradient of a micro-batch, times a share of it. Returns: the sum of its squared errors."""
        assert batch.returns is not None, "the batch was prepared without a critic"
        tokens = batch.tokens_of(places)
        value = self._read(batch.take(places).sequences)
        target = batch.returns[tokens].to(value)
        square = (value - target).square()
        error = float(square.detach().sum())
        if clip < math.inf:
            assert batch.values is not None, "the batch was prepared without a critic"
            before = batch.values[tokens].to(value)
            clipped = before + (value - before).clamp(-clip, clip)
            square = torch.maximum(square, (clipped - target).square())
        loss = square.sum() / (2 * max(1, len(batch.returns)))
        (share * self.scale.value * loss).backward()  # type: ignore[no-untyped-call]
        return error

    def optim_step(self) -> Stats:
        """One AdamW step. Returns: `value_grad_norm`, before clipping; in float16 nothing where no step was taken,
        because the gradient overflowed.

        Raises: NumericsError E203 where the gradient is not finite, and no smaller scale of the loss would mend it.
            Then it is forgotten, and no weight has moved.
        """
        norm, weights = self.clip_gradient(), {"critic": self.parameters}
        if not math.isfinite(norm):
            self.optimizer.zero_grad()
            if self.scale.can_fall and only_overflows({"critic": norm}, weights=weights):
                self.scale.halve()
                return {}
            compute = self.body.precision.compute
            raise not_finite({"critic": norm}, weights=weights, first=not self.optimizer.state, compute=compute)
        self.take_step()
        return {"value_grad_norm": Mean(norm)}

    def clip_gradient(self) -> float:
        """Take the scale of the loss out of the gradient and shorten it to `max_grad_norm` at most.

        Returns: its norm before it is shortened.
        """
        self.scale.unscale(self.parameters.values())
        return float(torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), self.max_grad_norm))

    def take_step(self) -> None:
        """One AdamW step along the gradient as it is, which is then forgotten."""
        self.optimizer.step()
        self.body.masters.round()
        self.optimizer.zero_grad()
        self.scale.finite()

    def save_state(self, folder: Path) -> None:
        memory = {f"weight/{name}": value.detach().contiguous() for name, value in self.parameters.items()}
        for name, parameter in self.parameters.items():
            own = to_store(self.optimizer.state.get(parameter, {}))
            memory |= {f"{kind}/{name}": value for kind, value in own.items()}
        save_file(memory | self.scale.state(), folder / FILE)

    def load_state(self, folder: Path) -> None:
        memory = load_file(folder / FILE, str(self.body.device))
        self.scale.take(memory)
        for name, parameter in self.parameters.items():
            stored = {key.partition("/")[0]: value for key, value in memory.items() if key.partition("/")[2] == name}
            with torch.no_grad():
                parameter.copy_(stored.pop("weight"))
            if stored:
                self.optimizer.state[parameter] = from_store(self.optimizer, stored)
        self.body.masters.round()

    def _read(self, sequences: Sequence[Text]) -> Tensor:
        hidden: Tensor = self.body(text_pass(self.body, sequences), scored=False).hidden
        weight = self.parameters["value.weight"]
        return hidden.to(weight.dtype) @ weight + self.parameters["value.bias"]
