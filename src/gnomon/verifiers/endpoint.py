"""A chat model behind an HTTP endpoint with the OpenAI protocol. The whole exchange has a deadline."""

from __future__ import annotations

import http.client
import io
import json
import os
import socket
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gnomon.errors import ConfigError, VerifierError
from gnomon.repeats import Repeats
from gnomon.verifiers.slot import Malformed
from gnomon.verifiers.strict_json import strict_json

__all__ = ["Endpoint"]

MAX_BYTES = 256 * 1024
"""Largest response that is read."""
AGAIN = (408, 409, 429, 500, 502, 503, 504)
"""HTTP statuses after which the request is retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Asks `POST {base_url}/chat/completions`, greedily. Picklable; it holds the name of the key, never the key.

    Args:
        base_url: such as `http://localhost:8000/v1`.
        key: name of the environment variable that holds the key; empty if the endpoint needs no key.
        seconds: limit of one exchange, from connecting to the last byte.
        tries: number of requests to a server that is busy or unreachable.
        pause: seconds before the second try; doubled before each further one.
    """

    base_url: str
    model: str
    key: str = ""
    seconds: float = 60.0
    tries: int = 3
    pause: float = 0.5
    max_tokens: int = 300

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "E114", f"base_url {self.base_url!r} is not an http address", fix="http://localhost:8000/v1"
            )
        if parts.username or parts.password:
            raise ConfigError(
                "E114",
                "base_url contains a password",
                fix="put the password in an environment variable and its name in `key`",
            )

    def __call__(self, prompt: str) -> str:
        """The model's text. Raises: VerifierError E115 if there is none. No message contains the key."""
        repeats = Repeats(self.tries - 1)
        while True:
            try:
                status, raw = self.exchange(prompt)
            except (OSError, http.client.HTTPException, TimeoutError) as error:
                problem, again = f"{type(error).__name__}: {error}"[:200], True
            else:
                if status == 200:
                    return self.read(raw)
                problem, again = f"the server answered {status}{self.reason(raw)}", status in AGAIN
            if not (again and repeats.another(problem)):
                raise self.failure(problem)
            time.sleep(self.pause * 2 ** (repeats.count - 1))

    def exchange(self, prompt: str) -> tuple[int, bytes]:
        """Send one request. Returns: the status and the body, within the deadline and the size limit."""
        deadline = time.monotonic() + self.seconds
        parts = urlsplit(self.base_url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.seconds)
        messages = [{"role": "user", "content": prompt.encode("utf-8", "replace").decode()}]
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": self.max_tokens}
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "Connection": "close"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.secret()}"
        try:
            connection.connect()
            assert isinstance(connection.sock, socket.socket)
            wire = _Deadline(connection.sock, deadline)
            connection.request("POST", f"{parts.path.rstrip('/')}/chat/completions", json.dumps(body), headers)
            response = http.client.HTTPResponse(wire, method="POST")  # type: ignore[arg-type]
            response.begin()
            raw = bytearray()
            while piece := response.read1(2**16):
                raw += piece
                if len(raw) > MAX_BYTES:
                    raise http.client.HTTPException(f"a response of over {MAX_BYTES} bytes")
            return response.status, bytes(raw)
        finally:
            connection.close()

    def read(self, raw: bytes) -> str:
        """The text of a completion. Raises: VerifierError E115 if the body contains none."""
        try:
            body: Any = strict_json(raw.decode("utf-8"), max_length=MAX_BYTES)
            content = body["choices"][0]["message"]["content"]
        except (UnicodeDecodeError, Malformed, LookupError, TypeError) as error:
            raise self.failure(f"the answer is not a completion: {type(error).__name__}") from None
        if not isinstance(content, str):
            raise self.failure("the answer is not a completion: its content is not text")
        return content

    def reason(self, raw: bytes) -> str:
        """What the server says about a request that it refused, after a colon; empty if it says nothing."""
        text = raw.decode("utf-8", "replace")
        try:
            body: Any = strict_json(text, max_length=MAX_BYTES)
            text = str(body["error"]["message"])
        except (Malformed, LookupError, TypeError):
            pass  # The server does not speak OpenAI's protocol, and the beginning of its answer shows what it is.
        text = text.replace(self.secret(), "…") if self.key else text  # Some servers repeat the key.
        return f": {' '.join(text.split())[:200]}" if text.strip() else ""

    def secret(self) -> str:
        """The key. Raises: ConfigError E114 if the environment variable is not set."""
        value = os.environ.get(self.key, "")
        if not value or not value.isascii() or not value.isprintable():
            raise ConfigError("E114", f"the environment variable {self.key} is not set", fix=f"export {self.key}=…")
        return value

    def failure(self, problem: str) -> VerifierError:
        return VerifierError(
            "E115",
            f"the judge model did not answer: {problem}",
            where=f"{self.base_url}, model {self.model}",
            why="without an answer, no reply can be judged",
            fix="check that the server runs and serves this model, and start or resume the run",
        )


class _Deadline:
    """A socket for `http.client`. All its reads share one deadline, so a slow sender cannot extend the exchange."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock, self.deadline = sock, deadline

    def makefile(self, mode: str, *_: object) -> Any:
        return io.BufferedReader(_Reader(self.sock, self.deadline))


class _Reader(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock, self.deadline = sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the answer took too long")
        self.sock.settimeout(seconds)
        return self.sock.recv_into(buffer)
