"""Writing the newest token of every row into the tables of keys and values, by one Triton kernel on a CUDA device.

torch's own operation sorts the places where it must be repeatable, though no two rows share one.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor

__all__ = ["write"]


@triton.jit  # type: ignore[misc,untyped-decorator,unused-ignore]
def put(keys, values, key_table, value_table, positions, heads, length, size, key_row, key_head, value_row, value_head, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def,unused-ignore]  # fmt: skip  # noqa: E501
    """One head of one row."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    lane = tl.arange(0, BLOCK)
    inside = lane < size
    to = ((row * heads + head) * length + tl.load(positions + row)) * size + lane
    tl.store(key_table + to, tl.load(keys + row * key_row + head * key_head + lane, mask=inside), mask=inside)
    tl.store(value_table + to, tl.load(values + row * value_row + head * value_head + lane, mask=inside), mask=inside)


def write(key_table: Tensor, value_table: Tensor, positions: Tensor, keys: Tensor, values: Tensor) -> None:
    """Put one token, [B, kv_heads, size] with numbers of a head side by side, at a place of each of the first slots.

    Args: key_table, value_table: [slots, kv_heads, places, size], contiguous.
    """
    _, heads, length, size = key_table.shape
    with torch.cuda.device_of(keys):  # type: ignore[no-untyped-call]
        put[(len(positions), heads)](
            keys, values, key_table, value_table, positions, heads, length, size,
            keys.stride(0), keys.stride(1), values.stride(0), values.stride(1), BLOCK=triton.next_power_of_2(size),
        )  # fmt: skip
