"""A value function: what the rest of a rollout is expected to earn, before each of its tokens."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gnomon.learners.batch import Batch
from gnomon.learners.masters import Masters
from gnomon.learners.not_finite import not_finite
from gnomon.models.policy import Policy
from gnomon.models.scoring import text_hidden
from gnomon.stats import Mean, Stat, Stats

__all__ = ["Critic"]

FILE = "critic.safetensors"


class Critic:
    """A body of its own, begun from a policy's weights, with one linear read-out; AdamW of its own.

    The read-out begins at zero, so the first advantages are the rewards themselves.

    Args:
        body: a copy of the policy. Its vocabulary projection is not used.
        compute: dtype of its forward and backward passes, its own if not given. The read-out, the optimiser and what it
            moves are at least float32.
        lr: constant over the run.
        clip: largest norm of the gradient.
    """

    def __init__(self, body: Policy, *, lr: float, clip: float = 1.0, compute: torch.dtype | None = None) -> None:
        self.body, self.clip = body, clip
        self.masters = Masters(body, compute)
        size, dtype = body.head.shape[1], torch.promote_types(body.head.dtype, torch.float32)
        self.parameters = self.masters.parameters | {
            "value.weight": torch.zeros(size, dtype=dtype, requires_grad=True),
            "value.bias": torch.zeros((), dtype=dtype, requires_grad=True),
        }
        self.optimizer = torch.optim.AdamW(self.parameters.values(), lr=lr, weight_decay=0.0)

    @torch.no_grad()
    def values(self, batch: Batch) -> Tensor:
        """[T] what is expected before every trainable token, in units of reward."""
        return self._read(batch)

    def forward_backward(self, batch: Batch, tokens: int) -> dict[str, Stat]:
        """Add the gradient of half the mean squared error over the batch's tokens.

        Args: tokens: size of a micro-batch.
        Returns: `value_error`, the mean squared error before the step; `value_explained`, the share of the variance
            of the returns that the critic explains, as 1 − error/variance of this batch.
        """
        returns, error = batch.returns, 0.0
        assert returns is not None, "the batch was prepared without a critic"
        for places in batch.micro_batches(tokens):
            value = self._read(batch.take(places))
            loss = (value - returns[batch.tokens_of(places)].to(value.dtype)).square().sum()
            (loss / (2 * max(1, len(returns)))).backward()  # type: ignore[no-untyped-call]
            error += float(loss.detach())
        stats: Stats = {"value_error": Mean(error, len(returns))}
        spread = float((returns - returns.mean()).square().sum()) if len(returns) else 0.0
        if spread > 0:
            stats["value_explained"] = Mean(1 - error / spread)
        return stats

    def optim_step(self) -> dict[str, Stat]:
        """One AdamW step. Returns: `value_grad_norm`, before clipping.

        Raises: NumericsError E203 where the gradient is not finite; then it is forgotten, and no weight has moved.
        """
        norm = self.clip_gradient()
        if not math.isfinite(norm):
            self.optimizer.zero_grad()
            raise not_finite({"critic": norm}, weights={"critic": self.parameters}, first=not self.optimizer.state)
        self.take_step()
        return {"value_grad_norm": Mean(norm)}

    def clip_gradient(self) -> float:
        """Shorten the gradient to `clip` at most. Returns: its norm before."""
        return float(torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), self.clip))

    def take_step(self) -> None:
        """One AdamW step along the gradient as it is, which is then forgotten."""
        self.optimizer.step()
        self.masters.round()
        self.optimizer.zero_grad()

    def save_state(self, folder: Path) -> None:
        memory = {f"weight/{name}": value.detach().contiguous() for name, value in self.parameters.items()}
        for name, parameter in self.parameters.items():
            for kind, value in self.optimizer.state.get(parameter, {}).items():
                memory[f"{kind}/{name}"] = value
        save_file(memory, folder / FILE)

    def load_state(self, folder: Path) -> None:
        memory = load_file(folder / FILE)
        for name, parameter in self.parameters.items():
            held = {key.partition("/")[0]: value for key, value in memory.items() if key.partition("/")[2] == name}
            with torch.no_grad():
                parameter.copy_(held.pop("weight"))
            if held:
                self.optimizer.state[parameter] = held
        self.masters.round()

    def _read(self, batch: Batch) -> Tensor:
        hidden = text_hidden(self.body, batch.sequences)
        weight = self.parameters["value.weight"]
        return hidden.to(weight.dtype) @ weight + self.parameters["value.bias"]
