"""Tools of a Model Context Protocol server, over standard input and output.

Source: the Model Context Protocol, revision 2025-06-18: lifecycle, stdio transport, tools.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from gnomon.errors import ConfigError
from gnomon.sandbox import Limits, Session
from gnomon.tools.base import Ended, EnvTool, Overtime

__all__ = ["MCPTool", "Server", "start_server"]

REVISION = "2025-06-18"
LONGEST = 2**22
"""Largest message, in bytes. A longer line ends the server."""
PAGES = 32
"""Largest number of pages of a tool list that are requested."""
REFUSAL = -32601
"""The JSON-RPC code for an unknown method."""


@dataclass(frozen=True, kw_only=True)
class MCPTool(EnvTool):
    """One tool of a server, made by `start_server`. The tools of one server share one process per episode."""

    command: tuple[str, ...]
    """The server and its arguments."""
    remote: str
    """The server's name of the tool."""
    sandboxed: bool = True
    """Whether the server runs in a sandbox, without network and with only `readable` of the host's files."""
    readable: tuple[str, ...] = ()
    """Host paths that are readable in the sandbox."""
    wall: float = 10.0
    """Seconds for one call."""

    @property
    def host(self) -> object:
        return self.command, self.sandboxed, self.readable

    @property
    def isolation(self) -> str:
        return "session" if self.sandboxed else ""

    def open(self) -> Server:
        return Server(self.command, sandboxed=self.sandboxed, readable=self.readable)

    def ask(self, server: Server, arguments: Mapping[str, Any]) -> str:
        return content_text(server.ask("tools/call", {"name": self.remote, "arguments": dict(arguments)}, self.wall))


def start_server(
    command: Sequence[str],
    *,
    sandboxed: bool = True,
    readable: Sequence[str] = (),
    prefix: str = "",
    wall: float = 10.0,
) -> tuple[MCPTool, ...]:
    """Start a server and list its tools.

    Args:
        sandboxed: run it in a sandbox. If false, it runs with your user's rights; use this only for trusted servers.
        readable: host paths that are readable in the sandbox, such as the server's files.
        prefix: prefix of the tool names that the policy sees.
        wall: seconds for one call.
    Raises: ConfigError E161 if the server does not list its tools.
    """
    server = Server(tuple(command), sandboxed=sandboxed, readable=tuple(readable))
    listed: list[dict[str, Any]] = []
    try:
        more: dict[str, Any] = {}
        for _ in range(PAGES):
            page = server.ask("tools/list", more, 60.0)
            listed += page["tools"]
            if not (cursor := page.get("nextCursor")):
                break
            more = {"cursor": cursor}
        return tuple(
            MCPTool(
                name=prefix + tool["name"],
                description=tool.get("description", ""),
                parameters=tool["inputSchema"],
                command=tuple(command),
                remote=tool["name"],
                sandboxed=sandboxed,
                readable=tuple(readable),
                wall=wall,
            )
            for tool in listed
        )
    except (Ended, Overtime, Refused, KeyError, TypeError, OSError) as error:
        raise ConfigError(
            "E161",
            "the MCP server did not list its tools",
            where=" ".join(command),
            why=f"{type(error).__name__}: {error}",
            fix="use a command that speaks the Model Context Protocol over stdin and stdout; "
            "list the files it needs in a sandbox in readable=(...)",
        ) from error
    finally:
        server.close()


class Refused(Exception):
    """The server answered with an error. The message is the server's."""


class Wire(Protocol):
    """Exchanges bytes with a process."""

    def send(self, data: bytes, timeout: float) -> int: ...

    def receive(self, timeout: float) -> bytes: ...

    @property
    def alive(self) -> bool: ...

    def close(self) -> None: ...


class Server:
    """The server of one episode. It starts at the first request, and again after it ended."""

    def __init__(self, command: tuple[str, ...], *, sandboxed: bool, readable: tuple[str, ...]) -> None:
        self._command, self._sandboxed, self._readable = command, sandboxed, readable
        self._wire: Wire | None = None
        self._buffer = b""
        self._number = 0

    def ask(self, method: str, params: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The result of a request.

        Raises: Refused for an error of the server; Overtime if it does not answer in time; Ended if it has ended. The
            next request starts a new one.
        """
        if self._wire is None:
            self._start()
        return self._request(method, params, seconds)

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._wire, self._buffer = None, b""

    def _start(self) -> None:
        if self._sandboxed:
            limits = Limits(
                cpu_seconds=3600, wall_seconds=3600, memory_bytes=2**30, processes=64, file_bytes=2**26,
                output_bytes=2**20,
            )  # fmt: skip
            self._wire = Session(self._command, limits, readable=self._readable)
        else:
            self._wire = Process(self._command)
        client = {"name": "gnomon", "version": "1"}
        # A new interpreter with its packages needs time to start, apart from the limit of a call.
        self._request("initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}, 60.0)
        self._send({"method": "notifications/initialized"})

    def _request(self, method: str, params: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        self._number += 1
        number, due = self._number, time.monotonic() + seconds
        self._send({"id": number, "method": method, "params": dict(params)})
        while True:
            message = self._next(due)
            if "method" in message and "id" in message:
                ping = message["method"] == "ping"
                refusal = {"error": {"code": REFUSAL, "message": "not offered by this client"}}
                self._send({"id": message["id"]} | ({"result": {}} if ping else refusal))
            elif message.get("id") == number:
                if isinstance(error := message.get("error"), dict):
                    raise Refused(str(error.get("message", "")))
                result = message.get("result")
                return result if isinstance(result, dict) else {}

    def _send(self, message: dict[str, Any]) -> None:
        assert self._wire is not None
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        if self._wire.send(data, 10.0) < len(data):
            self.close()
            raise Ended("the server does not read")

    def _next(self, due: float) -> dict[str, Any]:
        """The next message. Other lines, such as logs, are skipped."""
        assert self._wire is not None
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                with suppress(ValueError, RecursionError):
                    if isinstance(message := json.loads(line), dict):
                        return message
                continue
            alive = self._wire.alive
            piece = self._wire.receive(min(0.1, max(0.0, due - time.monotonic())))
            self._buffer += piece
            if (not piece and not alive) or len(self._buffer) > LONGEST:
                last = self._buffer[-400:].decode(errors="replace")
                self.close()
                raise Ended(last)
            if time.monotonic() >= due:
                self.close()
                raise Overtime("")


def content_text(result: Mapping[str, Any]) -> str:
    """The text of a result. Other content is replaced by the name of its type."""
    content = result.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [str(part["text"]) if "text" in part else f"[{part.get('type', 'content')}]" for part in parts]
    if not texts and "structuredContent" in result:
        texts = [json.dumps(result["structuredContent"])]
    return ("error: " if result.get("isError") else "") + ("\n".join(texts) or "(nothing)")


class Process:
    """A server without a sandbox, with the user's rights."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._in.fileno(), False)

    def send(self, data: bytes, timeout: float) -> int:
        sent, due = 0, time.monotonic() + timeout
        while sent < len(data):
            try:
                sent += os.write(self._in.fileno(), data[sent:])
            except BlockingIOError:
                if not select.select([], [self._in], [], max(0.0, due - time.monotonic()))[1]:
                    break
            except OSError:
                break
        return sent

    def receive(self, timeout: float) -> bytes:
        ready = select.select([self._out], [], [], timeout)[0]
        return os.read(self._out.fileno(), 2**16) if ready else b""

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """Close its input, as the protocol requires, and kill it if it does not end."""
        self._in.close()
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self._out.close()
