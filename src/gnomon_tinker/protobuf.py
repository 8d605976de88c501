"""Fields of protobuf messages, read and written by number. A message is a concatenation of fields.

Source: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

import struct
from collections import defaultdict

__all__ = ["encode_field", "fields", "number", "text"]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def fields(data: bytes) -> dict[int, list[int | bytes]]:
    """The values of every field, in order: an integer of a varint, the bytes of any other.

    Raises: ValueError for bytes that are not a message.
    """
    found, place = defaultdict[int, list[int | bytes]](list), 0
    while place < len(data):
        tag, place = varint(data, place)
        kind = tag & 7
        if kind == VARINT:
            value, place = varint(data, place)
            found[tag >> 3].append(value)
            continue
        if kind == LENGTH:
            size, place = varint(data, place)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"not a protobuf message: it has a field of wire type {kind}")
        if place + size > len(data):
            raise ValueError("not a protobuf message: it is cut off")
        found[tag >> 3].append(data[place : place + size])
        place += size
    return found


def varint(data: bytes, place: int) -> tuple[int, int]:
    """The number that begins at a place, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("not a protobuf message: it is cut off")
        byte = data[place]
        value, place = value | (byte & 127) << shift, place + 1
        if byte < 128:
            return value, place
    raise ValueError("not a protobuf message: a number is too long")


def text(values: list[int | bytes]) -> str:
    """The last text of a field; empty where it has none."""
    return bytes(values[-1]).decode() if values and isinstance(values[-1], bytes) else ""


def number(values: list[int | bytes]) -> int:
    """The last integer of a field; 0 where it has none."""
    return values[-1] if values and isinstance(values[-1], int) else 0


def encode_field(field: int, value: int | float | str | bytes) -> bytes:
    """A field: an integer as varint, a float as double, a text, or bytes."""
    if isinstance(value, float):
        return encode_varint(field << 3 | FIXED64) + struct.pack("<d", value)
    if isinstance(value, int):
        return encode_varint(field << 3 | VARINT) + encode_varint(value)
    data = value.encode() if isinstance(value, str) else value
    return encode_varint(field << 3 | LENGTH) + encode_varint(len(data)) + data


def encode_varint(value: int) -> bytes:
    """A varint. Args: value: not negative."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
