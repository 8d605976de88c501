"""Part b: forward and backward passes of a learner, beside the table that prime-rl publishes."""

from __future__ import annotations

import gc
import time
from statistics import median
from typing import NamedTuple

import torch
from head import random_batch

from gnomon.api import configure
from gnomon.learners.local import LocalLearner
from gnomon.objectives import objective
from gnomon.run.makers import make_learner
from on_gpu.record import Record
from on_gpu.shapes import model

GIB = 2**30
FLOPS = 989e12
"""Of an H100 or H200 in bfloat16, by the data sheet: the denominator of MFU."""


class Case(NamedTuple):
    rank: int
    """Of the adapter; 0 trains all weights."""
    lengths: list[int]
    """Of the rows."""
    attention: str = "flex"
    again: bool = True
    """Whether activations are computed again."""
    published: tuple[float, float] | None = None
    """Tokens per second and GiB of prime-rl on one H100 with Qwen3-0.6B, random weights and an RL loss, activations
    computed again. Source: benchmarks/baselines of its repository, January 2026."""


LARGE = [
    Case(16, [16_384], published=(13_342, 5.1)),
    Case(16, [16_384], "cudnn", published=(13_342, 5.1)),
    Case(0, [16_384], published=(11_896, 12.5)),
    Case(0, [16_384], "cudnn", published=(11_896, 12.5)),
    Case(16, [65_536], "cudnn", published=(9_967, 11.5)),
    Case(0, [65_536], "cudnn", published=(10_147, 19.6)),
    Case(16, [512] * 32),
    Case(0, [512] * 32),
    Case(16, [512] * 128),
    Case(0, [16_384], again=False),
]
SMALL = [Case(4, [96], "exact"), Case(0, [96], "exact"), Case(0, [24] * 4, "exact")]


def measure(record: Record) -> None:
    path = model(record)
    for case in SMALL if record.small else LARGE:
        rows = f"{len(case.lengths)} x {case.lengths[0]}"
        what = f"LoRA {case.rank}" if case.rank else "all weights"
        seconds, memory, mfu = passes(record, path, case)
        speed = sum(case.lengths) / seconds
        beside: dict[str, float] = {}
        if case.published:
            beside = {"published": case.published[0], "times_as_fast": speed / case.published[0]}
            beside |= {"published_gib": case.published[1]}
        name = f"{what}, {rows}{', cudnn' if case.attention == 'cudnn' else ''}"
        name += "" if case.again else ", activations kept"
        record.add(name, tokens_per_second=speed, **memory, mfu_percent=mfu, **beside)


def passes(record: Record, path: str, case: Case, times: int = 4) -> tuple[float, dict[str, float], float]:
    """The median seconds of forward and backward, the first of which is dropped; GiB; and MFU in percent.

    The optimiser has taken a step before the last pass, so memory counts its state.
    """
    policy = {
        "path": path, "device": record.device, "dtype": "float32" if record.small else "bfloat16",
        "attention": case.attention, "activation_checkpointing": case.again, "lora": {"rank": case.rank},
    }  # fmt: skip
    config, _ = configure("countdown", {"policy": policy, "optim": {"micro_batch": sum(case.lengths)}})
    row = objective("reinforce")
    learner = make_learner(config, row)
    batch = random_batch(case.lengths, learner.policy.vocabulary, prompt=0)
    found = []
    for place in range(times):
        begin(record)
        began = time.perf_counter()
        learner.forward_backward(batch, row)
        settle(record)
        found.append(time.perf_counter() - began)
        if place < times - 1:
            learner.optim_step(1e-6)
    memory, mfu = used(record), 100 * flops(learner, case) / median(found[1:]) / FLOPS
    del learner, batch
    gc.collect()
    return median(found[1:]), memory, mfu


def begin(record: Record) -> None:
    if not record.small:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()


def settle(record: Record) -> None:
    if not record.small:
        torch.cuda.synchronize()


def used(record: Record) -> dict[str, float]:
    """GiB at the peak of the last pass: what tensors take, and what torch has reserved."""
    if record.small:
        return {}
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return {"allocated_gib": allocated / GIB, "reserved_gib": reserved / GIB}


def flops(learner: LocalLearner, case: Case) -> float:
    """Operations of a pass, as prime-rl counts them for its MFU: what is computed again does not count, attention is
    counted as if every token saw every other, and its width is that of the model."""
    shape = learner.policy.model.config
    weights = [value for value in learner.policy.model.parameters() if value.dim() == 2]
    trained = sum(value.numel() for value in learner.parameters.values())
    products = sum(value.numel() for value in weights) - (trained if case.rank else 0)
    per_token = 4 * products + 6 * trained if case.rank else 6 * products
    attention = 12 * shape.num_hidden_layers * shape.hidden_size * sum(length**2 for length in case.lengths)
    return per_token * sum(case.lengths) + attention
