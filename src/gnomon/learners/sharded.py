"""A learner spread over several processes, each of which makes the same calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from gnomon.learners.batch import Batch, TokenSequence, costs
from gnomon.learners.local import STATE, LocalLearner, Places, Reader, fresh_file, part
from gnomon.learners.scatter import SuccessScatter
from gnomon.learners.together import clip_norm, gather, like, own_rounds, stored_like, take_gradients, write_whole
from gnomon.models.sharding import Pairwise
from gnomon.models.stored import Stored
from gnomon.models.threads import Threads
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Coefficients, Objective
from gnomon.stats import Stats, merge

__all__ = ["ShardedLearner"]


class ShardedLearner(LocalLearner):
    """A learner whose weights, gradients and optimiser states are spread over the ranks of a process group.

    All ranks call each verb with the same arguments, and each gets the same result. With 1, 2, 4, 8, … ranks all
    results are equal in every bit, because every sum is a fixed tree over the micro-batches; they differ from those of
    `LocalLearner`, which adds one micro-batch after another, by rounding. The files of a saved state are those of
    `LocalLearner`, for any number of ranks.

    Args: as in `LocalLearner`; the policy was spread by `models.sharding.shard`, `published` is a folder that all ranks
        see; the critic is a `ShardedCritic`. It records no `score_signal` and `score_scatter`.
    """

    fused = False
    """Torch's fused optimisers round elements by their place in a block, and so by the number of ranks."""

    def _read(
        self, reader: Reader, sequences: Sequence[TokenSequence], cuts: Sequence[Places], threads: Threads
    ) -> list[Tensor]:
        by_cut: dict[int, Tensor] = {}
        for cut, real in own_rounds(costs(sequences, cuts, self.policy.width)):
            values = reader([sequences[index] for index in cuts[cut]]).cpu()
            by_cut |= {cut: values} if real else {}
        return list(gather(by_cut).values())

    def _scatter(self, moved: Batch, objective: Objective | Coefficients) -> SuccessScatter | None:
        return None

    def _gather(
        self,
        batch: Batch,
        cuts: Sequence[Places],
        objective: Objective | Coefficients,
        scatter: SuccessScatter | None,
    ) -> Stats:
        if not cuts:
            return {}
        before, sums = take_gradients(self.parameters.values()), Pairwise()
        by_cut: dict[int, Stats] = {}
        for cut, real in own_rounds(costs(batch.sequences, cuts, self.policy.width)):
            places = cuts[cut]
            stats = self._backward(batch.take(places), part(objective, batch, places), share=float(real))
            by_cut |= {cut: stats} if real else {}
            sums.add(take_gradients(self.parameters.values()))
        for parameter, value, older in zip(self.parameters.values(), sums.total(), before, strict=True):
            parameter.grad = like(value.add_(older), parameter)
        merged: Stats = {}
        for stats in gather(by_cut).values():
            merged = merge(merged, stats)
        return merged

    def _clip_gradient(self, most: float) -> float:
        return clip_norm(self.parameters.values(), most)

    def publish(self) -> WeightsRef:
        """The present version in a file, which the first rank writes one parameter at a time."""
        assert self.published is not None, "a sharded learner publishes files"
        path = fresh_file(self.published, self.version)
        write_whole(path, self.parameters)
        return self._describe(path)

    def save_state(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / self.policy.weights_file, {**self.parameters, **self.policy.beside()}, {"format": "pt"})
        state: dict[str, Tensor] = {"version": torch.tensor(self.version, device="cpu"), **self.scale.state()}
        for name, parameter in self.parameters.items():
            state |= {f"{name}/{kind}": value for kind, value in self.optimizer.state.get(parameter, {}).items()}
        write_whole(folder / STATE, state)
        if self.critic:
            self.critic.save_state(folder)
        if dist.get_rank() == 0:
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
                stored_kinds = {kind: stored_like(stored, f"{name}/{kind}", parameter) for kind in kinds.get(name, [])}
                if stored_kinds:
                    self.optimizer.state[parameter] = stored_kinds
        if self.critic:
            self.critic.load_state(folder)
