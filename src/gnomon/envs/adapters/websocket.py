"""A client of WebSocket text messages (RFC 6455): no extensions, no fragments of ours, and an end to every wait."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import ssl
import struct
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

__all__ = ["Closed", "WebSocket"]

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MESSAGE = 2**24
"""Bytes that a message may have."""
HEAD = 2**16
"""Bytes that the answer to the handshake may have."""
CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class Closed(ConnectionError):
    """The other end closed the connection, or does not speak the protocol."""


class WebSocket:
    """An open connection. Args: seconds: longest wait for any piece of it."""

    def __init__(self, url: str, *, seconds: float = 60.0, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        secure = parts.scheme in ("wss", "https")
        port = parts.port or (443 if secure else 80)
        host = parts.hostname or ""
        self._socket = socket.create_connection((host, port), seconds)
        try:
            if secure:
                self._socket = ssl.create_default_context().wrap_socket(self._socket, server_hostname=host)
            self._stream = self._socket.makefile("rb")
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            self._greet(path, parts.netloc.rpartition("@")[2], headers or {})
        except BaseException:
            self.close()
            raise

    def send(self, text: str) -> None:
        self._frame(TEXT, text.encode("utf-8", "replace"))

    def receive(self) -> str:
        """The next text message. Raises: Closed; TimeoutError."""
        message, begun = b"", False
        while True:
            final, code, payload = self._next()
            if code == PING:
                self._frame(PONG, payload)
            elif code == CLOSE:
                with suppress(OSError):
                    self._frame(CLOSE, payload[:2])
                raise Closed(f"closed: {payload[2:].decode(errors='replace') or 'no reason given'}")
            elif code in (TEXT, CONTINUED):
                if (code == TEXT) == begun:
                    raise Closed("a message begins inside another")
                message, begun = message + payload, True
                if len(message) > MESSAGE:
                    raise Closed(f"a message of more than {MESSAGE} bytes")
                if final:
                    return message.decode("utf-8", "replace")
            elif code != PONG:
                raise Closed(f"a frame of kind {code}, where text is due")

    def close(self) -> None:
        with suppress(OSError):
            self._frame(CLOSE, struct.pack("!H", 1000))
        with suppress(OSError):
            self._socket.close()

    def _greet(self, path: str, host: str, headers: Mapping[str, str]) -> None:
        key = base64.b64encode(os.urandom(16))
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key.decode()}", "Sec-WebSocket-Version: 13"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        status = self._stream.readline(HEAD)
        told: dict[str, str] = {}
        while (line := self._stream.readline(HEAD)) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            told[name.strip().lower()] = value.strip()
            if len(told) > 100:
                raise Closed("the answer to the handshake does not end")
        if status.split()[1:2] != [b"101"]:
            raise Closed(f"the handshake was answered with {status.decode('latin-1').strip()!r}")
        proof = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        if told.get("sec-websocket-accept") != proof:
            raise Closed("the handshake was not answered by a WebSocket server")

    def _frame(self, code: int, payload: bytes) -> None:
        """Send one frame; a client masks."""
        size, mask = len(payload), os.urandom(4)
        short = size if size < 126 else 126 if size < 2**16 else 127
        head = struct.pack("!BB", 0x80 | code, 0x80 | short)
        head += b"" if short < 126 else struct.pack("!H", size) if short == 126 else struct.pack("!Q", size)
        whole = int.from_bytes((mask * (size // 4 + 1))[:size], "big") ^ int.from_bytes(payload, "big")
        self._socket.sendall(head + mask + whole.to_bytes(size, "big"))

    def _next(self) -> tuple[bool, int, bytes]:
        first, second = self._read(2)
        size = second & 0x7F
        if second & 0x80 or first & 0x70:
            raise Closed("a frame that no server may send")
        if size == 126:
            (size,) = struct.unpack("!H", self._read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self._read(8))
        if size > MESSAGE:
            raise Closed(f"a message of more than {MESSAGE} bytes")
        return bool(first & 0x80), first & 0x0F, self._read(size)

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise Closed("the connection ended")
        return data
