"""Earlier versions of a policy, kept so that a run can go on against what it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import torch
from safetensors.torch import load_file, save_file

from gnomon.models.weights import Weights

__all__ = ["Past"]

PROBE = "/probe"
LOGP = "/probe_logp"
STEP = "/step"


class Past:
    """Versions of one policy. The first one stays; of the others the oldest makes room.

    Args:
        every: steps of the run from one version that is remembered to the next, at least 1.
        keep: most versions held, at least 2: each is a copy of all weights, here and in every checkpoint.
    """

    def __init__(self, *, every: int, keep: int) -> None:
        if every < 1 or keep < 2:
            raise ValueError(f"every is {every} and keep {keep}; they must be at least 1 and 2")
        self.every, self.keep = every, keep
        self.held: dict[int, Weights] = {}
        """By version, from the oldest."""

    @property
    def first(self) -> Weights:
        return next(iter(self.held.values()))

    def remember(self, weights: Weights) -> None:
        """Copy the weights, where it is time for them and they are not held yet."""
        if weights.step % self.every or weights.version in self.held:
            return
        copies = {name: value.detach().clone() for name, value in weights.state.items()}
        self.held[weights.version] = replace(weights, state=copies)
        if len(self.held) > self.keep:
            del self.held[list(self.held)[1]]

    def draw(self, rng: Random) -> Weights:
        """One of the versions, each as likely as another."""
        return self.held[rng.choice(list(self.held))]

    def save_state(self, folder: Path) -> None:
        """Write every version beside a learner's checkpoint."""
        for version, weights in self.held.items():
            kept = {name: value.contiguous() for name, value in weights.state.items()}
            kept[PROBE] = torch.tensor(weights.probe, dtype=torch.int64)
            kept[LOGP] = torch.tensor(weights.probe_logp, dtype=torch.float64)
            kept[STEP] = torch.tensor(weights.step)
            save_file(kept, folder / f"past-{version:08d}.safetensors")

    def load_state(self, folder: Path) -> None:
        """Hold what was held when the checkpoint was written, and nothing else."""
        self.held = {}
        for path in sorted(folder.glob("past-*.safetensors")):
            state = load_file(path)
            probe, logp, step = state.pop(PROBE), state.pop(LOGP), int(state.pop(STEP))
            version = int(path.stem.removeprefix("past-"))
            self.held[version] = Weights(
                version=version, step=step, state=state, probe=tuple(probe.tolist()), probe_logp=tuple(logp.tolist())
            )
