"""The plan of a run: its memory by part, its time by part, and the cost of the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnomon.config import RunConfig
from gnomon.launch.makers.engine import apart, engine_dtype
from gnomon.launch.makers.objective import full_kl, make_objective
from gnomon.launch.makers.policy import make_adapter, make_precision
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.objectives import Need
from gnomon.plans.depth import Deep
from gnomon.plans.devices import GIB, Device
from gnomon.plans.lengths import Lengths
from gnomon.plans.passes import Cost, decoding, meta_policy, probing, scoring, texts, training
from gnomon.plans.shapes import described

__all__ = ["Plan", "planned"]

ADAM_PASSES = 11
"""How often an optimiser step reads or writes as many bytes as the gradient has: AdamW 7, clipping 3, zeroing 1."""
PER_ROLLOUT = 1e-3
"""Seconds in which a rollout is rendered, sent to a worker, encoded and stored; measured with the shipped policy."""
VLLM_SPARE = 2 * GIB
"""Memory of vLLM beside weights, keys and values. Assumed."""


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
    """Bytes at the moment of a step that needs most, by part."""
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

    @property
    def peak(self) -> float:
        """Bytes."""
        return sum(self.memory.values())

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return sum(self.seconds.values())

    @property
    def hours(self) -> float:
        """Of the whole run."""
        return (self.steps * self.step + self.evaluations * self.evaluation) / 3600

    @property
    def fits(self) -> bool:
        return self.peak <= self.device.memory

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
            "step_seconds": self.step,
            "seconds": dict(self.seconds),
            "evaluation_seconds": self.evaluation,
            "tokens_per_step": self.tokens,
            "hours": self.hours,
            "fits": self.fits,
        }


def planned(config: RunConfig, device: Device, lengths: Lengths) -> Plan:
    """The plan of a run, from its settings and the `config.json` of its model."""
    folder = described(config.policy.path)
    sampling_precision = Precision.only(getattr(torch, engine_dtype(config)))

    def trainable(layers: int) -> Policy:
        found = meta_policy(folder, make_precision(config), make_adapter(config, True), layers)
        if config.policy.activation_checkpointing:
            found.checkpoint_activations()
        return found

    trained_model = Deep(trainable)
    sampling_model = Deep(lambda layers: meta_policy(folder, sampling_precision, make_adapter(config, True), layers))
    learner, sampler = trained_model.whole, sampling_model.whole
    row = make_objective(config)
    sequences = texts(lengths.prompts, config.rollout.group, lengths.reply)
    sampling = sampled(config, sampling_model, lengths.prompts, config.rollout.group, lengths.reply, device)
    held_out = sampled(config, sampling_model, lengths.held_out, config.eval.samples, lengths.reply, device)
    updates = config.optim.epochs
    entropy = config.regularize.entropy != 0
    train = trained_model.cost(lambda policy: training(policy, sequences, device, entropy=entropy))
    masters, own = bytes_of(learner.masters.parameters), bytes_of(dict(learner.model.named_parameters()))
    trained = sum(value.numel() for value in learner.masters.parameters.values())
    seconds = {
        "sampling": sampling.seconds,
        "training": lengths.trained * updates * train.seconds,
        "optimiser": config.optim.updates * ADAM_PASSES * masters / device.bandwidth,
        "records": len(sequences) * PER_ROLLOUT,
        "weights to the engine": 2 * masters / device.bandwidth
        + 2 * trained_model.cost(lambda policy: probing(policy, device)).seconds,
    }
    engines = config.rollout.lag + 1
    memory = {
        "program": device.program,
        "weights": own + (masters if learner.precision.rounds and not learner.adapter else 0),
        "gradients": masters,
        "optimiser": 2 * masters,
        "engine weights": engines * engine_bytes(config, learner, sampler),
    }
    if row.needs_reference or full_kl(config):
        seconds["reference"] = sampling_model.cost(lambda policy: scoring(policy.unadapted, sequences, device)).seconds
        memory["reference"] = 0.0 if learner.adapter else bytes_of(dict(sampler.model.named_parameters()))
    if Need.VALUES in row.asks:
        seconds["critic"] = seconds["training"] + seconds["optimiser"]
        memory["critic"] = memory["weights"] + 3 * masters
    if config.optim.updates > 1 and (device.name != "cpu" or apart(config)):
        seconds["scoring before the first update"] = trained_model.cost(
            lambda policy: scoring(policy, sequences, device)
        ).seconds
    phase, more = busiest(sampling, held_out, train, together=engines > 1)
    return Plan(
        device=device,
        lengths=lengths,
        parameters=sum(value.numel() for value in learner.model.parameters() if value.dtype.is_floating_point)
        - (trained if learner.adapter else 0),
        trained=trained,
        memory={name: value for name, value in {**memory, **more}.items() if value},
        phase=phase,
        seconds=seconds,
        evaluation=held_out.seconds,
        tokens=len(lengths.prompts) * config.rollout.group * lengths.reply,
        steps=config.budget.steps,
        evaluations=-(-config.budget.steps // config.eval.every) + 1,
    )


def busiest(sampling: Cost, held_out: Cost, train: Cost, *, together: bool) -> tuple[str, dict[str, float]]:
    """The phase that needs most beside the weights, and its parts. Args: together: both phases run at once."""
    most = max(sampling, held_out, key=lambda cost: cost.peak)
    decode = {
        "keys and values": most.kept,
        "scores": most.head,
        "decoding": max(0.0, most.peak - most.kept - most.head),
    }
    if together:
        return "sampling and training", {**decode, "activations": train.peak}
    return ("training", {"activations": train.peak}) if train.peak >= most.peak else ("sampling", decode)


def sampled(config: RunConfig, model: Deep, prompts: Sequence[int], group: int, reply: int, device: Device) -> Cost:
    """Sampling of some prompts by the run's engine."""
    if config.engine.type != "vllm":
        return model.cost(lambda policy: decoding(policy, prompts, group, reply, device))
    return by_vllm(config, model.whole, prompts, group, reply, device)


def by_vllm(config: RunConfig, policy: Policy, prompts: Sequence[int], group: int, reply: int, device: Device) -> Cost:
    """vLLM decodes from CUDA graphs: what bounds it is the reading of weights, keys and values, or the products."""
    settings = policy.model.config
    weights = bytes_of(dict(policy.model.named_parameters()))
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
    every = bytes_of(dict(sampler.model.named_parameters()))
    shared = learner.adapter and config.engine.type == "embedded" and not apart(config)
    return bytes_of(sampler.state()) if shared else every


def bytes_of(state: Mapping[str, Tensor]) -> float:
    return float(sum(value.numel() * value.itemsize for value in state.values()))
