"""The numbers of `philox.uniform` by one Triton kernel on a CUDA device, and what is drawn with them by another: each
replaces about a hundred operations."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor

__all__ = ["sample_tokens", "uniform"]

BLOCK = 1024
"""Numbers of one program of the kernel."""


@triton.jit  # type: ignore[misc,untyped-decorator,unused-ignore]
def numbers(keys, starts, row, index):  # type: ignore[no-untyped-def,unused-ignore]
    """Numbers of one stream. Every element computes the four words of its counter and keeps its own."""
    at = tl.load(starts + row) + index
    zero = (at * 0).to(tl.uint64)
    a, b, c, d = ((at >> 2) + 1).to(tl.uint64), zero, zero, zero
    key = tl.load(keys + 2 * row).to(tl.uint64, bitcast=True) + zero
    other = tl.load(keys + 2 * row + 1).to(tl.uint64, bitcast=True) + zero
    for _ in tl.static_range(10):
        upper, right = tl.umulhi(a, zero + 0xD2E7470EE14C6C93), tl.umulhi(c, zero + 0xCA5A826395121157)
        lower, left = a * 0xD2E7470EE14C6C93, c * 0xCA5A826395121157
        a, b, c, d = right ^ b ^ key, left, upper ^ d ^ other, lower
        key, other = key + 0x9E3779B97F4A7C15, other + 0xBB67AE8584CAA73B
    lane = at & 3
    word = tl.where(lane == 0, a, tl.where(lane == 1, b, tl.where(lane == 2, c, d)))
    return (word >> 11).to(tl.int64).to(tl.float64) * 1.1102230246251565e-16


@triton.jit  # type: ignore[misc,untyped-decorator,unused-ignore]
def fill(keys, starts, out, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def,unused-ignore]
    row = tl.program_id(1).to(tl.int64)
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + row * count + index, numbers(keys, starts, row, index), mask=index < count)


@triton.jit  # type: ignore[misc,untyped-decorator,unused-ignore]
def best(keys, starts, logp, most, which, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def,unused-ignore]
    """The largest log-probability plus noise of a part of a row, and its place."""
    row = tl.program_id(1).to(tl.int64)
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    noise = -tl.log(-tl.log(tl.maximum(numbers(keys, starts, row, index), 5.551115123125783e-17)))
    total = noise + tl.load(logp + row * count + index, mask=index < count, other=-float("inf")).to(tl.float64)
    highest, at = tl.max(total, 0, return_indices=True)
    to = row * tl.num_programs(0) + tl.program_id(0)
    tl.store(most + to, highest)
    tl.store(which + to, tl.program_id(0) * BLOCK + at)


def uniform(key: Tensor, start: Tensor, count: int) -> Tensor:
    """[B, count] uniform numbers, equal to those of `philox.uniform` in every bit."""
    out = torch.empty(len(key), count, dtype=torch.float64, device=key.device)
    with torch.cuda.device_of(key):  # type: ignore[no-untyped-call]
        fill[(triton.cdiv(count, BLOCK), len(key))](key, start, out, count, BLOCK=BLOCK)
    return out


def sample_tokens(key: Tensor, start: Tensor, logp: Tensor) -> Tensor:
    """[B] of every row of log-probabilities [B, vocabulary], the place where they are largest with noise added."""
    rows, count = logp.shape
    parts = triton.cdiv(count, BLOCK)
    most = torch.empty(rows, parts, dtype=torch.float64, device=logp.device)
    which = torch.empty(rows, parts, dtype=torch.int64, device=logp.device)
    with torch.cuda.device_of(logp):  # type: ignore[no-untyped-call]
        best[(parts, rows)](key, start, logp.contiguous(), most, which, count, BLOCK=BLOCK)
    return which.gather(1, most.argmax(-1, keepdim=True))[:, 0]
