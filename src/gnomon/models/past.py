"""Earlier versions of a policy, kept so that a run can go on against what it was."""

from __future__ import annotations

from pathlib import Path
from random import Random

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from gnomon.models.weights import Kind, WeightsRef

__all__ = ["Past"]

PROBE = "/probe"
LOGP = "/probe_logp"
VERSION = "/version"


class Past:
    """Versions of one policy. The first one stays; of the others the oldest makes room.

    Args:
        every: steps of the run from one version that is remembered to the next, at least 1.
        keep: most versions that can be drawn, at least 2: each is a copy of all weights, here and in every checkpoint.
        lag: steps for which more versions are held, so that what could be drawn then can still be.
    """

    def __init__(self, *, every: int, keep: int, lag: int = 0) -> None:
        if every < 1 or keep < 2:
            raise ValueError(f"every is {every} and keep {keep}; they must be at least 1 and 2")
        self.every, self.keep, self.lag = every, keep, lag
        self.held: dict[int, WeightsRef] = {}
        """By the steps of the run behind them, from the oldest."""

    @property
    def first(self) -> WeightsRef:
        return next(iter(self.held.values()))

    def remember(self, weights: WeightsRef, step: int) -> None:
        """Copy the weights that a step begins with, where it is time for them and they are not held yet."""
        if step % self.every or step in self.held:
            return
        self.held[step] = weights.copy()
        needed = {*self.drawable(step - self.lag), *(earlier for earlier in self.held if earlier > step - self.lag)}
        self.held = {earlier: version for earlier, version in self.held.items() if earlier in needed}

    def drawable(self, step: int) -> list[int]:
        """The versions that a draw as of a step is from: the first one and the newest, `keep` at most."""
        first, *others = [earlier for earlier in self.held if earlier <= max(0, step)] or [next(iter(self.held))]
        return [first, *others[1 - self.keep :]]

    def draw(self, rng: Random, step: int) -> WeightsRef:
        """One of the versions as of a step, each as likely as another. Later ones make no difference."""
        return self.held[rng.choice(self.drawable(step))]

    def save_state(self, folder: Path) -> None:
        """Write every version into a checkpoint."""
        for step, weights in self.held.items():
            tensors = {name: value.contiguous() for name, value in weights.read().items()}
            tensors[PROBE] = torch.tensor(weights.probe, dtype=torch.int64, device="cpu")
            tensors[LOGP] = torch.tensor(weights.probe_logp, dtype=torch.float64, device="cpu")
            tensors[VERSION] = torch.tensor(weights.version, device="cpu")
            save_file(tensors, folder / f"past-{step:08d}.safetensors", {"kind": weights.kind, "base": weights.base})

    def load_state(self, folder: Path) -> None:
        """Hold what was held when the checkpoint was written, and nothing else."""
        self.held = {}
        for path in sorted(folder.glob("past-*.safetensors")):
            state = load_file(path)
            with safe_open(path, framework="pt") as file:
                facts = file.metadata()
            probe, logp, version = state.pop(PROBE), state.pop(LOGP), int(state.pop(VERSION))
            self.held[int(path.stem.removeprefix("past-"))] = WeightsRef(
                kind=Kind(facts["kind"]), base=facts["base"], version=version, tensors=state,
                probe=tuple(probe.tolist()), probe_logp=tuple(logp.tolist()),
            )  # fmt: skip
