"""A critic whose body is spread over the processes of a learner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from gnomon.learners.batch import Batch, costs
from gnomon.learners.critic import FILE, Critic
from gnomon.learners.together import clip_norm, gather, like, own_rounds, stored_like, take_gradients, write_whole
from gnomon.models.sharding import Pairwise, local, stored_rows, tree_sum
from gnomon.models.stored import Stored

__all__ = ["ShardedCritic"]


class ShardedCritic(Critic):
    """A critic of `ShardedLearner`: all ranks call each method with the same arguments.

    The body was spread by `models.sharding.shard`. Every rank holds the whole read-out, and adds its gradients in the
    order in which those of the body are added. So results are equal in every bit for 1, 2, 4, 8, … ranks. The file of
    a saved state is that of `Critic`.
    """

    def _gather(self, batch: Batch, cuts: Sequence[Sequence[int]], clip: float) -> float:
        before, sums = take_gradients(self.parameters.values()), Pairwise()
        errors: dict[int, float] = {}
        for cut, real in own_rounds(costs(batch.sequences, cuts, self.body.width)):
            error = self._backward(batch, cuts[cut], clip, share=float(real))
            errors |= {cut: error} if real else {}
            grads = dict(zip(self.parameters, take_gradients(self.parameters.values()), strict=True))
            sums.add([sum_over_ranks(grad) if name in self.read_out else grad for name, grad in grads.items()])
        totals = sums.total() if cuts else [torch.zeros_like(value) for value in before]
        for parameter, value, older in zip(self.parameters.values(), totals, before, strict=True):
            parameter.grad = like(value.add_(older), parameter)
        return float(sum(gather(errors).values()))

    def clip_gradient(self) -> float:
        self.scale.unscale(self.parameters.values())
        return clip_norm(self.parameters.values(), self.max_grad_norm)

    def save_state(self, folder: Path) -> None:
        memory = {f"weight/{name}": value for name, value in self.parameters.items()}
        for name, parameter in self.parameters.items():
            memory |= {f"{kind}/{name}": value for kind, value in self.optimizer.state.get(parameter, {}).items()}
        write_whole(folder / FILE, memory | self.scale.state())

    def load_state(self, folder: Path) -> None:
        """Every process reads the rows that it holds."""
        self.optimizer.state.clear()
        with Stored(folder / FILE) as stored:
            self.scale.take({name: stored[name] for name in stored if "/" not in name})
            kinds: dict[str, list[str]] = {name: [] for name in self.parameters}
            for key in stored:
                kind, _, owner = key.partition("/")
                if owner and kind != "weight":
                    kinds[owner].append(kind)
            for name, parameter in self.parameters.items():
                with torch.no_grad():
                    local(parameter).copy_(stored_rows(stored, f"weight/{name}", parameter))
                if kinds[name]:
                    stored_kinds = {kind: stored_like(stored, f"{kind}/{name}", parameter) for kind in kinds[name]}
                    self.optimizer.state[parameter] = stored_kinds
        self.body.masters.round()


def sum_over_ranks(value: Tensor) -> Tensor:
    """The sum over the ranks, as the tree in which gradients of the body are added."""
    parts = [torch.empty_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, value.contiguous())
    return tree_sum(parts)
