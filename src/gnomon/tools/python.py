"""Python in a sandbox: one interpreter per episode, or a new one for every call."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gnomon.sandbox import Limits, Session
from gnomon.tools.base import Ended, EnvTool, Overtime, text_argument
from gnomon.tools.life import cpu_seconds

__all__ = ["PythonTool"]

INSIDE = """
import ast, json, os, sys, traceback
asked = os.fdopen(os.dup(0), "rb")
nothing = os.open(os.devnull, os.O_RDONLY)
os.dup2(nothing, 0)
sys.path.insert(0, "")
def run(code, names):
    try:
        body = ast.parse(code, "<call>").body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), "<call>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<call>", "eval"), names)
            if value is not None:
                print(repr(value))
    except SystemExit:
        pass
    except BaseException as error:
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        print("".join(traceback.format_exception(type(error), error, frames, limit=-6)), end="")
names = {"__name__": "__main__"}
for line in asked:
    ask = json.loads(line)
    child = os.fork() if ask["fresh"] else None
    if child:
        os.waitpid(child, 0)
    else:
        run(ask["code"], {"__name__": "__main__"} if child == 0 else names)
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    if child == 0:
        os._exit(0)
    os.write(1, ask["end"].encode())
"""
"""The program in the sandbox. Code that tampers with it only changes its own results."""
KEPT = 2**15
"""Bytes of output kept at either end. Bytes in between are dropped as they arrive."""


@dataclass(frozen=True, kw_only=True)
class PythonTool(EnvTool):
    """Runs Python code in the episode's sandbox, without network and without the host's files."""

    name: str = "python"
    description: str = "Runs Python code and tells what it prints, and the value of a last expression."
    parameters: Mapping[str, Any] = field(default_factory=lambda: text_argument("code"))
    persistent: bool = True
    """Whether variables are kept between calls. Files are always kept."""
    seconds: float = 2.0
    """CPU seconds for one call."""
    wall: float = 8.0
    """Wall-clock seconds for one call."""
    memory: int = 2**29
    """Address space of a process, in bytes."""

    @property
    def isolation(self) -> str:
        return "session"

    def open(self) -> Interpreter:
        return Interpreter(self)


class Interpreter:
    """The interpreter of one episode. It starts at the first call, and again after it ended."""

    def __init__(self, tool: PythonTool) -> None:
        self._tool = tool
        self._session: Session | None = None

    def call(self, arguments: Mapping[str, Any]) -> str:
        tool = self._tool
        session = self._session = self._session or start(tool)
        end = f"\n{secrets.token_hex(16)}\n".encode()
        ask = {"code": arguments["code"], "fresh": not tool.persistent, "end": end.decode()}
        began, before = time.monotonic(), cpu_seconds(session.pid)
        data = json.dumps(ask).encode() + b"\n"
        output = b""
        if session.send(data, timeout=tool.wall) < len(data):
            self.close()
            raise Ended("")
        while not output.endswith(end):
            alive = session.alive
            output = ends(output + session.receive(0.05))
            if output.endswith(end):
                break
            if not alive:
                self.close()
                raise Ended(text(output))
            if cpu_seconds(session.pid) - before >= tool.seconds or time.monotonic() - began >= tool.wall:
                self.close()
                raise Overtime(text(output))
        return text(output[: -len(end)]) or "(no output)"

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None


def start(tool: PythonTool) -> Session:
    """Start an interpreter. Raises: ResourceError if the host cannot confine it."""
    # Calls have their own deadlines; these limits end abandoned processes.
    limits = Limits(
        cpu_seconds=3600, wall_seconds=3600, memory_bytes=tool.memory, processes=32, file_bytes=2**24,
        output_bytes=2**16,
    )  # fmt: skip
    return Session((os.path.realpath(sys.executable), "-I", "-c", INSIDE), limits, unsafe=True)


def ends(output: bytes) -> bytes:
    """The output, or its two ends if it is too long."""
    return output if len(output) <= 2 * KEPT else output[:KEPT] + output[-KEPT:]


def text(output: bytes) -> str:
    return output.decode(errors="replace").rstrip("\n")
