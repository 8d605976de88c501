"""The client of a hosted environment: it starts another interpreter's process and opens conversations with it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from gnomon.errors import ResourceError, VerifierError
from gnomon.sandbox import descendants

__all__ = ["Conversation", "Host", "Late", "host"]

SCRIPT = Path(__file__).with_name("host.py")
PROCESSES = Path(descendants.__file__)
LEAVE = 5.0
"""Seconds that the process of an episode may take to end its descendants."""
LOADING = 60.0
"""Seconds that an interpreter may take to import an environment."""


class Late(Exception):
    """A step was not answered in time; its process was killed."""


class Host:
    """A process of another interpreter. It loads an environment once and forks for every episode.

    It ends, with all episodes and their descendants, when the last copy of its socket closes. A forked process can
    continue to use it.
    """

    def __init__(self, python: str, kind: str, name: str, options: str) -> None:
        self.python, self.kind, self.name = python, kind, name
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The hash seed is fixed, so that the order of sets is reproducible.
        env = {**os.environ, "PYTHONHASHSEED": "0"}
        if python != sys.executable:
            env.pop("PYTHONPATH", None)
        with there:
            try:
                self._process = subprocess.Popen(
                    [python, str(SCRIPT), str(PROCESSES), kind, name, options],
                    stdin=there.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                fix = "python=PATH of an interpreter that has the environment's package"
                raise ResourceError("E170", f"{python} cannot be run", why=str(error), fix=fix) from error

    def conversation(self) -> Conversation:
        """A new process for one episode. Raises: BrokenPipeError if the host has ended."""
        here, there = socket.socketpair()
        with there:
            try:
                socket.send_fds(self._here, [b"+"], [there.fileno()])
            except BaseException:
                here.close()
                raise
        try:
            return Conversation(here, f"{self.kind}:{self.name}", self.python)
        except VerifierError as error:
            if self._process.poll() is not None:  # It was killed after it received the descriptor.
                raise BrokenPipeError("the host process has ended") from error
            raise

    def close(self) -> None:
        """End the process and its conversations."""
        self._here.close()
        self._process.wait()


class Conversation:
    """One episode's process, queried line by line.

    Raises: ResourceError E170 if the environment cannot be loaded.
    """

    def __init__(self, channel: socket.socket, name: str, python: str) -> None:
        self._channel, self._name, self._pidfd = channel, name, -1
        self._lines = channel.makefile("rw", encoding="utf-8", errors="surrogatepass", newline="\n")
        greeting = self._receive(LOADING)
        if "error" in greeting:
            raise ResourceError(
                "E170", f"{name} cannot be loaded", where=python, why=str(greeting.get("text", "")).rstrip(),
                fix="set python=PATH to an interpreter that has the package, and use a name that the package knows",
            )  # fmt: skip
        self.players = int(greeting["players"])
        with suppress(ProcessLookupError):  # The environment has already ended the process; the next query reports it.
            self._pidfd = os.pidfd_open(int(greeting["pid"]))

    def ask(self, seconds: float, **question: Any) -> dict[str, Any]:
        """The answer to a query.

        Raises: Late if it does not arrive in time; VerifierError E171 if the environment raised, E172 if its process
        died, E173 if the answer is invalid.
        """
        token = secrets.token_hex(16)
        try:
            self._lines.write(json.dumps({**question, "token": token}) + "\n")
            self._lines.flush()
        except OSError as error:
            raise self._death() from error
        answer = self._receive(seconds)
        if answer.pop("token", None) != token:
            raise VerifierError(
                "E173", f"{self._name} wrote a line that is not an answer: {str(answer)[:100]!r}",
                why="code in the environment's process wrote to the connection, so it could set its own reward",
            )  # fmt: skip
        if "error" in answer:
            raise VerifierError("E171", f"{self._name} raised", why=str(answer.get("text", "")).rstrip())
        return answer

    def close(self) -> None:
        """End the process and its descendants."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._lines.close()
        self._channel.close()
        if self._pidfd >= 0:
            if not wait([self._pidfd], LEAVE):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)
            self._pidfd = -1

    def _receive(self, seconds: float) -> dict[str, Any]:
        self._channel.settimeout(seconds)
        try:
            line = self._lines.readline()
        except TimeoutError as error:
            self.close()
            raise Late(f"no answer within {seconds:g} s") from error
        except OSError as error:
            raise self._death() from error
        if not line.endswith("\n"):
            raise self._death()
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise VerifierError("E173", f"{self._name} returned {line[:100]!r}, which is not JSON") from error
        if not isinstance(answer, dict):
            raise VerifierError("E173", f"{self._name} returned {line[:100]!r} and must return a JSON object")
        return answer

    def _death(self) -> VerifierError:
        self.close()
        return VerifierError("E172", f"the process of {self._name} died during an episode")

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


HOSTS: dict[tuple[str, str, str, str], Host] = {}


def host(python: str, kind: str, name: str, options: str) -> Host:
    """The host of an environment, shared by a process and its forks."""
    address = python, kind, name, options
    if address not in HOSTS:
        HOSTS[address] = Host(*address)
    return HOSTS[address]


def conversation(python: str, kind: str, name: str, options: str) -> Conversation:
    """A new process for one episode. Starts a new host if the old one has ended."""
    try:
        return host(python, kind, name, options).conversation()
    except (BrokenPipeError, ConnectionError):
        HOSTS.pop((python, kind, name, options)).close()
        return host(python, kind, name, options).conversation()
