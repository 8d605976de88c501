"""Devices that a run can be planned for: a table of GPUs, and this machine's CPU, measured."""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
import torch
from torch import Tensor

from gnomon.errors import ConfigError
from gnomon.objectives.spelling import nearest

__all__ = ["GPUS", "LARGE", "Device", "device"]

GIB = 2**30
REACHED_FLOPS, REACHED_BANDWIDTH = 0.6, 0.85
"""Shares of a data sheet's figures that a plan counts on. An H200 reached .86 in a large product and .89 in a sum of
large tensors. These shares were fitted to passes of a model of Qwen3-0.6B's shape."""
PER_OPERATION = 1.4e-5
"""Seconds in which a model's code and PyTorch start an operation on a GPU, fitted to the same passes; an addition alone
took 7 µs."""
PER_REPLAYED = 1.2e-6
"""The same in a pass of decoding that is replayed as a CUDA graph; fitted."""
CONTEXT = 0.5 * GIB
"""Memory of a GPU that CUDA and its libraries take; measured on an H200."""
PER_TOKEN = 5e-6
"""Seconds of the engine's own work for one sampled token; fitted to sampling on an H200."""
NOISE_BYTES = 265
"""Memory traffic of a GPU in which one number of the noise is made and read; measured on an H200."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What a device has, and how fast it is."""

    name: str
    memory: float
    """Bytes."""
    flops: Mapping[str, float]
    """Floating-point operations per second of matrix products, by dtype; what is reached, not what is printed."""
    bandwidth: float
    """Bytes per second, of tensors that fit no cache."""
    traffic: tuple[tuple[float, float], ...] = ()
    """Bytes of an operation, and bytes per second of operations of that size, in rising order; empty where all move
    `bandwidth`. Caches make small ones faster; fresh pages make large ones slower."""
    reordering: float = 0.0
    """Bytes per second in which a matrix product reads its factors and puts them into the order that it computes in; 0
    where it does so while it computes. Decoding a few rows takes hardly any other time."""
    per_large_byte: float = 0.0
    """Seconds by which a product takes longer for each byte of a factor of `LARGE` bytes or more, such as the weights
    of a large vocabulary; 0 where that time is that of its operations or of its bytes."""
    per_mapped_byte: float = 0.0
    """Seconds per byte of memory that the operating system has to map before its first use; 0 on a GPU, where PyTorch
    keeps what it has freed."""
    per_function: float = 0.0
    """Seconds of one number of a function such as the exponential, beside those of its bytes."""
    per_operation: float
    """Seconds of an operation on empty tensors."""
    per_replayed: float | None = None
    """Seconds of an operation in a pass that is replayed; None where no pass is."""
    program: float
    """Bytes that the program takes before any weights are read."""
    per_noise: float
    """Seconds of one number of the noise that a token is drawn with."""
    per_token: float
    """Seconds of the engine's work for one token beside tensor operations."""
    measured: bool
    """Whether the figures were measured here; otherwise they are a data sheet's, with assumptions."""

    def moving(self, size: float) -> float:
        """Seconds in which an operation reads and writes so many bytes."""
        if not self.traffic:
            return size / self.bandwidth
        sizes, rates = zip(*self.traffic, strict=True)
        return size / float(np.exp(np.interp(math.log(max(size, 1.0)), np.log(sizes), np.log(rates))))

    def rate(self, dtype: torch.dtype) -> float:
        """Floating-point operations per second."""
        return self.flops.get(str(dtype).removeprefix("torch."), self.flops["float32"])


def gpu(name: str, gib: float, bf16: float, fp32: float, bandwidth: float) -> Device:
    """Args: bf16, fp32: dense TFLOPs of the data sheet; bandwidth: GB/s."""
    half, reached = bf16 * 1e12 * REACHED_FLOPS, bandwidth * 1e9 * REACHED_BANDWIDTH
    return Device(
        name=name,
        memory=gib * GIB,
        flops={"bfloat16": half, "float16": half, "float32": fp32 * 1e12 * REACHED_FLOPS},
        bandwidth=reached,
        per_operation=PER_OPERATION,
        per_replayed=PER_REPLAYED,
        program=CONTEXT,
        per_noise=NOISE_BYTES / reached,
        per_token=PER_TOKEN,
        measured=False,
    )


GPUS = {
    gpu.name: gpu
    for gpu in (
        gpu("rtx3090", 24, 71, 35.6, 936),
        gpu("rtx4090", 24, 165, 82.6, 1008),
        gpu("l4", 24, 121, 30.3, 300),
        gpu("l40s", 48, 362, 91.6, 864),
        gpu("a100-40", 40, 312, 19.5, 1555),
        gpu("a100-80", 80, 312, 19.5, 2039),
        gpu("h100", 80, 989, 67, 3350),
        gpu("h200", 141, 989, 67, 4800),
    )
}
"""By name. Source: NVIDIA's data sheets, dense figures with float32 sums."""


def device(name: str, program: float, dtypes: Iterable[str] = ()) -> Device:
    """A device by its name; `cpu` is measured, which takes about a second.

    Args: for `cpu`, program: bytes that this process took before anything was made; dtypes: those whose products are
        measured beside float32. A processor without products in a dtype can take minutes for it.
    Raises: ConfigError E073 for an unknown name.
    """
    if name == "cpu":
        return this_cpu(program, dtypes)
    if name not in GPUS:
        why = f"the devices are cpu, {', '.join(GPUS)}"
        fix = f"--device {nearest(name, GPUS) or 'cpu'}"
        raise ConfigError("E073", f"unknown device {name!r}", where="--device", why=why, fix=fix)
    return GPUS[name]


def resident() -> float:
    """Bytes of this process in memory now."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def this_cpu(program: float, dtypes: Iterable[str]) -> Device:
    """This machine, with as many threads as torch has now."""
    flops = {name: product_rate(getattr(torch, name)) for name in {"float32", *dtypes}}
    return Device(
        name="cpu",
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        flops=flops,
        bandwidth=sum_rate(NUMBERS[-2]),
        traffic=tuple((12.0 * count, sum_rate(count)) for count in NUMBERS),
        reordering=reordering_rate(flops["float32"]),
        per_large_byte=large_seconds(),
        per_mapped_byte=mapping_seconds(),
        per_function=function_seconds(),
        per_operation=0.0,
        program=program,
        per_noise=noise_seconds(),
        per_token=0.0,
        measured=True,
    )


def fastest(work: Callable[[], object]) -> float:
    """Seconds of the fastest of three repetitions, after one that is not counted.

    With one thread they are processor time, so that other work on the machine counts little.
    """
    clock = process_time if torch.get_num_threads() == 1 else perf_counter
    work()
    times = []
    for _ in range(3):
        began = clock()
        work()
        times.append(clock() - began)
    return min(times)


SIZE, WEIGHTS = 1024, 16
"""Rows and columns of the weights that products are measured with, and how many of them: more than a cache holds."""


def product_seconds(rows: int, dtype: torch.dtype) -> float:
    """Mean seconds of one product with a layer's weights. Each product reads other weights, more than a cache holds."""
    factor = torch.ones(rows, SIZE, dtype=dtype)
    weights = torch.ones(WEIGHTS, SIZE, SIZE, dtype=dtype)
    return fastest(lambda: [factor @ weight for weight in weights]) / WEIGHTS


def product_rate(dtype: torch.dtype) -> float:
    """Floating-point operations per second of a product of the size of a layer's."""
    return 2 * 512 * SIZE * SIZE / product_seconds(512, dtype)


def reordering_rate(flops: float) -> float:
    """Bytes per second of the factors of a product of few rows, beside the time of its operations.

    Args: flops: operations per second of a large product.
    """
    rows = 16
    seconds = product_seconds(rows, torch.float32) - 2 * rows * SIZE * SIZE / flops
    return 4 * (SIZE * SIZE + 2 * rows * SIZE) / max(seconds, 1e-9)


LARGE = 2**27
"""Bytes of weights that hardly any cache holds."""


def large_seconds() -> float:
    """Seconds of a byte of large weights in a product of few rows, more than those of a byte of a layer's."""
    rows = 16
    factor, weights = torch.ones(rows, SIZE), torch.ones(LARGE // (4 * SIZE), SIZE)
    seconds = fastest(lambda: factor @ weights.t()) / weights.nbytes
    return max(0.0, seconds - product_seconds(rows, torch.float32) / (4 * SIZE**2))


NUMBERS = (2**14, 2**18, 2**20, 2**22, 2**24)
"""Sizes of the measured tensors."""


def sum_rate(count: int) -> float:
    """Bytes per second of the sum of two tensors of so many numbers, without that of making a tensor."""
    one, other, out, times = torch.ones(count), torch.ones(count), torch.ones(count), max(1, 2**20 // count)
    return 12 * count * times / fastest(lambda: [torch.add(one, other, out=out) for _ in range(times)])


def mapping_seconds() -> float:
    """Seconds in which the operating system maps a byte, beside those of writing it."""
    count = NUMBERS[-1]
    touched = torch.ones(count)
    return max(0.0, fastest(lambda: torch.empty(count).zero_()) - fastest(touched.zero_)) / (4 * count)


def function_seconds() -> float:
    """Seconds of the exponential of one number, more than those of its sum with another."""
    values = torch.ones(2**18)
    return max(0.0, fastest(values.exp) - fastest(lambda: values + values)) / len(values)


def noise_seconds() -> float:
    """Seconds of one number of the engine's noise."""
    from gnomon.engines.noise import Noise, sample_tokens

    vocabulary, rows = 2**15, 4
    logp: Tensor = torch.zeros(rows, vocabulary)
    noise = [Noise(np.arange(16, dtype=np.uint8).tobytes(), vocabulary) for _ in range(rows)]
    return fastest(lambda: sample_tokens(logp, noise)) / (rows * vocabulary)
