"""The plan of a run: its memory by part, its time by part, and the cost of the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from gnomon.config import RunConfig
from gnomon.config.tinker import TINKER
from gnomon.errors import ConfigError
from gnomon.launch.makers.engine import apart, engine_dtype
from gnomon.launch.makers.objective import full_kl, make_objective
from gnomon.launch.makers.policy import make_adapter, make_precision
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.objectives import Need, Objective
from gnomon.plans.depth import Deep
from gnomon.plans.devices import GIB, Device
from gnomon.plans.lengths import Lengths
from gnomon.plans.passes import Cost, decoding, meta_policy, probing, scoring, texts, training
from gnomon.plans.shapes import described
from gnomon.plans.spread import bytes_of, micro_batch_counts, rank_memory, share_of_time, sum_memory

__all__ = ["Plan", "planned"]

ADAM_PASSES = 11
"""How often an optimiser step reads or writes as many bytes as the gradient has: AdamW 7, clipping 3, zeroing 1."""
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
    """Bytes of every device that only trains, by part: a server's, or that of each further process. Empty for none."""
    ranks: int
    served: bool
    """Whether the learner is on a server."""
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
    def most(self) -> float:
        """Bytes of the device that needs most."""
        return max(self.peak, sum(self.learner.values()))

    @property
    def devices(self) -> int:
        """Devices that the run keeps busy."""
        ranks = max(1, self.ranks) if self.device.name != "cpu" else 1
        return ranks + self.served

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
            "ranks": self.ranks,
            "devices": self.devices,
            "step_seconds": self.step,
            "seconds": dict(self.seconds),
            "evaluation_seconds": self.evaluation,
            "sets": {name: asdict(each) for name, each in self.sets.items()},
            "tokens_per_step": self.tokens,
            "hours": self.hours,
            "fits": self.fits,
        }


def planned(config: RunConfig, device: Device, lengths: Lengths) -> Plan:
    """The plan of a run, from its settings and the `config.json` of its model.

    Raises: ConfigError E073 for a run on the Tinker service, whose machines are not known.
    """
    if config.learner.startswith(TINKER):
        what, fix = "a run on the Tinker service cannot be planned", "learner=local engine=embedded"
        raise ConfigError("E073", what, where="learner", why="its machines are not known", fix=fix)
    folder = described(config.policy.path)
    sampling_precision = Precision.only(getattr(torch, engine_dtype(config)))

    def trainable(layers: int) -> Policy:
        found = meta_policy(folder, make_precision(config), make_adapter(config, True), layers)
        if config.policy.activation_checkpointing:
            found.checkpoint_activations()
        return found

    trained_model = Deep(trainable)
    sampling_model = Deep(lambda layers: meta_policy(folder, sampling_precision, make_adapter(config, True), layers))
    reference = sampling_model
    if config.policy.reference:
        teacher = described(config.policy.reference)
        reference = Deep(lambda layers: meta_policy(teacher, sampling_precision, None, layers))
    learner, sampler = trained_model.whole, sampling_model.whole
    row = make_objective(config)
    sequences = texts(lengths.prompts, config.rollout.group, lengths.reply)
    sampling = sampled(config, sampling_model, lengths.prompts, config.rollout.group, lengths.reply, device)
    held_out = sampled(config, sampling_model, lengths.held_out, config.eval.samples, lengths.reply, device)
    sets = {
        name: sampled(config, sampling_model, prompts, config.eval.sets[name].samples, lengths.reply, device)
        for name, prompts in lengths.sets.items()
    }
    entropy, size = config.regularize.entropy != 0, config.optim.micro_batch
    train = trained_model.cost(lambda policy: training(policy, sequences, device, entropy=entropy, micro_batch=size))
    masters, share = bytes_of(learner.masters.parameters.values()), share_of_time(config, sequences, device)
    asked = row.needs_reference or full_kl(config)
    seconds = {
        "sampling": sampling.seconds,
        "training": lengths.trained * config.optim.epochs * share * train.seconds,
        "optimiser": config.optim.updates * ADAM_PASSES * masters / max(1, config.ranks) / device.bandwidth,
        "records": len(sequences) * PER_ROLLOUT,
        "weights to the engine": 2 * masters / device.bandwidth
        + 2 * trained_model.cost(lambda policy: probing(policy, device)).seconds,
    }
    if asked:
        read = texts(read_by_reference(lengths.prompts, row), config.rollout.group, lengths.reply)
        scored = reference.cost(lambda policy: scoring(policy.unadapted, read, device, micro_batch=size))
        seconds["reference"] = share * scored.seconds
    if Need.VALUES in row.asks:
        seconds["critic"] = seconds["training"] + seconds["optimiser"]
    if config.optim.updates > 1 and (device.name != "cpu" or apart(config)):
        scored = trained_model.cost(lambda policy: scoring(policy, sequences, device, micro_batch=size))
        seconds["scoring before the first update"] = share * scored.seconds
    state = rank_memory(config, learner, sequences) if config.ranks else whole_memory(learner)
    train = replace(train, peak=max(train.peak, sum_memory(learner) if config.ranks else 0.0))
    if asked:
        of_reference = bytes_of(reference.whole.model.parameters()) / max(1, config.ranks)
        state["reference"] = 0.0 if learner.adapter and not config.policy.reference else of_reference
    if Need.VALUES in row.asks:
        state["critic"] = state["weights"] + 3 * masters
    engines = 1 if config.rollout.in_flight else config.rollout.lag + 1
    weights = engines * engine_bytes(config, learner, sampler)
    phase, memory, beside = places(
        config, device, state, weights, max(sampling, held_out, *sets.values(), key=peak_of), train
    )
    return Plan(
        device=device,
        lengths=lengths,
        parameters=sum(value.numel() for value in learner.model.parameters() if value.dtype.is_floating_point)
        - (sum(value.numel() for value in learner.masters.parameters.values()) if learner.adapter else 0),
        trained=sum(value.numel() for value in learner.masters.parameters.values()),
        memory={name: value for name, value in memory.items() if value},
        learner={name: value for name, value in beside.items() if value},
        ranks=config.ranks,
        served=config.learner.startswith("http"),
        micro_batches=micro_batch_counts(config, sequences)[0],
        phase=phase,
        seconds=seconds,
        evaluation=held_out.seconds,
        tokens=len(lengths.prompts) * config.rollout.group * lengths.reply,
        steps=config.budget.steps,
        evaluations=times(config, config.eval.every),
        sets={
            name: SetPlan(seconds=cost.seconds, evaluations=times(config, config.eval.sets[name].every))
            for name, cost in sets.items()
        },
    )


def times(config: RunConfig, every: int) -> int:
    """How often a run evaluates: every so many steps, and after the last."""
    return -(-config.budget.steps // every) + 1


def read_by_reference(prompts: Sequence[int], row: Objective) -> list[int]:
    """Tokens of the prompts that the reference reads: with a solved example of the task, about twice as many."""
    return [(1 + (Need.SOLUTION in row.asks)) * tokens for tokens in prompts]


def whole_memory(policy: Policy) -> dict[str, float]:
    """Bytes of a learner in one process by part, without activations."""
    masters, own = bytes_of(policy.masters.parameters.values()), bytes_of(policy.model.parameters())
    copies = masters if policy.precision.rounds and not policy.adapter else 0.0
    return {"weights": own + copies, "gradients": masters, "optimiser": 2 * masters}


def places(
    config: RunConfig, device: Device, state: Mapping[str, float], engine: float, sampling: Cost, train: Cost
) -> tuple[str, dict[str, float], dict[str, float]]:
    """Where the memory lies.

    Args: state: bytes of one process of the learner, by part; engine: bytes of its weights.
    Returns: the phase that needs most; the memory there of the device of the run, by part; and that of the device that
        only trains, which is the server's or that of any further process, or empty.
    """
    decode = {
        "engine weights": engine,
        "keys and values": sampling.kept,
        "scores": sampling.head,
        "decoding": max(0.0, sampling.peak - sampling.kept - sampling.head),
    }
    ranks, cpu = config.ranks, device.name == "cpu"
    processes = ranks if ranks and cpu else 1
    state = {name: processes * size for name, size in state.items()}
    train = replace(train, peak=processes * train.peak)
    alone = {"program": device.program, **state, "activations": train.peak}
    if config.learner.startswith("http"):
        return "sampling", {"program": device.program, **decode}, alone
    phase, more = busiest(decode, train, together=config.rollout.lag > 0 or bool(ranks and not cpu))
    program = device.program * (2 if ranks else 1)
    memory = {"program": program, **state, "engine weights": engine, **more}
    return phase, memory, alone if ranks > 1 and not cpu else {}


def busiest(decode: Mapping[str, float], train: Cost, *, together: bool) -> tuple[str, dict[str, float]]:
    """The phase that needs most beside the weights, and its parts. Args: together: both phases run at once."""
    passing = {name: size for name, size in decode.items() if name != "engine weights"}
    if together:
        return "sampling and training", {**passing, "activations": train.peak}
    if train.peak >= sum(passing.values()):
        return "training", {"activations": train.peak}
    return "sampling", passing


def peak_of(cost: Cost) -> float:
    return cost.peak


def sampled(config: RunConfig, model: Deep, prompts: Sequence[int], group: int, reply: int, device: Device) -> Cost:
    """Sampling of some prompts by the run's engine."""
    if config.engine.type != "vllm":
        return model.cost(lambda policy: decoding(policy, prompts, group, reply, device))
    return by_vllm(config, model.whole, prompts, group, reply, device)


def by_vllm(config: RunConfig, policy: Policy, prompts: Sequence[int], group: int, reply: int, device: Device) -> Cost:
    """vLLM decodes from CUDA graphs: what bounds it is the reading of weights, keys and values, or the products."""
    settings = policy.model.config
    weights = bytes_of(policy.model.parameters())
    size = getattr(settings, "head_dim", None) or settings.hidden_size // settings.num_attention_heads
    per_token = 2 * settings.num_hidden_layers * settings.num_key_value_heads * size * policy.precision.compute.itemsize
    rows, length = len(prompts) * group, sum(prompts) / len(prompts) + reply
    kept = rows * length * per_token
    products = 2 * (weights / policy.precision.compute.itemsize) / device.rate(policy.precision.compute)
    step = max((weights + kept / 2) / device.bandwidth, rows * products)
    return Cost(
        seconds=reply * step + sum(prompts) * products,
        peak=(config.engine.cache_gib * GIB or kept) + VLLM_SPARE,
        kept=config.engine.cache_gib * GIB or kept,
    )


def engine_bytes(config: RunConfig, learner: Policy, sampler: Policy) -> float:
    """Of the weights that an engine holds alone."""
    beside = config.ranks or config.learner.startswith("http")
    shared = learner.adapter and config.engine.type == "embedded" and not apart(config) and not beside
    return bytes_of((sampler.state() if shared else dict(sampler.model.named_parameters())).values())
