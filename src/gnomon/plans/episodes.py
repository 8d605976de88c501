"""What it costs to play episodes: those of a step, of an evaluation and of every evaluation set."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from gnomon.config import RunConfig
from gnomon.config.placement import EngineKind
from gnomon.models.policy import Policy
from gnomon.plans.count import bytes_of
from gnomon.plans.depth import Deep
from gnomon.plans.devices import GIB, Device
from gnomon.plans.lengths import Lengths
from gnomon.plans.passes import Cost, decoding
from gnomon.plans.places import episodes_at_once, own_machine, vllm_gpus
from gnomon.plans.states import lanes
from gnomon.plans.subject import Subject

__all__ = ["Episodes", "episodes_of"]

VLLM_SPARE = 2 * GIB
"""Memory of vLLM beside weights, keys and values. Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """The cost of sampling."""

    train: Cost
    """Of a step."""
    held_out: Cost
    """Of an evaluation."""
    sets: Mapping[str, Cost]
    """Of an evaluation of every set."""

    @property
    def largest(self) -> Cost:
        """The one whose peak is largest."""
        return max(self.train, self.held_out, *self.sets.values(), key=attrgetter("peak"))


def episodes_of(subject: Subject) -> Episodes:
    """The cost of all episodes of a run."""
    config, lengths = subject.config, subject.lengths

    def cost(prompts: Sequence[int], group: int) -> Cost:
        return episodes_cost(config, subject.sampler, lengths, prompts, group, subject.device)

    return Episodes(
        train=cost(lengths.prompts, config.rollout.group),
        held_out=cost(lengths.held_out, config.eval.of("").samples),
        sets={name: cost(prompts, config.eval.of(name).samples) for name, prompts in lengths.sets.items()},
    )


def episodes_cost(
    config: RunConfig, model: Deep, lengths: Lengths, prompts: Sequence[int], group: int, device: Device
) -> Cost:
    """Sampling of all replies of some episodes. The prompts of a program's later calls are its own."""
    cost = sampling_cost(config, model, prompts, lengths.conversations(group), lengths.reply, device)
    program = lengths.program
    if program is None:
        return cost
    own = [
        program.last_prompt(prompt, lengths.reply) for prompt in prompts for _ in range(lengths.conversations(group))
    ]
    last = sampling_cost(config, model, own, 1, lengths.reply, device)
    return replace(max(cost, last, key=attrgetter("peak")), seconds=program.turns * (cost.seconds + last.seconds) / 2)


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


def by_vllm(config: RunConfig, policy: Policy, prompts: Sequence[int], group: int, reply: int, device: Device) -> Cost:
    """vLLM decodes from CUDA graphs: what bounds it is the reading of weights, keys and values, or the products."""
    settings = policy.model.config
    weights = bytes_of(policy.model.parameters())
    size = getattr(settings, "head_dim", None) or settings.hidden_size // settings.num_attention_heads
    heads = getattr(settings, "num_key_value_heads", None) or settings.num_attention_heads
    latent = getattr(settings, "kv_lora_rank", None)  # vLLM keeps what keys and values are computed from.
    numbers = latent + settings.qk_rope_head_dim if latent else 2 * heads * size
    per_token = settings.num_hidden_layers * numbers * policy.precision.compute.itemsize
    rows, length = len(prompts) * group, sum(prompts) / len(prompts) + reply
    cache = rows * length * per_token
    products = 2 * (weights / policy.precision.compute.itemsize) / device.rate(policy.precision.compute)
    step = max((weights + cache / 2) / device.bandwidth, rows * products)
    return Cost(
        seconds=(reply * step + sum(prompts) * products) / max(1, vllm_gpus(config)),
        peak=(config.engine.cache_gib * GIB or cache) + VLLM_SPARE,
        cache=config.engine.cache_gib * GIB or cache,
    )
