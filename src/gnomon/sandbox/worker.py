"""A sandbox worker, seen from its owner: start it, send it jobs, and end it with all its processes."""

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

__all__ = ["Plan", "SandboxWorker", "reach"]

PATIENCE = 60.0
"""Seconds that a new sandbox may take for its imports."""
LEAVE = 5.0
"""Seconds after the end of all inner processes before bubblewrap is killed."""
OWN = 64 * 2**20
"""Memory that a sandbox itself needs, in bytes."""
OWN_PROCESSES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The settings of every worker of a sandbox."""

    kind: str
    """`root`, `user`, or `bare` for no confinement."""
    limits: Limits
    imports: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()

    def paths(self) -> list[str]:
        """The caller's search path if there are modules to import, else nothing."""
        return [os.path.abspath(path) for path in sys.path if os.path.isdir(path)] if self.imports else []

    def message(self, folder: str) -> dict[str, Any]:
        """The first message to the worker."""
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
                # Without namespaces, the limit would count all processes of the user.
                "processes": 0 if self.kind == "bare" else self.limits.processes + 1,
            },
            "argv": [],
        }


@dataclass(slots=True, eq=False)
class SandboxWorker:
    """A sandbox whose first process forks a new process for each job."""

    plan: Plan
    process: subprocess.Popen[bytes]
    control: socket.socket
    first: int
    """Handle (pidfd) of its first process. When it ends, all others end."""
    group: Group
    report: dict[str, Any]
    folder: str | None = None
    jobs: int = 0
    received: bytearray = field(default_factory=bytearray)
    gone: bool = False

    @classmethod
    def start(cls, plan: Plan) -> Self:
        """Start a sandbox. Raises: ResourceError E521, with bubblewrap's message, if it cannot be built."""
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
        """Send a job with its result, output and error pipes. Raises: OSError if the sandbox has ended."""
        self.control.setblocking(True)
        self.control.settimeout(PATIENCE)
        message = pack(work)
        socket.send_fds(self.control, [message[:HEAD]], descriptors)
        self.control.sendall(message[HEAD:])
        self.control.setblocking(False)
        self.jobs += 1

    def receive(self) -> tuple[list[dict[str, Any]], list[int], bool]:
        """The messages and descriptors that arrived, and whether the sandbox is alive."""
        handles: list[int] = []
        alive = True
        try:
            piece, handles, *_ = socket.recv_fds(self.control, 2**16, 1)
            alive = bool(piece)
            self.received += piece
        except BlockingIOError:
            pass
        except OSError:
            alive = False
        messages = []
        while len(self.received) >= HEAD and len(self.received) >= HEAD + (
            size := int.from_bytes(self.received[:HEAD], "little")
        ):
            messages.append(json.loads(self.received[HEAD : HEAD + size]))
            del self.received[: HEAD + size]
        return messages, handles, alive

    def renew(self) -> None:
        """Replace the sandbox with a new one."""
        self.kill()
        fresh = SandboxWorker.start(self.plan)
        self.process, self.control, self.first, self.group = fresh.process, fresh.control, fresh.first, fresh.group
        self.report, self.folder, self.received = fresh.report, fresh.folder, bytearray()
        self.jobs, self.gone = 0, False

    def kill(self) -> None:
        """Kill the sandbox and all its processes, and wait until they are gone."""
        if self.gone:
            return
        self.gone = True
        end(self.process, self.first, self.control, self.group)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def reach(
    process: subprocess.Popen[bytes], control: socket.socket, plan: dict[str, Any], group: Group
) -> tuple[dict[str, Any], list[int]]:
    """Send the plan to a new sandbox. Returns: its report and its handles. Raises: ResourceError E521."""
    control.settimeout(PATIENCE)
    data, handles = b"", list[int]()
    with suppress(OSError):
        control.sendall(pack(plan))
        data, handles, *_ = socket.recv_fds(control, 2**16, 3)
    if handles:
        report: dict[str, Any] = json.loads(data[HEAD:])
        return report, handles
    control.close()
    late = process.poll() is None
    process.kill()
    output = error_output(process)
    group.close()
    raise cannot_start(output or (f"nothing for {PATIENCE:g} s" if late else ""))


def error_output(process: subprocess.Popen[bytes]) -> str:
    """The error output of a killed process. Other processes may still hold the pipe open."""
    output = b""
    try:
        output = process.communicate(timeout=LEAVE)[1] or b""
    except subprocess.TimeoutExpired as error:
        output = error.stderr or b""
    return output.decode(errors="replace")


def cannot_start(output: str) -> ResourceError:
    """The error for a sandbox that cannot be built, with a fix that depends on bubblewrap's message."""
    lines = [line for line in output.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else "(no output)"
    fix = "use a machine or container that permits user namespaces, or run as root with CAP_SYS_ADMIN"
    if ("namespace" in output and "ermi" in output) or "uid map" in output:
        fix = (
            "sysctl -w kernel.unprivileged_userns_clone=1 (Debian); "
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap (Ubuntu); "
            "sysctl -w user.max_user_namespaces=10000; in a container: --cap-add SYS_ADMIN"
        )
    elif "ModuleNotFoundError" in output or "ImportError" in output:
        fix = "list only modules in `imports` that this interpreter can import"
    elif "nknown option" in output:
        fix = "bubblewrap 0.8 or newer: apt-get install bubblewrap"
    return ResourceError(
        "E521", "a sandbox cannot be started on this host", why=f"bubblewrap reported: {last}", fix=fix
    )


def end(process: subprocess.Popen[bytes], first: int, control: socket.socket, group: Group) -> None:
    """Kill a sandbox's first process, and wait until the kernel has ended the others."""
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


def cpu_clock(handle: int) -> int | None:
    """The CPU clock of a process with this handle (pidfd); None if it has ended."""
    with open(f"/proc/self/fdinfo/{handle}", encoding="utf-8") as info:
        pid = next(int(line.split()[1]) for line in info if line.startswith("Pid:"))
    return ~pid << 3 | 2 if pid > 0 else None  # Clock id of another process on Linux.


def whole_seconds(seconds: float) -> int:
    """The kernel's CPU limit behind a limit that the owner enforces: one second more."""
    return math.ceil(seconds) + 1
