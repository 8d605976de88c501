"""Part g: what this device reaches, beside the constants of `gnomon plan`, and plans beside runs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from plan import GPU_PAIRS, Pair, compared

from gnomon.engines.noise import Noise, sample_tokens
from gnomon.models.attention import Form
from gnomon.models.flex import Flex
from gnomon.models.packed import Packed
from gnomon.models.trie import Trie
from gnomon.plans.devices import CONTEXT, GPUS, NOISE_BYTES, PER_OPERATION, REACHED_BANDWIDTH, REACHED_FLOPS
from on_gpu.record import Record
from on_gpu.shapes import MODELS


def measure(record: Record) -> None:
    if not record.small:
        free, total = torch.cuda.mem_get_info()
        record.add("memory", total_gib=total / 2**30, in_use_gib=(total - free) / 2**30, CONTEXT_gib=CONTEXT / 2**30)
    constants(record)
    for kind in (Packed,) if record.small else (Packed, Flex):
        seconds, peak = attention(record, kind)
        record.add(f"{kind.__name__} of one row", milliseconds=1e3 * seconds, gib=peak / 2**30)
    beside_runs(record)


def constants(record: Record) -> None:
    """What is fast by the data sheet, by what is reached."""
    sheet = GPUS["h200" if "H200" in record.facts["card"] else "h100"]
    size, count = (256, 2**18) if record.small else (8192, 2**28)
    for dtype in (torch.float32, torch.bfloat16):
        left = torch.randn(size, size, device=record.device, dtype=dtype)
        rate = 2 * size**3 / timed(record, lambda left=left: left @ left)
        printed = sheet.rate(dtype) / REACHED_FLOPS
        record.add(f"products in {dtype}", tflops=rate / 1e12, reached=rate / printed, REACHED_FLOPS=REACHED_FLOPS)
    one, other = (torch.ones(count, device=record.device) for _ in range(2))
    rate = 12 * count / timed(record, lambda: one + other)
    printed = sheet.bandwidth / REACHED_BANDWIDTH
    record.add("traffic", gb_per_second=rate / 1e9, reached=rate / printed, REACHED_BANDWIDTH=REACHED_BANDWIDTH)
    empty = torch.ones(1, device=record.device)
    many = timed(record, lambda: [empty + empty for _ in range(1000)]) / 1000
    record.add("a small operation", microseconds=1e6 * many, PER_OPERATION_microseconds=1e6 * PER_OPERATION)
    rows, vocabulary = (2, 4096) if record.small else (64, 151_936)
    logp = torch.zeros(rows, vocabulary, device=record.device)
    noise = timed(record, lambda: sample_tokens(logp, [Noise(bytes([row]) * 16, vocabulary) for row in range(rows)]))
    used = noise * rate / (rows * vocabulary)
    record.add("noise", milliseconds=1e3 * noise, bytes_per_number=used, NOISE_BYTES=NOISE_BYTES)


def attention(record: Record, kind: type[Packed | Flex]) -> tuple[float, float]:
    """Seconds and bytes of the attention of one row with the heads of Qwen3-0.6B, forward and backward."""
    tokens, dtype = (128, torch.float32) if record.small else (8192, torch.bfloat16)
    layout = kind(Trie([torch.arange(tokens)]), record.device)
    query, key, value = (
        torch.randn(tokens, heads, 128, device=record.device, dtype=dtype, requires_grad=True) for heads in (16, 8, 8)
    )

    def work() -> None:
        layout.attend(0, query, key, value, Form(128**-0.5)).sum().backward()

    if record.small:
        return timed(record, work), 0.0
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    return timed(record, work), torch.cuda.max_memory_allocated() - before


def beside_runs(record: Record) -> None:
    """Peak and seconds of a step: planned, and as a run had them."""
    device = "cpu" if record.small else "h200" if "H200" in record.facts["card"] else "h100"
    small = {"shipped policy, 16 rows of 8": Pair("tiny", ("prompts=4", "group=4", "rollout.max_tokens=8"))}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) if record.small else MODELS
        for name, pair in (small if record.small else GPU_PAIRS).items():
            found = compared(pair, place, device)
            record.add(
                name, planned_gib=found.planned_peak / 2**30, gib=found.peak / 2**30,
                planned_seconds=found.planned_seconds, seconds=found.seconds,
            )  # fmt: skip


def timed(record: Record, work: Callable[[], object]) -> float:
    """Seconds of the fastest of five repetitions, after one that is not counted."""
    found = []
    for _ in range(6):
        began = time.perf_counter()
        work()
        if not record.small:
            torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return min(found[1:])
