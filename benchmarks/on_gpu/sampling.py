"""Part e: the embedded engine beside the limit of the memory, and the share of time in which the GPU works."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from gnomon.engines import sample_all
from gnomon.engines.decoder import Decoder
from gnomon.keys import Key
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.plans.count import bytes_of
from gnomon.run.loops import run_to_end
from gnomon.types import Request, Sampling
from on_gpu.record import Record
from on_gpu.shapes import model

ROWS, PROMPT, REPLY = (1, 16, 256, 1024), 150, 256
PER_PROMPT = 8
"""Rows of a prompt."""


def measure(record: Record) -> None:
    from gnomon.engines.embedded import Embedded

    dtype = torch.float32 if record.small else torch.bfloat16
    policy = Policy.load(folder(record), Precision.only(dtype), record.device)
    policy.tokenizer.eos = frozenset()
    engine, bandwidth = Embedded(policy), copied(record)
    record.add("memory traffic", gb_per_second=bandwidth / 1e9)
    reply = 8 if record.small else REPLY
    for rows in (1, 4) if record.small else ROWS:
        for _ in range(2):
            asked = requests(rows, reply)
            seconds = timed(record, lambda asked=asked: run_to_end(sample_all(engine, asked)))
        # Every step reads the weights, and keys and values of every token before; rows of a prompt read those once.
        kept = per_token(policy) * (max(1, rows // PER_PROMPT) * PROMPT + rows * reply / 2)
        least = reply * (bytes_of(policy.model.parameters()) + kept) / bandwidth
        record.add(
            f"{rows} rows", tokens_per_second=rows * reply / seconds, step_milliseconds=1e3 * seconds / reply,
            limit_tokens_per_second=rows * reply / least, share_of_limit=least / seconds,
        )  # fmt: skip
    for rows in (2,) if record.small else (16, 256):
        record.add(f"replayed steps of {rows} rows", **working(record, policy, rows))


def folder(record: Record) -> str:
    from gnomon.models.folder import model_folder

    return str(model_folder(model(record)))


def requests(rows: int, reply: int) -> list[Request]:
    """Replies of one length to prompts of one length."""
    return [
        Request(
            prompt_ids=tuple(3 + (row // PER_PROMPT * 7 + place) % 90 for place in range(PROMPT)),
            key=Key(0).at("rows", number=row).bytes,
            sampling=Sampling(max_tokens=reply, temperature=1.0),
        )
        for row in range(rows)
    ]


def per_token(policy: Policy) -> int:
    """Bytes of keys and values of a token."""
    shape = policy.model.config
    size = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
    heads = getattr(shape, "num_key_value_heads", None) or shape.num_attention_heads
    return 2 * shape.num_hidden_layers * heads * size * policy.precision.compute.itemsize


def working(record: Record, policy: Policy, rows: int, steps: int = 20) -> dict[str, float]:
    """Milliseconds of a step by the clock, and those in which the device computes: the sum of its kernels' times."""
    decoder = Decoder(policy)
    for request in requests(rows, 64):
        decoder.admit(request)
    for _ in range(6):  # A prompt, a pass of its shape, the captured one, and replays.
        decoder.step()
    steps = 3 if record.small else steps
    seconds = timed(record, lambda: [decoder.step() for _ in range(steps)]) / steps
    activity = ProfilerActivity.CPU if record.small else ProfilerActivity.CUDA
    with profile(activities=[activity]) as traced:
        for _ in range(steps):
            decoder.step()
    times = (
        each.self_cpu_time_total if record.small else each.self_device_time_total for each in traced.key_averages()
    )
    busy = sum(times) / 1e6 / steps
    replayed = decoder._replay.count if decoder._replay else 0
    return {
        "step_milliseconds": 1e3 * seconds, "gpu_milliseconds": 1e3 * busy, "share": busy / seconds,
        "replayed": replayed,
    }  # fmt: skip


def timed(record: Record, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    if not record.small:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def copied(record: Record) -> float:
    """Bytes per second that a large sum reads and writes."""
    count = 2**18 if record.small else 2**28
    one, other = (torch.ones(count, device=record.device) for _ in range(2))
    one.add_(other)
    return 12 * count / min(timed(record, lambda: one.add_(other)) for _ in range(5))
