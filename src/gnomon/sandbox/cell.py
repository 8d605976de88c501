"""One sandbox process as its owner holds it: started, asked, and ended with all that lives in it."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from gnomon.errors import ResourceError
from gnomon.sandbox.bubble import SCRATCH, Wall, nobody, spawn
from gnomon.sandbox.cgroup import Group
from gnomon.sandbox.inside import HEAD, pack
from gnomon.sandbox.job import Limits
from gnomon.sandbox.seccomp import JOB, WORKER, filter_program

__all__ = ["Cell", "Plan", "reach"]

PATIENCE = 60.0
"""Seconds a fresh sandbox may take to import what it needs."""
LEAVE = 5.0
"""Seconds that bubblewrap may take to end when all inside has ended, before it is killed."""
OWN = 64 * 2**20
"""Bytes of memory that a sandbox needs for itself."""
OWN_PROCESSES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How every worker of a sandbox is made."""

    kind: str
    """`root`, `user`, or `bare` for no wall at all."""
    limits: Limits
    imports: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()

    def paths(self) -> list[str]:
        """Where the modules to import are found: the caller's own search path, if there are any."""
        return [os.path.abspath(path) for path in sys.path if os.path.isdir(path)] if self.imports else []

    def message(self, folder: str) -> dict[str, Any]:
        """What the first process is told."""
        return {
            "way": self.kind,
            "uid": nobody(),
            "imports": self.imports,
            "paths": self.paths(),
            "readable": ["/"] if self.kind != "bare" else ["/usr", "/lib", "/lib64", sys.base_prefix, *self.paths()],
            "writable": [folder, os.devnull],
            "filter": filter_program(WORKER if self.kind == "bare" else JOB).hex(),
            "limits": {
                "memory": self.limits.memory_bytes,
                "file": self.limits.file_bytes,
                # Where there is no wall, all processes of the user would count.
                "processes": 0 if self.kind == "bare" else self.limits.processes + 1,
            },
            "argv": [],
        }


@dataclass(slots=True, eq=False)
class Cell:
    """A sandbox with a process that forks one per job."""

    plan: Plan
    process: subprocess.Popen[bytes]
    control: socket.socket
    first: int
    """Handle (pidfd) of its first process, whose end is the end of all others."""
    group: Group
    report: dict[str, Any]
    folder: str | None = None
    jobs: int = 0
    heard: bytearray = field(default_factory=bytearray)
    gone: bool = False

    @classmethod
    def start(cls, plan: Plan) -> Self:
        """A fresh sandbox. Raises: ResourceError, E521, when it cannot be built, with what bubblewrap said."""
        limits = plan.limits
        group = Group.open(limits.memory_bytes + limits.file_bytes + OWN, limits.processes + OWN_PROCESSES)
        folder = tempfile.mkdtemp(prefix="gnomon-") if plan.kind == "bare" else None
        wall = Wall(scratch_bytes=limits.file_bytes, readable=(*plan.paths(), *plan.readable))
        mine, theirs = socket.socketpair()
        streams = (subprocess.DEVNULL, subprocess.DEVNULL, subprocess.PIPE)
        with theirs:
            process = spawn(wall, plan.kind, group.doors, theirs, streams, folder)
        report, handles = reach(process, mine, plan.message(folder or SCRATCH), group)
        assert process.stderr is not None
        process.stderr.close()
        mine.setblocking(False)
        return cls(plan, process, mine, handles[0], group, report, folder)

    def ask(self, work: dict[str, Any], descriptors: list[int]) -> None:
        """Send a job with its result, output and error pipes. Raises: OSError, when the sandbox is gone."""
        self.control.setblocking(True)
        self.control.settimeout(PATIENCE)
        message = pack(work)
        socket.send_fds(self.control, [message[:HEAD]], descriptors)
        self.control.sendall(message[HEAD:])
        self.control.setblocking(False)
        self.jobs += 1

    def hear(self) -> tuple[list[dict[str, Any]], list[int], bool]:
        """Messages and descriptors that arrived, and whether the sandbox is still there."""
        handles: list[int] = []
        alive = True
        try:
            piece, handles, *_ = socket.recv_fds(self.control, 2**16, 1)
            alive = bool(piece)
            self.heard += piece
        except BlockingIOError:
            pass
        except OSError:
            alive = False
        messages = []
        while len(self.heard) >= HEAD and len(self.heard) >= HEAD + (
            size := int.from_bytes(self.heard[:HEAD], "little")
        ):
            messages.append(json.loads(self.heard[HEAD : HEAD + size]))
            del self.heard[: HEAD + size]
        return messages, handles, alive

    def renew(self) -> None:
        """Put a fresh sandbox in its place."""
        self.kill()
        fresh = Cell.start(self.plan)
        self.process, self.control, self.first, self.group = fresh.process, fresh.control, fresh.first, fresh.group
        self.report, self.folder, self.heard = fresh.report, fresh.folder, bytearray()
        self.jobs, self.gone = 0, False

    def kill(self) -> None:
        """End it and everything inside, and return when that is done."""
        if self.gone:
            return
        self.gone = True
        end(self.process, self.first, self.control, self.group)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def reach(
    process: subprocess.Popen[bytes], control: socket.socket, plan: dict[str, Any], group: Group
) -> tuple[dict[str, Any], list[int]]:
    """Tell a fresh first process what to be, and hear what it became. Raises: ResourceError, E521."""
    control.settimeout(PATIENCE)
    data, handles = b"", list[int]()
    with suppress(OSError):
        control.sendall(pack(plan))
        data, handles, *_ = socket.recv_fds(control, 2**16, 2)
    if handles:
        report: dict[str, Any] = json.loads(data[HEAD:])
        return report, handles
    control.close()
    late = process.poll() is None
    process.kill()
    said = last_words(process)
    group.close()
    raise cannot_start(said or (f"nothing for {PATIENCE:g} s" if late else ""))


def last_words(process: subprocess.Popen[bytes]) -> str:
    """What a killed process has written to its error pipe, which others may hold open."""
    said = b""
    try:
        said = process.communicate(timeout=LEAVE)[1] or b""
    except subprocess.TimeoutExpired as error:
        said = error.stderr or b""
    return said.decode(errors="replace")


def cannot_start(said: str) -> ResourceError:
    """The refusal for a sandbox that could not be built, with the setting that mends it as far as its words tell."""
    lines = [line for line in said.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else "(no output)"
    fix = "use a machine or container that permits user namespaces, or run as root with CAP_SYS_ADMIN"
    if ("namespace" in said and "ermi" in said) or "uid map" in said:
        fix = (
            "sysctl -w kernel.unprivileged_userns_clone=1 (Debian); "
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap (Ubuntu); "
            "sysctl -w user.max_user_namespaces=10000; in a container: --cap-add SYS_ADMIN"
        )
    elif "ModuleNotFoundError" in said or "ImportError" in said:
        fix = "list only modules in `imports` that this interpreter can import"
    elif "nknown option" in said:
        fix = "bubblewrap 0.8 or newer: apt-get install bubblewrap"
    return ResourceError(
        "E521", "a sandbox cannot be started on this host", why=f"bubblewrap reported: {last}", fix=fix
    )


def end(process: subprocess.Popen[bytes], first: int, control: socket.socket, group: Group) -> None:
    """Kill a sandbox's first process and wait until the kernel has taken down the rest."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(first, signal.SIGKILL)
    os.close(first)
    control.close()
    try:
        process.wait(LEAVE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    group.close()


def processor_clock(handle: int) -> int | None:
    """The clock of the processor time of a process, of which a handle (pidfd) is at hand; None when it is gone."""
    with open(f"/proc/self/fdinfo/{handle}") as info:
        pid = next(int(line.split()[1]) for line in info if line.startswith("Pid:"))
    return ~pid << 3 | 2 if pid > 0 else None  # Linux's clock of another process.


def whole_seconds(seconds: float) -> int:
    """The resource limit that stands behind a limit kept by clock: a second above it."""
    return math.ceil(seconds) + 1
