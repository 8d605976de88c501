"""Which kernels and pages torch computes with, settled before several threads compute."""

from __future__ import annotations

import ctypes
import os
import shutil
import sysconfig
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

__all__ = ["VARIANTS", "add_in_order", "compile_kernel", "compiles", "settle"]

M_ARENA_MAX = -8
"""Of malloc.h."""
VARIANTS = 128
"""How often a function may be compiled in one process: once for each dtype, and each kind of arguments."""


def settle() -> None:
    """Make the first call of MKL's vector functions (cosine, exponential, …), in one thread.

    oneMKL 2024 finds the processor's type at that call and stores it twice: as it is found, then as an index of its
    tables. A thread that reads it in between computes its part of the call with another precision: on Intel
    processors rotary positions were up to 1.5e-4 off, and log-probabilities up to 1e-3, in one start of many.

    Source: github.com/pytorch/pytorch/issues/188792.

    Before it, torch is asked for huge pages, which it asks for from its first tensor on, or never. They leave fewer
    holes between tensors: the peak of a gradient was 3.9 GiB without them and 2.7 GiB with them, for a LoRA adapter
    of a model of GPT-2's shape with 6 layers and two micro-batches of 16 rows.

    All threads take their memory from one arena of glibc. With one for each, what they have freed stays with them: a
    run of SmolLM2 with two threads took 4.2 GiB at its peak, and 2.8 GiB with one arena.

    Nor may oneDNN use the matrix units of newer Intel processors (AMX), which it does for some shapes in bfloat16: what
    a row of a product is then depends on the number of rows, by up to 5e-3 nats of a log-probability. The set of
    instructions below AMX has products in float16; with the one below that, they took 19 times as long.

    On a CUDA device cuBLAS takes a workspace of fixed size for each stream, without which two runs may differ in bits,
    and adds up products of 16 bits in float32.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    if hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_ARENA_MAX, 1)
    torch.cos(torch.zeros(1, device="cpu"))


@cache
def compiles() -> bool:
    """Whether Triton can make kernels for a CUDA device: it needs a compiler for C and the headers of Python."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return bool(find_spec("triton") and compiler and (Path(sysconfig.get_path("include")) / "Python.h").exists())


@cache
def compile_kernel(work: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors as few kernels, which hold nothing between its arguments and what it returns."""
    torch._dynamo.config.recompile_limit = max(VARIANTS, torch._dynamo.config.recompile_limit)
    return torch.compile(work, fullgraph=True)


def add_in_order() -> None:
    """Have torch add values with equal indices in their order, for this process.

    By default a gradient of `x[index]` with several threads is added by atomic operations, in the order in which the
    threads come to them: beside busy processes one run in three had other bits. Operations that have no repeatable
    form, on some devices, only warn.
    """
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # Of its module class.
