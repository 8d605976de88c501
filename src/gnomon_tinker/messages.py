"""The messages of the Tinker API that are protobuf: a pass over data, its results, and samples.

Source: the SDK, tinker 0.38.0 (`tinker.proto.tinker_public_pb2`), whose field numbers these are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.types import Completion, Finish
from gnomon_tinker.protobuf import encode_field, fields, number, text

__all__ = ["Example", "Pass", "read_pass", "written_pass", "written_samples"]

FLOAT32, INT64 = 1, 2
"""Types of tensors."""
DTYPES = {FLOAT32: np.float32, INT64: np.int64}
Array = NDArray[np.float32] | NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One sequence: N tokens, and arrays [N] by name."""

    tokens: tuple[int, ...]
    inputs: Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A forward pass, with a backward pass or without."""

    model: str
    number: int
    """Number of the request among those of the model."""
    data: tuple[Example, ...]
    loss: str
    options: Mapping[str, float]
    forward_only: bool


def read_pass(body: bytes) -> Pass:
    """Raises: ValueError for bytes that are not this message, and for images, audio and sparse tensors."""
    found = fields(body)
    options = {}
    for entry in found[7]:
        pair = fields(as_bytes(entry))
        value = inner(inner(entry, 2), 1)
        if len(value) != 8:
            raise ValueError(f"option {text(pair[1])} is not a number")
        options[text(pair[1])] = float(struct.unpack("<d", value)[0])
    return Pass(
        model=text(found[1]),
        number=number(found[2]),
        data=tuple(read_example(as_bytes(each)) for each in found[3]),
        loss=text(found[4]),
        options=options,
        forward_only=bool(number(found[6])),
    )


def read_example(body: bytes) -> Example:
    found, tokens = fields(body), list[int]()
    for chunk in found[1]:
        if not fields(as_bytes(chunk))[1]:
            raise ValueError("only text can be trained on")
        tokens += np.frombuffer(inner(inner(chunk, 1), 1), dtype="<i4").tolist()
    inputs = {}
    for entry in found[2]:
        pair = fields(as_bytes(entry))
        inputs[text(pair[1])] = read_tensor(inner(entry, 2))
    return Example(tokens=tuple(tokens), inputs=inputs)


def read_tensor(body: bytes) -> Array:
    found = fields(body)
    if found[2] or number(found[3]) not in DTYPES:
        raise ValueError("tensors must be dense, of float32 or int64")
    return np.frombuffer(inner(body, 1), dtype=DTYPES[number(found[3])])


def inner(body: int | bytes, field: int) -> bytes:
    """The bytes of a field of a message; empty if the message lacks the field."""
    values = fields(as_bytes(body))[field]
    return as_bytes(values[-1]) if values else b""


def as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("not a protobuf message: it has a number where a message must be")
    return value


def written_pass(logp: Sequence[NDArray[np.float32]], metrics: Mapping[str, float]) -> bytes:
    """Log-probabilities of the targets of every example, and metrics."""
    ends = np.cumsum([0, *(4 * len(each) for each in logp)], dtype="<i8")
    joined = b"".join(each.astype("<f4").tobytes() for each in logp)
    tensor = encode_field(1, joined) + encode_field(2, ends.tobytes()) + encode_field(3, FLOAT32)
    record = encode_field(2, encode_field(1, "logprobs") + encode_field(2, tensor)) + encode_field(3, len(logp))
    body = encode_field(1, "ArrayRecord") + (encode_field(2, record) if logp else b"")
    return body + b"".join(
        encode_field(3, encode_field(1, name) + encode_field(2, value)) for name, value in metrics.items()
    )


def written_samples(completions: Sequence[Completion], prompt_logp: Sequence[float] = ()) -> bytes:
    """Args: prompt_logp: of the prompt's tokens, NaN for the first."""
    found = b""
    for each in completions:
        ended = encode_field(1, int(each.finish is Finish.LENGTH))
        tokens = encode_field(2, np.asarray(each.token_ids, dtype="<i4").tobytes())
        found += encode_field(1, ended + tokens + encode_field(3, np.asarray(each.logprobs, dtype="<f4").tobytes()))
    return found + (encode_field(2, np.asarray(prompt_logp, dtype="<f4").tobytes()) if prompt_logp else b"")
