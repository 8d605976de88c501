"""A learner inside this process: AdamW over a policy of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gnomon.errors import ModelError, NumericsError
from gnomon.learners.batch import Batch, credited, seats_merged
from gnomon.learners.coefficients import Coefficients, coefficients, cut, units
from gnomon.learners.critic import Critic
from gnomon.learners.masters import Masters
from gnomon.learners.not_finite import not_finite
from gnomon.learners.scatter import SuccessScatter
from gnomon.models.past import Past
from gnomon.models.policy import Policy
from gnomon.models.scoring import full_kl, score, target_logp, text_hidden, text_logp
from gnomon.models.weights import Weights
from gnomon.objectives import Need, Objective, Rewards, Rollouts, running_mean
from gnomon.stats import Max, Mean, Stat, Stats, Sum, merge

__all__ = ["LocalLearner"]

TOKENS = 3072
"""Size of a micro-batch: what fits the cache of a CPU core. It changes rounding and speed, nothing else."""


class LocalLearner:
    """Gradients of Σ κ·log π, summed over micro-batches; AdamW with a linear warm-up and decay.

    Args:
        compute: dtype of forward and backward passes, the policy's own if not given. What the optimiser moves and
            remembers, gradients once summed, log-probabilities and all that is made of them are at least float32.
        lr: peak learning rate, reached at the last step of the warm-up; it decays linearly from there.
        steps: optimiser step at which the decay reaches `lr · floor`.
        clip: largest norm of the gradient, over all parameters.
        entropy: coefficient of the entropy bonus: nats of the full next-token distribution, weighted like the token.
        full_kl: coefficient of the KL penalty: nats between the full next-token distributions of policy and reference,
            weighted like the token.
        reference: a policy that is never updated, for objectives that ask for one and for `full_kl`.
        critic: for objectives that ask for one.
        shared: rewards are compared across the seats of a game, in its groups as in the running mean, instead of
            within each seat.
        past: earlier weights that some seats are played by; they are kept in checkpoints.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        compute: torch.dtype | None = None,
        lr: float,
        steps: int,
        floor: float = 1.0,
        warmup: int = 0,
        clip: float = 1.0,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.0,
        entropy: float = 0.0,
        full_kl: float = 0.0,
        reference: Policy | None = None,
        critic: Critic | None = None,
        shared: bool = False,
        past: Past | None = None,
    ) -> None:
        self.policy, self.version, self.prepared = policy, 0, 0
        if full_kl and reference is None:
            raise ValueError("a full divergence from a reference needs the reference")
        self.entropy, self.full_kl, self.reference, self.critic = entropy, full_kl, reference, critic
        self.shared, self.past = shared, past
        self.expected: dict[int, float] = {}
        """By seat, the running mean of the steps' rewards, for objectives that ask what the past expects."""
        self.lr, self.steps, self.floor, self.warmup, self.clip = lr, steps, floor, warmup, clip
        self.masters = Masters(policy, compute)
        self.parameters = self.masters.parameters
        self._gathered: list[Batch] = []
        """What the gradient is of that the next optimiser step takes."""
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=lr, betas=betas, weight_decay=weight_decay, fused=True
        )

    def prepare(self, batch: Batch, objective: Objective, *, updates: int = 1) -> Batch:
        """Give every token its advantage, and look up what the objective asks of this learner for it.

        A step of the run prepares one batch, and takes its optimiser steps with it.

        Args: updates: optimiser steps that the batch is for; before several, the policy's log-probabilities are
            kept as the centre of the trust region.
        """
        asks = objective.asks
        missing = [need for need, part in ((Need.REFERENCE, self.reference), (Need.VALUES, self.critic)) if not part]
        if lacks := asks.intersection(missing):
            raise ValueError(f"{objective.name} asks for {', '.join(lacks)}, which this learner was not given")
        if self.shared:
            batch = seats_merged(batch)
        seen: dict[str, Tensor] = {}
        if updates > 1 or Need.LOGP in asks:
            seen["logp"] = batch.look(partial(logp_of_batch, self.policy, batch.temperature), TOKENS)
        if self.reference and Need.REFERENCE in asks:
            seen["reference_logp"] = batch.look(partial(logp_of_batch, self.reference, batch.temperature), TOKENS)
        if self.critic and Need.VALUES in asks:
            seen["values"] = batch.look(self.critic.values, TOKENS)
        if Need.BASELINE in asks:
            batch = replace(batch, rollouts=self._recalled(batch.rollouts))
        self.prepared += 1
        return credited(batch, objective, seen)

    def _recalled(self, rollouts: Rollouts) -> Rollouts:
        """The rollouts with what the past expects of each; then they are past themselves."""
        rewards = rollouts.rewards
        seats = torch.zeros_like(rollouts.seats) if self.shared else rollouts.seats
        past = torch.zeros_like(rewards)
        for seat in sorted(set(seats.flatten().tolist())):
            before = self.expected.get(seat, 0.0)
            past[seats == seat] = before
            self.expected[seat] = running_mean(before, float(rewards[seats == seat].mean()))
        return replace(rollouts, baseline=past)

    def forward_backward(self, batch: Batch, objective: Objective) -> dict[str, Stat]:
        """Add the gradient of a prepared batch.

        Sequences whose coefficients are all zero have no gradient and are not computed. If a cut between micro-batches
        separates tokens whose coefficients depend on each other, all coefficients are computed first: from the
        log-probabilities of an exact sampler if the policy has not moved since, or else from a pass without gradients.

        Returns: `logp_mismatch`, the largest |sampler − learner| log-probability; `entropy`, nats per
            trained token; `trained`, tokens of sequences with a gradient; with `full_kl` also `kl`, nats per trained
            token; of rows that count successes, `score_pull` and `score_scatter` of `SuccessScatter`. After the
            first of several updates also `drift`, the k3 estimate of KL(proximal‖policy) per token, and `clipped`,
            the share of tokens whose credit the ratio took away.
        """
        self._gathered.append(batch)
        pulled = objective.penalty is not None or self.entropy != 0 or self.full_kl != 0
        moving = list(range(len(batch.sequences))) if pulled else credit_of(batch)
        moved = batch.take(moving)
        cuts = moved.micro_batches(TOKENS)
        pieces = [moved.take(places) for places in cuts]
        stats: Stats = {"trained": Sum(len(moved))}
        scatter = SuccessScatter(self.policy, moved) if objective.rewards is Rewards.BINARY else None
        known = self._known(pieces, moving, batch, objective)
        for places, piece in zip(cuts, pieces, strict=True):
            here = None if known is None else known.take(moved.tokens_of(places))
            stats = merge(stats, self._gather(piece, here, scatter, objective))
        if not moving:
            stats = merge(stats, self._compare(batch))
        if self.critic and Need.VALUES in objective.asks:
            stats = merge(stats, self.critic.forward_backward(batch, TOKENS))
        return stats

    def _known(
        self, pieces: Sequence[Batch], moving: Sequence[int], batch: Batch, objective: Objective
    ) -> Coefficients | None:
        """The coefficients of the moving sequences, end to end, or None where each piece holds all that its own need.

        Args: pieces: the moving sequences, cut; moving: their places in the batch.
        """
        reach = objective.reach
        reached = set().union(*(units(piece.sequences, reach) for piece in pieces))
        still = [place for place in range(len(batch.sequences)) if place not in set(moving)]
        beside = [place for place in still if units([batch.sequences[place]], reach) & reached]
        if not beside and not cut(pieces, reach):
            return None
        needed = batch.take([*moving, *beside])
        return coefficients(needed, self._logp(needed), objective)

    def _logp(self, batch: Batch) -> Tensor:
        """[T] float64 log-probabilities under the policy as it is."""
        told = batch.behavior_logp
        if batch.exact and batch.proximal_logp is None and not bool(told.isnan().any()):
            return told
        return batch.look(partial(logp_of_batch, self.policy, batch.temperature), TOKENS)

    def _gather(
        self, batch: Batch, known: Coefficients | None, scatter: SuccessScatter | None, objective: Objective
    ) -> Stats:
        """Add the gradient of a micro-batch. Args: known: its coefficients, where it does not hold all they need."""
        hidden = text_hidden(self.policy, batch.sequences)
        logp, entropy = target_logp(self.policy, hidden, batch.targets, batch.temperature)
        found = coefficients(batch, logp.detach(), objective) if known is None else known
        climbed = (found.kappa.to(logp.dtype) * logp).sum()
        weight = found.weight.to(logp.dtype)
        stats: Stats = {}
        if self.entropy:
            climbed = climbed + self.entropy * (weight * entropy).sum()
        if self.full_kl and self.reference:
            with torch.no_grad():
                anchor = text_hidden(self.reference, batch.sequences)
            apart = full_kl(self.policy, hidden, self.reference, anchor, batch.temperature)
            climbed = climbed - self.full_kl * (weight * apart).sum()
            stats["kl"] = Mean(float(apart.detach().sum()), len(apart))
        (-climbed).backward()  # type: ignore[no-untyped-call]
        if scatter:
            stats |= scatter.add(hidden, batch)
        logp, entropy = logp.detach(), entropy.detach()
        if batch.proximal_logp is not None:
            ahead = logp - batch.proximal_logp.to(logp.dtype)
            stats["drift"] = Mean(float((ahead.exp() - 1 - ahead).sum()), len(ahead))
            stats["clipped"] = Mean(float(found.clipped.sum()), len(found.clipped))
        return merge(stats, compared(logp, entropy, batch, self.version))

    def _compare(self, batch: Batch) -> Stats:
        """A step without a gradient is still compared with the sampler, on its first sequence."""
        if not batch.sequences:
            return {}
        first = batch.take([0])
        with torch.inference_mode():
            logp, entropy = target_logp(
                self.policy, text_hidden(self.policy, first.sequences), first.targets, batch.temperature
            )
        return compared(logp, entropy, first, self.version)

    def optim_step(self) -> dict[str, Stat]:
        """One AdamW step, and one of the critic. Returns: `grad_norm`, before clipping; `lr`.

        Raises: NumericsError E203 where a gradient is not finite. Then neither model has moved, and what was gathered
            is forgotten.
        """
        for parameter in self.parameters.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        norms = {"policy": float(torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), self.clip))}
        if self.critic:
            norms["critic"] = self.critic.clip_gradient()
        self._require_finite(norms)
        self.version += 1
        lr = self.rate(self.version)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.masters.round()
        self._forget()
        stats: Stats = {"grad_norm": Mean(norms["policy"]), "lr": Mean(lr)}
        if self.critic:
            self.critic.take_step()
            stats["value_grad_norm"] = Mean(norms["critic"])
        return stats

    def _require_finite(self, norms: dict[str, float]) -> None:
        """Raises: NumericsError E203, with the gathered gradients forgotten."""
        if all(map(math.isfinite, norms.values())):
            return
        gathered = self._gathered
        self._forget()
        if self.critic:
            self.critic.optimizer.zero_grad()
        models = {"policy": self.parameters} | ({"critic": self.critic.parameters} if self.critic else {})
        raise not_finite(
            norms,
            gathered,
            weights=models,
            logp=lambda batch: batch.look(partial(logp_of_batch, self.policy, batch.temperature), TOKENS),
            where=f"step {max(0, self.prepared - 1)} of the run, optimiser step {self.version + 1}",
            first=self.version == 0,
        )

    def _forget(self) -> None:
        """Begin another gradient of the policy."""
        self._gathered = []
        for parameter in self.parameters.values():
            assert parameter.grad is not None
            parameter.grad.zero_()

    def rate(self, version: int) -> float:
        """The learning rate of the step that makes this version."""
        rise = min(1.0, version / self.warmup) if self.warmup else 1.0
        left = 1.0 - max(0, version - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * rise * (self.floor + (1.0 - self.floor) * max(0.0, left))

    def weights(self) -> Weights:
        state = {name: parameter.detach() for name, parameter in self.policy.state().items()}
        probe = tuple((7 * place + 3) % self.policy.vocabulary for place in range(24))
        logp = score(self.policy, [probe[:1]], [(0, probe[1:])])
        return Weights(
            version=self.version, step=self.prepared, state=state, probe=probe, probe_logp=tuple(logp.tolist())
        )

    def save_state(self, folder: Path) -> None:
        self.policy.save(folder, self.parameters)
        memory = {
            "version": torch.tensor(self.version),
            "prepared": torch.tensor(self.prepared),
            "expected": torch.tensor([*self.expected.values()], dtype=torch.float64),
            "seats": torch.tensor([*self.expected], dtype=torch.int64),
        }
        for name, parameter in self.parameters.items():
            for kind, value in self.optimizer.state.get(parameter, {}).items():
                memory[f"{name}/{kind}"] = value
        save_file(memory, folder / "optimizer.safetensors")
        if self.critic:
            self.critic.save_state(folder)
        if self.past:
            self.past.save_state(folder)

    def load_state(self, folder: Path) -> None:
        self.masters.load(load_file(folder / "model.safetensors"))
        memory = load_file(folder / "optimizer.safetensors")
        if "prepared" not in memory:
            raise ModelError(
                "E322",
                "the checkpoint is from an older Gnomon that did not store the number of steps",
                where=str(folder),
                why="without this number, opponents and offline steps would follow another schedule",
                fix="start again: gnomon train RUN/recipe.toml run=OTHER; keep the policy: gnomon export RUN FOLDER",
            )
        self.version, self.prepared = int(memory.pop("version")), int(memory.pop("prepared"))
        self.expected = dict(zip(memory.pop("seats").tolist(), memory.pop("expected").tolist(), strict=True))
        for name, parameter in self.parameters.items():
            held = {key.rpartition("/")[2]: value for key, value in memory.items() if key.rpartition("/")[0] == name}
            if held:
                self.optimizer.state[parameter] = held
        if self.critic:
            self.critic.load_state(folder)
        if self.past:
            self.past.load_state(folder)


def credit_of(batch: Batch) -> list[int]:
    """Places of the sequences with any credit."""
    assert batch.advantage is not None, "the batch was not prepared for an objective"
    parts = torch.split(batch.advantage, [len(sequence) for sequence in batch.sequences])
    return [place for place, part in enumerate(parts) if part.any()]


def compared(logp: Tensor, entropy: Tensor, batch: Batch, version: int) -> Stats:
    """How far sampler and learner are apart on what was sampled, before any update.

    Raises: NumericsError E202 where they must not be.
    """
    behavior = batch.behavior_logp.to(logp.dtype)
    sampled = ~behavior.isnan()
    logp, behavior = (
        (logp if batch.proximal_logp is None else batch.proximal_logp.to(logp.dtype))[sampled],
        behavior[sampled],
    )
    gap = float((logp - behavior).abs().max()) if len(logp) else 0.0
    if batch.exact and gap != 0.0:
        raise NumericsError(
            "E202",
            f"log-probabilities of sampler and learner differ by {gap:.3g} and must be equal",
            where=f"version {version} of the weights, {int((logp != behavior).sum())} of {len(logp)} tokens",
            why="they were equal when the run began, so the machine, the threads or the libraries changed since",
            fix="resume with the threads= and the library versions in the manifest",
        )
    return {"logp_mismatch": Max(gap), "entropy": Mean(float(entropy.sum()), len(entropy))}


def logp_of_batch(policy: Policy, temperature: float, batch: Batch) -> Tensor:
    """[T] log-probabilities under a policy, without gradients."""
    return text_logp(policy, batch.sequences, temperature)
