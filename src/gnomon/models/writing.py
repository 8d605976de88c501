"""A safetensors file written tensor by tensor, so that no two of them are held at once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

__all__ = ["Slot", "write"]

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
}
"""Dtypes as the format names them."""
ALIGNED = 8
"""Bytes to a multiple of which the header is filled with spaces."""

Slot = tuple[torch.dtype, tuple[int, ...]]
"""Dtype and shape of a tensor."""


def write(
    path: Path, slots: Mapping[str, Slot], tensors: Iterable[Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a file, which has its name only when it is whole.

    Args: tensors: as the slots describe them, in their order; each is dropped before the next is asked for.
    Raises: KeyError for a dtype that is not in `NAMES`.
    Source: huggingface/safetensors, README, "Format".
    """
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, (dtype, shape) in slots.items():
        start, end = end, end + dtype.itemsize * torch.Size(shape).numel()
        header[name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [start, end]}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % ALIGNED)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".writing")
    with open(fresh, "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for tensor in tensors:
            file.write(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
            del tensor
    os.replace(fresh, path)
