"""Messages between an engine and its worker: a JSON object and arrays of numbers. Standard library only.

A frame is two lengths (little-endian, 4 bytes for the object and 8 for the arrays), the object, and the arrays end to
end. The object's `arrays` lists the name, type code and length of each.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Mapping
from socket import socket
from typing import Any

__all__ = ["Arrays", "Message", "receive", "send"]

Message = dict[str, Any]
Arrays = dict[str, "array[Any]"]
HEAD = struct.Struct("<IQ")


def send(channel: socket, message: Mapping[str, Any], arrays: Mapping[str, array[Any]] | None = None) -> None:
    """Write a frame. One thread at a time may write."""
    payload = arrays or {}
    parts = [[name, values.typecode, len(values)] for name, values in payload.items()]
    head = json.dumps({**message, "arrays": parts}).encode()
    body = b"".join(values.tobytes() for values in payload.values())
    channel.sendall(HEAD.pack(len(head), len(body)) + head + body)


def receive(channel: socket) -> tuple[Message, Arrays]:
    """Read a frame. Raises: EOFError when the other side has gone."""
    size, rest = HEAD.unpack(exactly(channel, HEAD.size))
    message = json.loads(exactly(channel, size))
    body, offset, arrays = exactly(channel, rest), 0, Arrays()
    for name, code, length in message.pop("arrays"):
        arrays[name] = array(code)
        end = offset + length * arrays[name].itemsize
        arrays[name].frombytes(body[offset:end])
        offset = end
    return message, arrays


def exactly(channel: socket, size: int) -> bytes:
    buffer = bytearray(size)
    view, offset = memoryview(buffer), 0
    while offset < size:
        try:
            count = channel.recv_into(view[offset:])
        except ConnectionError as error:
            raise EOFError("the other side has gone") from error
        if not count:
            raise EOFError("the other side has gone")
        offset += count
    return bytes(buffer)
