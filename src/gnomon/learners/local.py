"""A learner inside this process: AdamW over a policy of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gnomon.errors import NumericsError
from gnomon.learners.batch import Batch, Row
from gnomon.models.policy import Policy
from gnomon.models.scoring import packed_logp, score
from gnomon.models.weights import Weights
from gnomon.objectives import Objective, Tokens
from gnomon.stats import Max, Mean, Stat, Stats, Sum, merge

__all__ = ["LocalLearner"]

TOKENS = 3072
"""Size of a micro-batch: what fits the cache of a CPU core. It changes rounding and speed, nothing else."""


class LocalLearner:
    """Gradients of Σ κ·log π, summed over micro-batches; AdamW with a linear warm-up and decay.

    Args:
        lr: of the last step of the warm-up, from where it falls.
        steps: at which the fall reaches `lr · floor`.
        clip: largest norm of the gradient, over all parameters.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        lr: float,
        steps: int,
        floor: float = 1.0,
        warmup: int = 0,
        clip: float = 1.0,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.0,
    ) -> None:
        self.policy, self.version = policy, 0
        self.lr, self.steps, self.floor, self.warmup, self.clip = lr, steps, floor, warmup, clip
        self.parameters = policy.state()
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=lr, betas=betas, weight_decay=weight_decay, fused=True
        )

    def forward_backward(self, batch: Batch, objective: Objective) -> dict[str, Stat]:
        """Add the batch's gradient. Rows whose coefficients are all zero are never computed.

        Returns: `logp_gap`, the largest |sampler − learner| log-probability; `entropy`, nats per
        trained token; `trained`, tokens that passed through the model.
        """
        if objective.needs_reference:
            raise NotImplementedError("this learner holds no reference policy; use an objective without a penalty")
        moves = [row for row in batch.rows if row.token_ids and row.advantage]
        place = {prompt: i for i, prompt in enumerate(dict.fromkeys(row.prompt_ids for row in moves))}
        moves.sort(
            key=lambda row: place[row.prompt_ids]
        )  # Two tasks may ask the same; rows of a prompt stand together.
        stats: Stats = {"trained": Sum(sum(len(row.token_ids) for row in moves))}
        for rows in batch.micro_batches(moves, TOKENS):
            stats = merge(stats, self._gather(rows, batch, objective))
        if not moves:
            stats = merge(stats, self._look(batch))
        return stats

    def _gather(self, rows: Sequence[Row], batch: Batch, objective: Objective) -> Stats:
        logp, entropy = packed_logp(self.policy, *prompts_and_rows(rows), batch.temperature)
        behavior = torch.tensor([x for row in rows for x in row.behavior_logp], dtype=logp.dtype)
        tokens = Tokens(
            logp=logp.detach(),
            behavior_logp=behavior,
            advantage=spread(rows, [row.advantage for row in rows], logp.dtype),
            sequence=spread(rows, [row.sequence for row in rows], torch.int64),
            group=spread(rows, [row.group for row in rows], torch.int64),
        )
        kappa = objective.coefficients(tokens, batch.denominators)
        (-(kappa * logp).sum()).backward()  # type: ignore[no-untyped-call]
        return compared(logp.detach(), behavior, entropy, batch, self.version)

    def _look(self, batch: Batch) -> Stats:
        """A step without a gradient is still compared with the sampler, on its first prompt."""
        rows = [row for row in batch.rows if row.prompt_ids == batch.rows[0].prompt_ids and row.token_ids]
        if not rows:
            return {}
        with torch.inference_mode():
            logp, entropy = packed_logp(self.policy, *prompts_and_rows(rows), batch.temperature)
        told = torch.tensor([x for row in rows for x in row.behavior_logp], dtype=logp.dtype)
        return compared(logp, told, entropy, batch, self.version)

    def optim_step(self) -> dict[str, Stat]:
        """One AdamW step. Returns: `grad_norm`, before clipping; `lr`."""
        self.version += 1
        lr = self.rate(self.version)
        for parameter in self.parameters.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        norm = float(torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), self.clip))
        if not math.isfinite(norm):
            raise NumericsError(
                "E203",
                f"the gradient is not finite (its norm is {norm})",
                where=f"the step to version {self.version}",
                why="a step along it would make every weight nan",
                fix="a smaller optim.lr or optim.clip, in a new run",
            )
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        for parameter in self.parameters.values():
            assert parameter.grad is not None
            parameter.grad.zero_()
        return {"grad_norm": Mean(norm), "lr": Mean(lr)}

    def rate(self, version: int) -> float:
        """The learning rate of the step that makes this version."""
        rise = min(1.0, version / self.warmup) if self.warmup else 1.0
        left = 1.0 - max(0, version - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * rise * (self.floor + (1.0 - self.floor) * max(0.0, left))

    def weights(self) -> Weights:
        state = {name: parameter.detach() for name, parameter in self.parameters.items()}
        probe = tuple((7 * place + 3) % self.policy.vocabulary for place in range(24))
        logp = score(self.policy, [probe[:1]], [(0, probe[1:])])
        return Weights(version=self.version, state=state, probe=probe, probe_logp=tuple(logp.tolist()))

    def save_state(self, folder: Path) -> None:
        self.policy.save(folder)
        memory = {"version": torch.tensor(self.version)}
        for name, parameter in self.parameters.items():
            for kind, value in self.optimizer.state.get(parameter, {}).items():
                memory[f"{name}/{kind}"] = value
        save_file(memory, folder / "optimizer.safetensors")

    def load_state(self, folder: Path) -> None:
        self.policy.update(load_file(folder / "model.safetensors"))
        memory = load_file(folder / "optimizer.safetensors")
        self.version = int(memory.pop("version"))
        for name, parameter in self.parameters.items():
            held = {key.rpartition("/")[2]: value for key, value in memory.items() if key.rpartition("/")[0] == name}
            if held:
                self.optimizer.state[parameter] = held


def compared(logp: Tensor, behavior: Tensor, entropy: Tensor, batch: Batch, version: int) -> Stats:
    """How far sampler and learner are apart. Raises: NumericsError E202 where they must not be."""
    gap = float((logp - behavior).abs().max())
    if batch.exact and gap != 0.0:
        raise NumericsError(
            "E202",
            f"sampler and learner disagree on a log-probability by {gap:.3g}, where they must agree in every bit",
            where=f"version {version} of the weights, {int((logp != behavior).sum())} of {len(logp)} tokens",
            why="the engine proved itself exact on this machine when the run began, so something changed since",
            fix="resume with the same threads= and the same library versions as the manifest says",
        )
    return {"logp_gap": Max(gap), "entropy": Mean(float(entropy.sum()), len(entropy))}


def prompts_and_rows(rows: Sequence[Row]) -> tuple[list[tuple[int, ...]], list[tuple[int, tuple[int, ...]]]]:
    """The distinct prompts, in order, and every row with the index of its prompt."""
    prompts = list(dict.fromkeys(row.prompt_ids for row in rows))
    place = {prompt: index for index, prompt in enumerate(prompts)}
    return prompts, [(place[row.prompt_ids], row.token_ids) for row in rows]


def spread(rows: Sequence[Row], values: Sequence[float], dtype: torch.dtype) -> Tensor:
    """One value per row to one per token."""
    lengths = torch.tensor([len(row.token_ids) for row in rows])
    return torch.tensor(values, dtype=dtype).repeat_interleave(lengths)
