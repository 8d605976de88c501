"""The plan of a run: its memory by part, its time by part, and the cost of the whole."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Any

import torch

from gnomon.config import RunConfig
from gnomon.config.placement import EngineKind, LearnerPlace
from gnomon.errors import ConfigError, ModelError
from gnomon.models.backends import fits_flex, packs
from gnomon.models.folder import table
from gnomon.models.packed import Packed
from gnomon.models.policy import Policy, Whole
from gnomon.models.precision import Precision
from gnomon.objectives import Need, Objective
from gnomon.plans.attention import PlannedFlex
from gnomon.plans.count import bytes_of
from gnomon.plans.depth import Deep
from gnomon.plans.devices import GIB, Device
from gnomon.plans.lengths import Lengths, described
from gnomon.plans.passes import Cost, decoding, meta_policy, probing, scoring, texts, training
from gnomon.plans.places import assign, engines, episodes_at_once, own_machine, vllm_gpus
from gnomon.plans.states import (
    adam_bytes,
    lanes,
    micro_batch_counts,
    rank_memory,
    share_of_time,
    state_bytes,
    step_bytes,
    step_seconds,
    sum_memory,
)
from gnomon.run.makers.engine import apart, numbers_differ
from gnomon.run.makers.learner import sparing
from gnomon.run.makers.objective import full_kl, make_objective
from gnomon.run.makers.policy import make_adapter, make_precision

__all__ = ["Plan", "planned", "trainable"]

PER_ROLLOUT = 1e-3
"""Seconds in which a rollout is rendered, sent to a worker, encoded and stored; measured with the shipped policy."""
VLLM_SPARE = 2 * GIB
"""Memory of vLLM beside weights, keys and values. Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPlan:
    """What an evaluation set will need."""

    seconds: float
    """Of one evaluation."""
    evaluations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run will need on a device."""

    device: Device
    lengths: Lengths
    parameters: int
    """Of the model."""
    trained: int
    """Those that the optimiser moves."""
    memory: Mapping[str, float]
    """Bytes of the device of the run at the moment of a step that needs most, by part."""
    learner: Mapping[str, float]
    """Bytes of every device that only trains, by part: a server's, that of a learner in a cluster, or of each further
    process. Empty for none."""
    sampler: Mapping[str, float]
    """Bytes of every sampler in a cluster, or of every GPU that vLLM has for itself, by part. Empty for none."""
    samplers: int
    """Number of samplers or GPUs in `sampler`."""
    sleeps: bool
    """Whether vLLM sleeps while the policy is trained."""
    own_gpus: bool
    """Whether `sampler` is a GPU that only vLLM uses."""
    together: bool
    """Whether all these processes share the memory of one machine."""
    ranks: int
    served: bool
    """Whether the learner is on a server."""
    apart: bool
    """Whether the learner is in a process of its own in the cluster."""
    micro_batches: int
    """Of a step, if all groups are trained."""
    phase: str
    """That moment: `sampling` or `training`."""
    seconds: Mapping[str, float]
    """Of a step, by part."""
    evaluation: float
    """Seconds of an evaluation."""
    tokens: int
    """Tokens sampled in a step."""
    steps: int
    evaluations: int
    sets: Mapping[str, SetPlan]
    """Of every evaluation set."""

    @property
    def peak(self) -> float:
        """Bytes."""
        return sum(self.memory.values())

    @property
    def sampler_place(self) -> str:
        """Where `sampler` is."""
        return f"each of {self.samplers} {'GPUs of vLLM' if self.own_gpus else 'samplers'}"

    @property
    def total(self) -> float:
        """Bytes of all devices."""
        others = max(1, self.ranks - 1) if not (self.served or self.apart) else 1
        return self.peak + others * sum(self.learner.values()) + self.samplers * sum(self.sampler.values())

    @property
    def most(self) -> float:
        """Bytes of the device that needs most."""
        if self.together:
            return self.total
        return max(self.peak, sum(self.learner.values()), sum(self.sampler.values()))

    @property
    def devices(self) -> int:
        """Devices that the run keeps busy."""
        if self.together:
            return 1
        ranks = max(1, self.ranks) if self.device.name != "cpu" else 1
        return ranks + (self.served and not self.samplers) + self.samplers

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return sum(self.seconds.values())

    @property
    def hours(self) -> float:
        """Of the whole run."""
        sets = sum(each.evaluations * each.seconds for each in self.sets.values())
        return (self.steps * self.step + self.evaluations * self.evaluation + sets) / 3600

    @property
    def fits(self) -> bool:
        return self.most <= self.device.memory

    def body(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "device": self.device.name,
            "measured": self.device.measured,
            "memory_of_device": self.device.memory,
            "parameters": self.parameters,
            "trained": self.trained,
            "reply_tokens": self.lengths.reply,
            "peak": self.peak,
            "phase": self.phase,
            "memory": dict(self.memory),
            "learner": dict(self.learner),
            "sampler": dict(self.sampler),
            "samplers": self.samplers,
            "total": self.total,
            "ranks": self.ranks,
            "devices": self.devices,
            "step_seconds": self.step,
            "seconds": dict(self.seconds),
            "evaluation_seconds": self.evaluation,
            "sets": {name: asdict(each) for name, each in self.sets.items()},
            "tokens_per_step": self.tokens,
            "programs": None if self.lengths.program is None else asdict(self.lengths.program),
            "hours": self.hours,
            "fits": self.fits,
        }


def planned(config: RunConfig, device: Device, lengths: Lengths) -> Plan:
    """The plan of a run, from its settings and the `config.json` of its model.

    Raises: ConfigError E073 for a run on the Tinker service, whose machines are not known.
    """
    if config.placement.learner is LearnerPlace.SERVICE:
        what, fix = "a run on the Tinker service cannot be planned", "learner=local engine=embedded"
        raise ConfigError("E073", what, where="learner", why="its machines are not known", fix=fix)
    folder, whole = described(config.policy.path), layout_of(config, device)
    sampling_precision = Precision.only(getattr(torch, config.engine_dtype))

    trained_model = Deep(lambda layers: trainable(config, whole, layers))
    sampling_model = Deep(lambda layers: meta_policy(folder, sampling_precision, make_adapter(config, True), layers))
    reference = sampling_model
    if config.policy.reference or whole is PlannedFlex:
        teacher = described(config.policy.reference or config.policy.path)
        own = None if config.policy.reference else make_adapter(config, True)
        reference = Deep(lambda layers: meta_policy(teacher, sampling_precision, own, layers, whole))
    learner, sampler = trained_model.whole, sampling_model.whole
    row = make_objective(config)
    sequences = texts(lengths.prompts, lengths.conversations(config.rollout.group), lengths.conversation)
    sampling = played(config, sampling_model, lengths, lengths.prompts, config.rollout.group, device)
    held_out = played(config, sampling_model, lengths, lengths.held_out, config.eval.samples, device)
    sets = {
        name: played(config, sampling_model, lengths, prompts, config.eval.sets[name].samples, device)
        for name, prompts in lengths.sets.items()
    }
    entropy, size = config.regularize.entropy != 0, config.optim.micro_batch
    train = trained_model.cost(lambda policy: training(policy, sequences, device, entropy=entropy, micro_batch=size))
    weights = list(learner.masters.parameters.values())
    masters, share = bytes_of(weights), share_of_time(config, sequences, device, learner.width)
    with_reference = row.needs_reference or full_kl(config)
    rollouts = len(lengths.prompts) * config.rollout.group
    seconds = {
        "sampling": sampling.seconds,
        "training": lengths.trained * config.optim.epochs * share * train.seconds,
        "optimiser": config.optim.updates * step_seconds(config, device, weights) / max(1, config.ranks),
        "records": rollouts * PER_ROLLOUT,
        "weights to the engine": 2 * masters / device.bandwidth
        + 2 * trained_model.cost(lambda policy: probing(policy, device)).seconds,
    }
    if lengths.program is not None:
        seconds["programs"] = lengths.beside(rollouts)
    if with_reference:
        prompts = read_by_reference(lengths.prompts, row)
        reference_sequences = texts(prompts, lengths.conversations(config.rollout.group), lengths.conversation)
        scored = reference.cost(lambda policy: scoring(policy.unadapted, reference_sequences, device, micro_batch=size))
        seconds["reference"] = share * scored.seconds
    if Need.VALUES in row.asks:
        seconds["critic"] = seconds["training"] + seconds["optimiser"]
    if config.optim.updates > 1 and (device.name != "cpu" or apart(config)):
        scored = trained_model.cost(lambda policy: scoring(policy, sequences, device, micro_batch=size))
        seconds["scoring before the first update"] = share * scored.seconds
    state = rank_memory(config, learner, sequences) if config.ranks else whole_memory(config, learner)
    stepping = step_bytes(config, device, weights)
    if not config.ranks:  # Every thread that has a micro-batch holds its activations and a gradient.
        at_once = min(lanes(config, device), micro_batch_counts(config, sequences)[0])
        train = train.times(at_once, masters if at_once > 1 else 0.0)
    train = replace(train, peak=max(train.peak, stepping, sum_memory(learner) if config.ranks else 0.0))
    if with_reference:
        of_reference = bytes_of(reference.whole.model.parameters()) / max(1, config.ranks)
        state["reference"] = 0.0 if learner.adapter and not config.policy.reference else of_reference
    if Need.VALUES in row.asks:
        moments = adam_bytes(config, weights) / max(1, config.ranks)
        state["critic"] = state["weights"] + state["gradients"] + moments
    engine = {"engine weights": engines(config) * engine_bytes(config, learner, sampler)}
    others = opponents(config, sampler)
    always: dict[str, float] = {"weights of open steps": held_versions(config, device) * masters}
    placement = config.placement
    if placement.engine is EngineKind.VLLM and not placement.samplers:  # The opponent's engine is in the run's process.
        always |= others
    else:
        engine |= others
    largest = max(sampling, held_out, *sets.values(), key=attrgetter("peak"))
    where = assign(config, device, state, engine, always, largest, train)
    return Plan(
        device=device,
        lengths=lengths,
        parameters=sum(value.numel() for value in learner.model.parameters() if value.dtype.is_floating_point)
        - (sum(value.numel() for value in learner.masters.parameters.values()) if learner.adapter else 0),
        trained=sum(value.numel() for value in weights),
        memory=some(where.run),
        learner=some(where.beside),
        sampler=some(where.sampler),
        samplers=config.placement.samplers or vllm_gpus(config),
        sleeps=config.engine.sleep,
        own_gpus=bool(vllm_gpus(config)),
        together=own_machine(config, device),
        ranks=config.ranks,
        served=config.placement.learner is LearnerPlace.SERVER,
        apart=config.placement.learner is LearnerPlace.CLUSTER,
        micro_batches=micro_batch_counts(config, sequences)[0],
        phase=where.phase,
        seconds=seconds,
        evaluation=held_out.seconds + lengths.beside(len(lengths.held_out) * config.eval.samples),
        tokens=round(rollouts * lengths.calls * lengths.reply),
        steps=config.budget.steps,
        evaluations=times(config, config.eval.every),
        sets={
            name: SetPlan(
                seconds=cost.seconds + lengths.beside(len(lengths.sets[name]) * config.eval.sets[name].samples),
                evaluations=times(config, config.eval.sets[name].every),
            )
            for name, cost in sets.items()
        },
    )


def some(memory: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in memory.items() if value}


def held_versions(config: RunConfig, device: Device) -> int:
    """Copies of what is trained that the device of the run holds for engines: one per step in progress.

    Samplers in a cluster read theirs from the memory of the run's machine, and so does every engine of a learner in
    several processes.
    """
    if config.placement.samplers:
        copies = config.ahead + 1 if config.rollout.in_flight else engines(config)
        return copies if device.name == "cpu" else 0
    return engines(config) - 1 if device.name == "cpu" or not config.ranks else 0


def opponents(config: RunConfig, sampler: Policy) -> dict[str, float]:
    """Bytes of the opponent's engines, and of the earlier versions that they load; empty where there is no opponent."""
    if not config.players.opponent:
        return {}
    if config.players.opponent != "past":
        folder, precision = described(config.players.opponent), make_precision(config).alone
        return {"opponents": engines(config) * bytes_of(meta_policy(folder, precision).model.parameters())}
    own = bytes_of(sampler.model.parameters())
    past = config.players.keep * bytes_of(sampler.masters.parameters.values())
    return {"opponents": engines(config) * own + past}


def layout_of(config: RunConfig, device: Device) -> Whole:
    """The attention of the learner on the device, as `attention_of` chooses it there."""
    attention = config.policy.attention
    if attention == "auto" and device.name != "cpu" and config.policy.device != "cpu":
        models = [described(path) for path in (config.policy.path, config.policy.reference) if path]
        attention = "flex" if all(map(fits_flex, models)) else "exact"
    return PlannedFlex if attention not in ("auto", "exact") else Packed


def trainable(config: RunConfig, whole: Whole, layers: int = 0) -> Policy:
    """The policy that a learner trains, without numbers. Args: layers: 0 for all.

    Raises: ModelError E340 for a model that computes by transformers' own forward alone.
    """
    folder = described(config.policy.path)
    if not packs(folder):
        raise ModelError(
            "E340",
            f"the passes of {table(folder / 'config.json').get('model_type')} cannot be counted",
            where=f"policy.path={config.policy.path}",
            why="they are computed by transformers' own forward, which reads the values of tensors",
            fix="run one step, which reports its time and memory: gnomon train … steps=1",
        )
    return sparing(config, meta_policy(folder, make_precision(config), make_adapter(config, True), layers, whole))


def times(config: RunConfig, every: int) -> int:
    """How often a run evaluates: every so many steps, and after the last."""
    return -(-config.budget.steps // every) + 1


def read_by_reference(prompts: Sequence[int], row: Objective) -> list[int]:
    """Tokens of the prompts that the reference reads: with a solved example of the task, about twice as many."""
    return [(1 + (Need.SOLUTION in row.asks)) * tokens for tokens in prompts]


def whole_memory(config: RunConfig, policy: Policy) -> dict[str, float]:
    """Bytes of a learner in one process by part, without activations."""
    optimizer = state_bytes(config, policy.masters.parameters.values())
    masters, own = bytes_of(policy.masters.parameters.values()), bytes_of(policy.model.parameters())
    copies = masters if policy.precision.rounds and not policy.adapter else 0.0
    return {"weights": own + copies, "gradients": masters, "optimiser": optimizer}


def sampling_cost(
    config: RunConfig, model: Deep, prompts: Sequence[int], group: int, reply: int, device: Device
) -> Cost:
    """Sampling of some prompts by the run's engine, or by each of its samplers."""
    some, times = episodes_at_once(config, prompts, group)
    if own_machine(config, device):
        times *= max(1.0, max(1, config.placement.samplers) * config.threads / (os.cpu_count() or 1))
    if config.placement.engine is EngineKind.VLLM:
        cost = by_vllm(config, model.whole, some, group, reply, device)
    else:
        at_once = lanes(config, device)
        some, group = (some[::at_once], group) if len(some) >= at_once else (some, -(-group // at_once))
        cost = model.cost(lambda policy: decoding(policy, some, group, reply, device, config.rollout.max_tokens))
        cost = cost.times(at_once)
    return replace(cost, seconds=times * cost.seconds)


def played(
    config: RunConfig, model: Deep, lengths: Lengths, prompts: Sequence[int], group: int, device: Device
) -> Cost:
    """Sampling of all replies of some episodes. The prompts of a program's later calls are its own."""
    cost = sampling_cost(config, model, prompts, lengths.conversations(group), lengths.reply, device)
    program = lengths.program
    if program is None:
        return cost
    own = [program.grown(prompt, lengths.reply) for prompt in prompts for _ in range(lengths.conversations(group))]
    last = sampling_cost(config, model, own, 1, lengths.reply, device)
    return replace(max(cost, last, key=attrgetter("peak")), seconds=program.turns * (cost.seconds + last.seconds) / 2)


def by_vllm(config: RunConfig, policy: Policy, prompts: Sequence[int], group: int, reply: int, device: Device) -> Cost:
    """vLLM decodes from CUDA graphs: what bounds it is the reading of weights, keys and values, or the products."""
    settings = policy.model.config
    weights = bytes_of(policy.model.parameters())
    size = getattr(settings, "head_dim", None) or settings.hidden_size // settings.num_attention_heads
    heads = getattr(settings, "num_key_value_heads", None) or settings.num_attention_heads
    per_token = 2 * settings.num_hidden_layers * heads * size * policy.precision.compute.itemsize
    rows, length = len(prompts) * group, sum(prompts) / len(prompts) + reply
    cache = rows * length * per_token
    products = 2 * (weights / policy.precision.compute.itemsize) / device.rate(policy.precision.compute)
    step = max((weights + cache / 2) / device.bandwidth, rows * products)
    return Cost(
        seconds=(reply * step + sum(prompts) * products) / max(1, vllm_gpus(config)),
        peak=(config.engine.cache_gib * GIB or cache) + VLLM_SPARE,
        kept=config.engine.cache_gib * GIB or cache,
    )


def engine_bytes(config: RunConfig, learner: Policy, sampler: Policy) -> float:
    """Of the weights that an engine holds alone."""
    beside = config.ranks or config.placement.learner is LearnerPlace.SERVER
    shared = (
        learner.adapter and config.placement.engine is EngineKind.EMBEDDED and not numbers_differ(config) and not beside
    )
    return bytes_of((sampler.state() if shared else dict(sampler.model.named_parameters())).values())
