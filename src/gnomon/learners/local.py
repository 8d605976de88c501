"""A learner inside this process, with a policy of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gnomon.learners.base import FloatArray, Model, Named
from gnomon.learners.batch import Batch, TokenSequence, pieces
from gnomon.learners.coefficients import coefficients, cut, units
from gnomon.learners.critic import Critic
from gnomon.learners.eight_bit import from_store, to_store
from gnomon.learners.mismatch import compare_logp, drift
from gnomon.learners.not_finite import not_finite, only_overflows
from gnomon.learners.optimisers import Adam, Sgd, optimizer_of
from gnomon.learners.scaling import LossScale
from gnomon.learners.scatter import SuccessScatter
from gnomon.models.kernels import add_in_order
from gnomon.models.policy import Policy, Scored
from gnomon.models.projection import WHOLE, Truncation
from gnomon.models.scoring import score, text_collision, text_entropy, text_logp, text_pass
from gnomon.models.threads import Threads
from gnomon.models.weights import PROBE, PROSE, WeightsRef, probe_of
from gnomon.objectives import Coefficients, Need, Objective, Rewards
from gnomon.stats import Mean, Stats, Sum, merge

__all__ = ["LocalLearner", "Terms"]

TOKENS = 3072
"""Usual size of a micro-batch: what fits the cache of a CPU core."""
STATE = "optimizer.safetensors"

Places = Sequence[int]
"""Where the sequences of a micro-batch are in its batch."""
Reader = Callable[[Sequence[TokenSequence]], Tensor]
"""What a model says of every trainable token of some sequences: [T]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is maximised beside the objective, per token and weighted like the token."""

    entropy: float = 0.0
    """Coefficient of the entropy bonus: nats of the full next-token distribution."""
    full_kl: float = 0.0
    """Coefficient of the KL penalty: nats between the full next-token distributions of policy and reference."""

    @property
    def some(self) -> bool:
        return self.entropy != 0 or self.full_kl != 0


class Loss(NamedTuple):
    """What a micro-batch is trained on."""

    value: Tensor
    """[] with gradients."""
    batch: Batch
    logp: Tensor
    """[T] of the trainable tokens."""
    hidden: Tensor
    """[T, size] before each of them."""
    stats: Stats


class LocalLearner:
    """Gradients of Σ κ·log π, summed over micro-batches, and an optimiser.

    Attributes: fused: whether the optimiser is torch's fused one, which is faster.
    Args:
        policy: is trained, in its precision.
        optimizer: settings of the optimiser; AdamW with its defaults if None.
        reference: a policy that is never updated, for objectives that ask for one and for `Terms.full_kl`.
        critic: for objectives that ask for one.
        published: the folder that takes the weights of the newest version, for engines in other processes. None:
            engines in this process take them from memory.
        micro_batch: tokens that one backward pass takes. It changes rounding, memory and speed, nothing else.
        probe: tokens on which an engine proves that it holds a published version.
        truncation: of the distributions that are sampled and trained. A reference is scored whole.
        threads: that compute packed passes on a CPU, each one micro-batch at a time.
    """

    fused = True

    def __init__(
        self,
        policy: Policy,
        *,
        optimizer: Adam | Sgd | None = None,
        terms: Terms | None = None,
        reference: Policy | None = None,
        critic: Critic | None = None,
        published: Path | None = None,
        micro_batch: int = TOKENS,
        probe: int = PROBE,
        truncation: Truncation = WHOLE,
        threads: int = 1,
    ) -> None:
        add_in_order()
        self.policy, self.reference, self.critic, self.published = policy, reference, critic, published
        self.version, self.terms, self.micro_batch, settings = 0, terms or Terms(), micro_batch, optimizer or Adam()
        self.truncation = truncation
        if self.terms.full_kl and reference is None:
            raise ValueError("full_kl needs a reference policy")
        if torch.finfo(policy.precision.master).bits < 32:
            raise ValueError("trained weights must be float32 or finer: coarser ones lose small updates in rounding")
        self.parameters = policy.masters.parameters
        self.scale = LossScale(policy.precision.compute)
        self._threads = Threads(threads if policy.packs and policy.device.type == "cpu" else 1)
        self._probe = (*probe_of(policy.vocabulary), *policy.tokenizer.encode(PROSE))[:probe]
        self._gathered: list[Batch] = []
        """What the gradient is of that the next optimiser step takes."""
        self.optimizer = optimizer_of(settings, self.parameters.values(), fused=self.fused)
        self._max_grad_norm = settings.max_grad_norm

    def set_adam(self, settings: Adam) -> None:
        """The settings of AdamW from its next step on."""
        self._max_grad_norm = settings.max_grad_norm
        for group in self.optimizer.param_groups:
            group.update(betas=settings.betas, eps=settings.eps, weight_decay=settings.weight_decay)

    def score(
        self, sequences: Sequence[TokenSequence], temperature: float = 1.0, model: Model = Model.POLICY
    ) -> list[FloatArray]:
        """What a model says of every trainable token of each sequence.

        Returns: natural log-probabilities under the tempered distribution of the policy or the reference; of the
            critic what the rest of the rollout is expected to earn, in units of reward; of `Model.ENTROPY` nats, of
            `Model.COLLISION` probabilities.
        Raises: ValueError for a model that this learner does not have.
        """
        cuts = pieces(sequences, self.micro_batch, self.policy.packs)
        # The reference may be the policy while its adapter is off, for all threads.
        threads = Threads() if model is Model.REFERENCE else self._threads
        values_of_cuts = self._read(self._reader(model, temperature), sequences, cuts, threads)
        by_index: dict[int, FloatArray] = {}
        for places, values in zip(cuts, values_of_cuts, strict=True):
            parts = torch.split(values, [len(sequences[index]) for index in places])
            by_index |= {index: part.numpy() for index, part in zip(places, parts, strict=True)}
        return [by_index[index] for index in range(len(sequences))]

    def _read(
        self, reader: Reader, sequences: Sequence[TokenSequence], cuts: Sequence[Places], threads: Threads
    ) -> list[Tensor]:
        """What a model says of each micro-batch: [T] of its tokens, on the CPU."""
        return [*threads.results(lambda places: reader([sequences[index] for index in places]).cpu(), cuts)]

    def _reader(self, model: Model, temperature: float) -> Reader:
        if model is Model.CRITIC and self.critic:
            return self.critic.values
        if model is Model.REFERENCE and self.reference:
            return partial(text_logp, self.reference, temperature=temperature)
        reader = {Model.POLICY: text_logp, Model.ENTROPY: text_entropy, Model.COLLISION: text_collision}.get(model)
        if reader is None:
            raise ValueError(f"this learner was given no {model.value} to score with")
        return partial(reader, self.policy, temperature=temperature, truncation=self.truncation)

    def forward_backward(self, batch: Batch, objective: Objective | Named | Coefficients) -> Stats:
        """Add the gradient of a batch with credit.

        Sequences whose coefficients are all zero have no gradient and are not computed. If a cut between micro-batches
        separates tokens whose coefficients depend on each other, all coefficients are computed first: from the
        log-probabilities of an exact sampler if the policy has not moved since, or else from a pass without gradients.

        Returns: `logp_mismatch`, the largest |sampler − learner| log-probability; `entropy`, nats per
            trained token; `trained`, tokens of sequences with a gradient; with `full_kl` also `kl`, nats per trained
            token; of rows with `observation` also `observation_nll`, nats per observed token; of rows that count
            successes, `score_signal` and `score_scatter` of `SuccessScatter`. After the
            first of several updates also `drift`, the k3 estimate of KL(proximal‖policy) per token, and `clipped`,
            the share of tokens whose credit the ratio took away.
        """
        self._gathered.append(batch)
        row = objective.row() if isinstance(objective, Named) else objective
        moving = self._moving(batch, row)
        moved = batch.take(moving)
        cuts = moved.micro_batches(self.micro_batch, self.policy.packs)
        fixed = self._known_coefficients(batch, moving, [moved.take(places) for places in cuts], row)
        stats: Stats = {"trained": Sum(len(moved))}
        stats = merge(stats, self._gather(moved, cuts, row if fixed is None else fixed, self._scatter(moved, row)))
        if not moving:
            stats = merge(stats, self._compare(batch))
        if self.critic and isinstance(row, Objective) and Need.VALUES in row.asks:
            stats = merge(stats, self.critic.forward_backward(batch, self.micro_batch, clip=row.value_clip))
        return stats

    def _moving(self, batch: Batch, objective: Objective | Coefficients) -> list[int]:
        """Places of the sequences that have a gradient."""
        credit = objective.kappa if isinstance(objective, Coefficients) else batch.advantage
        assert credit is not None, "the batch has no credit"
        if self.terms.some or (isinstance(objective, Objective) and objective.penalty is not None):
            return list(range(len(batch.sequences)))
        parts = torch.split(credit, [len(sequence) for sequence in batch.sequences])
        watched = [bool(objective.observation and sequence.observations) for sequence in batch.sequences]
        return [index for index, part in enumerate(parts) if watched[index] or part.any()]

    def _known_coefficients(
        self, batch: Batch, moving: Sequence[int], parts: Collection[Batch], objective: Objective | Coefficients
    ) -> Coefficients | None:
        """The coefficients of the moving sequences, end to end, or None where each part holds all that its own need.

        Args: moving: places in the batch of the sequences with a gradient; parts: these sequences, cut.
        """
        if isinstance(objective, Coefficients):
            return objective.take(batch.tokens_of(moving))
        reach = objective.reach
        reached = set().union(*(units(part.sequences, reach) for part in parts))
        still = sorted(set(range(len(batch.sequences))).difference(moving))
        beside = [index for index in still if units([batch.sequences[index]], reach) & reached]
        if not beside and not cut(parts, reach):
            return None
        needed = batch.take([*moving, *beside])
        return coefficients(needed, self._logp(needed), objective)

    def _logp(self, batch: Batch) -> Tensor:
        """[T] float64 log-probabilities under the policy as it is."""
        reported = batch.behavior_logp
        if batch.exact and batch.proximal_logp is None and not bool(reported.isnan().any()):
            return reported
        return self._score(batch)

    def _score(self, batch: Batch) -> Tensor:
        logps = self.score(batch.sequences, batch.temperature)
        return torch.cat([batch.behavior_logp[:0], *map(torch.from_numpy, logps)]).double()

    def _scatter(self, moved: Batch, objective: Objective | Coefficients) -> SuccessScatter | None:
        """For objectives that count successes, of whole distributions."""
        counts = isinstance(objective, Objective) and objective.rewards is Rewards.BINARY
        return SuccessScatter(self.policy, moved) if counts and self.truncation == WHOLE else None

    def _gather(
        self,
        batch: Batch,
        cuts: Sequence[Places],
        objective: Objective | Coefficients,
        scatter: SuccessScatter | None,
    ) -> Stats:
        """Add the gradients of the micro-batches. Each holds all that its coefficients depend on."""
        stats: Stats = {}
        if self._threads.count == 1 or self.terms.full_kl:  # The reference may be the policy while its adapter is off.
            for places in cuts:
                stats = merge(stats, self._backward(batch.take(places), part(objective, batch, places), scatter))
            return stats

        parameters = [*self.policy.state().values()]

        def differentiate(places: Places) -> tuple[Loss, Sequence[Tensor | None]]:
            loss = self._loss(batch.take(places), part(objective, batch, places))
            return loss, torch.autograd.grad(loss.value, parameters, allow_unused=True)

        for loss, gradients in self._threads.results(differentiate, cuts):
            has_gradient = [value is not None for value in gradients]
            torch.autograd.backward([*compress(parameters, has_gradient)], [*compress(gradients, has_gradient)])
            stats = merge(stats, self._stats(loss, scatter))
        return stats

    def _backward(
        self,
        batch: Batch,
        objective: Objective | Coefficients,
        scatter: SuccessScatter | None = None,
        share: float = 1.0,
    ) -> Stats:
        """Add the gradient of a micro-batch, times a share of it."""
        loss = self._loss(batch, objective, share)
        loss.value.backward()  # type: ignore[no-untyped-call]
        return self._stats(loss, scatter)

    def _loss(self, batch: Batch, objective: Objective | Coefficients, share: float = 1.0) -> Loss:
        """What a share of a micro-batch is to be moved down, and what is recorded of it."""
        work = text_pass(self.policy, [s.likely for s in batch.sequences] if objective.observation else batch.sequences)
        anchor = self.reference.anchor(work) if self.terms.full_kl and self.reference else None
        scored: Scored = self.policy(work, batch.temperature, anchor, truncation=self.truncation)
        (logp, entropy, hidden, kl), observed = split(scored, batch) if objective.observation else (scored, None)
        if isinstance(objective, Coefficients):
            coefficient = objective
        else:
            coefficient = coefficients(batch, logp.detach().cpu(), objective)
        weight = coefficient.weight.to(logp)
        gain = (coefficient.kappa.to(logp) * logp).sum()
        stats: Stats = {}
        if self.terms.entropy:
            gain = gain + self.terms.entropy * (weight * entropy).sum()
        if kl is not None:
            gain = gain - self.terms.full_kl * (weight * kl).sum()
            stats["kl"] = Mean(float(kl.detach().sum()), len(kl))
        if observed is not None and len(observed):
            gain = gain + objective.observation / batch.denominators.observed * observed.sum()
            stats["observation_nll"] = Mean(-float(observed.detach().sum()), len(observed))
        detached, entropy = logp.detach().cpu(), entropy.detach().cpu()
        stats |= drift(detached, batch, coefficient.clipped) | {"entropy": Mean(float(entropy.sum()), len(entropy))}
        return Loss(-share * self.scale.value * gain, batch, logp.detach(), hidden.detach(), stats)

    def _stats(self, loss: Loss, scatter: SuccessScatter | None) -> Stats:
        """What is recorded of a micro-batch. Raises: NumericsError E202, as `compare_logp`."""
        stats = loss.stats
        if scatter:
            stats = stats | scatter.add(loss.hidden, loss.logp, loss.batch)
        return merge(stats, compare_logp(loss.logp.cpu(), loss.batch, self.version))

    def _compare(self, batch: Batch) -> Stats:
        """A step without a gradient is still compared with the sampler, on its first sequence."""
        if not batch.sequences:
            return {}
        first = batch.take([0])
        with torch.no_grad():
            scored = self.policy(text_pass(self.policy, first.sequences), batch.temperature, truncation=self.truncation)
        entropy = scored.entropy.cpu()
        stats = compare_logp(scored.logp.cpu(), first, self.version)
        return stats | {"entropy": Mean(float(entropy.sum()), len(entropy))}

    def optim_step(self, lr: float) -> Stats:
        """One step of the optimiser, and one of the critic at its own rate.

        Returns: `grad_norm`, before it is shortened; `lr`. In float16 also `loss_scale` and `skipped`: 1 where the
            gradient overflowed. Then no model has moved, the version stays, and there is no `grad_norm`.
        Raises: NumericsError E203 where a gradient is not finite, and no smaller scale of the loss would mend it. Then
            no model has moved, and what was gathered is forgotten.
        """
        for parameter in self.parameters.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.scale.unscale(self.parameters.values())
        norms = {"policy": self._clip_gradient(self._max_grad_norm)}
        if self.critic:
            norms["critic"] = self.critic.clip_gradient()
        if not all(map(math.isfinite, norms.values())):
            self._skip(norms)
            return {"lr": Mean(lr)} | self._scale(skipped=True)
        self.version += 1
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.policy.masters.round()
        self._forget()
        self.scale.finite()
        stats: Stats = {"grad_norm": Mean(norms["policy"]), "lr": Mean(lr)}
        if self.critic:
            self.critic.take_step()
            stats["value_grad_norm"] = Mean(norms["critic"])
        return stats | self._scale(skipped=False)

    def _scale(self, *, skipped: bool) -> Stats:
        if not self.scale.moves:
            return {}
        return {"loss_scale": Mean(self.scale.value), "skipped": Mean(float(skipped))}

    def _clip_gradient(self, most: float) -> float:
        """Shorten the gradient to this norm at most. Returns: its norm before."""
        return float(torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), most))

    def _skip(self, norms: dict[str, float]) -> None:
        """Forget what was gathered, and halve the scale of each loss whose gradient overflowed.

        Raises: NumericsError E203 where that does not help.
        """
        gathered = self._gathered
        self._forget()
        models, scales = {"policy": self.parameters}, {"policy": self.scale}
        if self.critic:
            self.critic.optimizer.zero_grad()
            models["critic"], scales["critic"] = self.critic.parameters, self.critic.scale
        broken = [scales[name] for name, norm in norms.items() if not math.isfinite(norm)]
        if all(scale.can_fall for scale in broken) and only_overflows(norms, gathered, models, self._score):
            for scale in broken:
                scale.halve()
            return
        raise not_finite(
            norms,
            gathered,
            weights=models,
            logp=self._score,
            where=f"optimiser step {self.version + 1}",
            first=self.version == 0,
            compute=self.policy.precision.compute,
        )

    def _forget(self) -> None:
        """Begin another gradient of the policy."""
        self._gathered = []
        for parameter in self.parameters.values():
            assert parameter.grad is not None
            parameter.grad.zero_()

    def publish(self) -> WeightsRef:
        """The present version. In a folder of published weights, its file takes the place of the one before."""
        ref = self._describe(self.policy.state())
        return ref if self.published is None else ref.write(fresh_file(self.published, self.version))

    def _describe(self, tensors: Mapping[str, Tensor] | Path) -> WeightsRef:
        """The present version, whose tensors are these, with its probe."""
        logp = score(self.policy, [self._probe[:1]], [(0, self._probe[1:])])
        if not isinstance(tensors, Path):
            tensors = {name: value.detach() for name, value in tensors.items()}
        return WeightsRef(
            kind=self.policy.kind,
            base=self.policy.base,
            version=self.version,
            tensors=tensors,
            probe=self._probe,
            probe_logp=tuple(logp.tolist()),
        )

    def save_state(self, folder: Path) -> None:
        self.policy.save(folder)
        state = {"version": torch.tensor(self.version, device="cpu"), **self.scale.state()}
        for name, parameter in self.parameters.items():
            own = to_store(self.optimizer.state.get(parameter, {}))
            state |= {f"{name}/{kind}": value for kind, value in own.items()}
        save_file(state, folder / STATE)
        if self.critic:
            self.critic.save_state(folder)

    def load_state(self, folder: Path) -> None:
        """Raises: ModelError E304 for the state of another model."""
        device = str(self.policy.device)
        self.policy.restore(folder)
        state = load_file(folder / STATE, device)
        self.version = int(state.pop("version"))
        self.scale.take(state)
        self.optimizer.state.clear()
        for name, parameter in self.parameters.items():
            stored = {key.rpartition("/")[2]: value for key, value in state.items() if key.rpartition("/")[0] == name}
            if stored:
                self.optimizer.state[parameter] = from_store(self.optimizer, stored)
        if self.critic:
            self.critic.load_state(folder)


def split(scored: Scored, batch: Batch) -> tuple[Scored, Tensor]:
    """The scores of the trainable tokens of a batch, and [O] the log-probabilities of its observed tokens.

    Args: scored: the scores of the tokens of `TokenSequence.likely`, of all sequences of the batch.
    """
    own = torch.cat([s.trainable[s.likely.trainable] for s in batch.sequences]).to(scored.logp.device)
    logp, entropy, hidden, kl = scored
    own_scores = Scored(logp[own], entropy[own], hidden[own], None if kl is None else kl[own])
    return own_scores, logp[~own]


def part(objective: Objective | Coefficients, batch: Batch, places: Places) -> Objective | Coefficients:
    """What an objective is for a micro-batch: the row itself, or the coefficients of its tokens."""
    if isinstance(objective, Coefficients):
        return objective.take(batch.tokens_of(places))
    return objective


def fresh_file(folder: Path, version: int) -> Path:
    """Where a version of the weights is published; the files of older ones are deleted."""
    for older in folder.glob("weights-*.safetensors"):
        older.unlink(missing_ok=True)
    return folder / f"weights-{version:08d}.safetensors"
