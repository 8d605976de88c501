"""A learner spread over several processes, each of which makes the same calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Several
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from gnomon.learners.batch import Batch, Sequence
from gnomon.learners.coefficients import Coefficients
from gnomon.learners.local import STATE, LocalLearner, Places, Reader, fresh_file, part
from gnomon.learners.scatter import SuccessScatter
from gnomon.models.precision import whole
from gnomon.models.sharding import Pairwise, local, row_squares, stored_rows
from gnomon.models.stored import Stored
from gnomon.models.weights import WeightsRef
from gnomon.models.writing import Slot, write
from gnomon.objectives import Objective
from gnomon.stats import Stats, merge

__all__ = ["ShardedLearner"]


class ShardedLearner(LocalLearner):
    """A learner whose weights, gradients and optimiser states are spread over the ranks of a process group.

    All ranks call each verb with the same arguments, and each gets the same result. Micro-batch k belongs to rank k mod
    W. With 1, 2, 4, 8, … ranks all results are equal in every bit, because every sum is a fixed tree over the
    micro-batches; they differ from those of `LocalLearner`, which adds one micro-batch after another, by rounding. The
    files of a saved state are those of `LocalLearner`, for any number of ranks.

    Args: as of `LocalLearner`; the policy was spread by `models.sharding.shard`, `published` is a folder that all ranks
        see. It has no critic, and records no `score_signal` and `score_scatter`.
    """

    fused = False
    """Torch's fused optimisers round elements by their place in a block, and so by the number of ranks."""

    @property
    def rank(self) -> int:
        return dist.get_rank()

    @property
    def ranks(self) -> int:
        return dist.get_world_size()

    def _mine(self, count: int) -> Iterator[tuple[int, int]]:
        """For every round the micro-batch of this rank, and 1; where none is left for it the first, and 0.

        Every rank has the same number of rounds, since a pass of one waits for the others.
        """
        for first in range(0, count, self.ranks):
            here = first + self.rank
            yield (here, 1) if here < count else (0, 0)

    def _read(self, read: Reader, sequences: Several[Sequence], cuts: Several[Places]) -> list[Tensor]:
        found: dict[int, Tensor] = {}
        for cut, real in self._mine(len(cuts)):
            values = read([sequences[place] for place in cuts[cut]]).cpu()
            found |= {cut: values} if real else {}
        return [value for _, value in sorted(gathered(found).items())]

    def _scatter(self, moved: Batch, objective: Objective | Coefficients) -> SuccessScatter | None:
        return None

    def _gather(
        self,
        batch: Batch,
        cuts: Several[Places],
        objective: Objective | Coefficients,
        scatter: SuccessScatter | None,
    ) -> Stats:
        if not cuts:
            return {}
        before, sums = self._gradients(), Pairwise()
        found: dict[int, Stats] = {}
        for cut, real in self._mine(len(cuts)):
            places = cuts[cut]
            stats = self._backward(batch.take(places), part(objective, batch, places), share=float(real))
            found |= {cut: stats} if real else {}
            sums.add(self._gradients())
        for parameter, value, older in zip(self.parameters.values(), sums.total(), before, strict=True):
            parameter.grad = like(value.add_(older), parameter)
        merged: Stats = {}
        for _, stats in sorted(gathered(found).items()):
            merged = merge(merged, stats)
        return merged

    def _gradients(self) -> list[Tensor]:
        """The own rows of the gradient, which is taken away: zeros where there is none."""
        found = []
        for parameter in self.parameters.values():
            grad, parameter.grad = parameter.grad, None
            found.append(torch.zeros_like(local(parameter)) if grad is None else local(grad))
        return found

    def _clip_gradient(self, most: float) -> float:
        squares = [
            row_squares(parameter.grad).sum() for parameter in self.parameters.values() if parameter.grad is not None
        ]
        norm = float(torch.stack(squares).sum().sqrt())
        if norm > most:
            for parameter in self.parameters.values():
                assert parameter.grad is not None
                local(parameter.grad).mul_(most / (norm + 1e-6))
        return norm

    def publish(self) -> WeightsRef:
        """The present version in a file, which the first rank writes one parameter at a time."""
        assert self.published is not None, "a learner of several processes publishes files"
        path = fresh_file(self.published, self.version)
        self._write(path, self.parameters)
        return self._described(path)

    def save_state(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._write(folder / self.policy.weights_file, self.parameters, {"format": "pt"})
        state: dict[str, Tensor] = {"version": torch.tensor(self.version, device="cpu"), **self.scale.state()}
        for name, parameter in self.parameters.items():
            state |= {f"{name}/{kind}": value for kind, value in self.optimizer.state.get(parameter, {}).items()}
        self._write(folder / STATE, state)
        if self.rank == 0:
            self.policy.describe(folder)
        dist.barrier()

    def load_state(self, folder: Path) -> None:
        """Every process reads the rows that it holds."""
        self.policy.restore(folder)
        self.optimizer.state.clear()
        with Stored(folder / STATE) as stored:
            self.version = int(stored["version"])
            self.scale.take({name: stored[name] for name in stored if "/" not in name})
            kinds: dict[str, list[str]] = {}
            for key in stored:
                owner, _, kind = key.rpartition("/")
                kinds.setdefault(owner, []).append(kind)
            for name, parameter in self.parameters.items():
                held = {kind: self._read_state(stored, f"{name}/{kind}", parameter) for kind in kinds.get(name, [])}
                if held:
                    self.optimizer.state[parameter] = held

    def _read_state(self, stored: Stored, name: str, parameter: Tensor) -> Tensor:
        """What the optimiser keeps of a parameter: spread like it, or a number."""
        if stored.shape(name) != tuple(parameter.shape):
            return stored[name]
        return like(stored_rows(stored, name, parameter).to(parameter.device), parameter)

    def _write(self, path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
        """Write whole tensors, gathered one after the other. Only the first rank writes."""
        slots: dict[str, Slot] = {name: (value.dtype, tuple(value.shape)) for name, value in tensors.items()}
        values = (whole(value.detach()) for value in tensors.values())
        if self.rank == 0:
            write(path, slots, values, metadata)
        else:
            for _ in values:
                pass
        dist.barrier()


def like(rows: Tensor, parameter: Tensor) -> Tensor:
    """The own rows of a tensor as a tensor spread like a parameter."""
    if not isinstance(parameter, DTensor):
        return rows
    return DTensor.from_local(
        rows, parameter.device_mesh, parameter.placements, shape=parameter.shape, stride=parameter.stride()
    )


def gathered(found: dict[int, Any]) -> dict[int, Any]:
    """What all ranks found together, on each of them."""
    every: list[dict[int, Any]] = [{}] * dist.get_world_size()
    dist.all_gather_object(every, found)
    return {key: value for part in every for key, value in part.items()}
