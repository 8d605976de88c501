"""The arguments and results of a learner's verbs as bytes, without pickles: reading them runs no code."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnomon.learners.base import Model, Named
from gnomon.learners.batch import Batch, TokenSequence
from gnomon.models.weights import Kind, WeightsRef
from gnomon.objectives import Coefficients, Denominators, Rollouts
from gnomon.stats import At, Max, Mean, Quantile, Sum

__all__ = ["dumps", "loads"]

CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        At,
        Batch,
        Coefficients,
        Denominators,
        Max,
        Mean,
        Named,
        Quantile,
        Rollouts,
        TokenSequence,
        Sum,
        WeightsRef,
    )
}
ENUMS: dict[str, Any] = {kind.__name__: kind for kind in (Kind, Model)}
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.uint8)
}
HEAD = 8
"""Bytes of the length of the head, little-endian."""


def dumps(value: Any) -> bytes:
    """A value as bytes: a head in JSON, and the elements of all its tensors.

    Raises: TypeError for an object that is neither a plain value nor one of the classes of a learner's verbs.
    """
    tensors: list[Tensor] = []
    tree = encode(value, tensors)
    shapes = [[str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for tensor in tensors]
    head = json.dumps({"value": tree, "tensors": shapes}).encode()
    parts = [tensor.flatten().view(torch.uint8).numpy().tobytes() for tensor in tensors]
    return b"".join([len(head).to_bytes(HEAD, "little"), head, *parts])


def loads(data: bytes) -> Any:
    """The value again. Raises: ValueError for bytes that `dumps` did not make."""
    try:
        end = HEAD + int.from_bytes(data[:HEAD], "little")
        head = json.loads(data[HEAD:end])
        tensors = []
        for name, shape in head["tensors"]:
            dtype, size = DTYPES[name], torch.Size(shape)
            start, end = end, end + size.numel() * dtype.itemsize
            if len(data) < end:
                raise ValueError("it is cut off")
            flat = torch.frombuffer(bytearray(data[start:end]), dtype=torch.uint8) if end > start else None
            tensors.append(torch.zeros(size, dtype=dtype) if flat is None else flat.view(dtype).reshape(size))
        return decode(head["value"], tensors)
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError, RuntimeError) as error:
        raise ValueError(f"not a message of a learner: {error}") from error


def encode(value: Any, tensors: list[Tensor]) -> Any:
    """A value as JSON has it. Args: tensors: takes its tensors."""
    match value:
        case Enum():
            return {"enum": type(value).__name__, "value": value.value}
        case None | bool() | int() | float() | str():
            return value
        case Tensor():
            tensors.append(value.detach().cpu().contiguous())
            return {"tensor": len(tensors) - 1}
        case np.ndarray():
            tensors.append(torch.from_numpy(value).contiguous())
            return {"array": len(tensors) - 1}
        case array():
            return {"numbers": value.typecode, "values": value.tolist()}
        case tuple():
            return {"tuple": [encode(part, tensors) for part in value]}
        case list():
            return [encode(part, tensors) for part in value]
        case Mapping():
            return {"map": [[encode(key, tensors), encode(part, tensors)] for key, part in value.items()]}
    if is_dataclass(value) and CLASSES.get(type(value).__name__) is type(value):
        parts = {field.name: encode(getattr(value, field.name), tensors) for field in fields(value)}
        return {"class": type(value).__name__, "fields": parts}
    raise TypeError(f"a {type(value).__name__} cannot be sent to a learner")


def decode(tree: Any, tensors: list[Tensor]) -> Any:
    if isinstance(tree, list):
        return [decode(part, tensors) for part in tree]
    if not isinstance(tree, dict):
        return tree
    match tree:
        case {"enum": kind, "value": value}:
            return ENUMS[kind](value)
        case {"tensor": index}:
            return tensors[index]
        case {"array": index}:
            return tensors[index].numpy()
        case {"numbers": code, "values": values}:
            return array(code, values)
        case {"tuple": parts}:
            return tuple(decode(part, tensors) for part in parts)
        case {"map": pairs}:
            return {decode(key, tensors): decode(part, tensors) for key, part in pairs}
        case {"class": kind, "fields": parts}:
            return CLASSES[kind](**{name: decode(part, tensors) for name, part in parts.items()})
    raise ValueError(f"not a message of a learner: {sorted(tree)}")
