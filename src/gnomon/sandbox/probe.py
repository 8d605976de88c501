"""Test by attacks what this host can confine, and refuse an isolation level that lacks a required property.

print(as_text(capabilities()))
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gnomon.errors import ResourceError
from gnomon.import_path import inherited_path
from gnomon.sandbox.alone import alone
from gnomon.sandbox.bubble import way
from gnomon.sandbox.cgroup import Group
from gnomon.sandbox.job import Finished, Job, Limits, Ok
from gnomon.sandbox.session import RawSession
from gnomon.sandbox.worker import Plan

__all__ = ["LEVELS", "NO_SANDBOX", "Capabilities", "Probe", "as_text", "capabilities"]

LEVELS = ("worker", "sandbox", "session")
NO_SANDBOX = "a sandbox"
"""Name of the property that a sandbox can be built."""
WORD = 10.0
"""Seconds that bubblewrap may take to print its version."""
SECONDS = 60.0
"""Time limit of the probes of one level, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One property of a level, as tested by an attack."""

    name: str
    holds: bool
    needed: bool
    """Whether the level requires it."""
    got: str = ""
    """What the attack obtained; empty if it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The tested properties of the isolation levels on this host."""

    kernel: str
    machine: str
    bubblewrap: str
    """Version of bubblewrap; empty if it is not installed."""
    user: str
    """`root` or `user`."""
    levels: dict[str, tuple[Probe, ...]]
    unsafe: bool = False
    """Untrusted code runs although a required property may be missing."""

    def missing(self, level: str) -> list[Probe]:
        """The required properties that a level lacks."""
        return [probe for probe in self.levels[level] if probe.needed and not probe.holds]

    def body(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        levels = {
            level: {probe.name: {"holds": probe.holds, "needed": probe.needed, "got": probe.got} for probe in probes}
            for level, probes in self.levels.items()
        }
        return {
            "kernel": self.kernel,
            "machine": self.machine,
            "bubblewrap": self.bubblewrap,
            "user": self.user,
            "unsafe": self.unsafe,
            "levels": levels,
        }

    @property
    def hash(self) -> str:
        """SHA-256 of the body, in hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.body(), sort_keys=True).encode()).hexdigest()


FIXES = {
    "landlock": "a kernel of 5.13 or newer, booted with lsm=...,landlock (CONFIG_SECURITY_LANDLOCK=y)",
    "filter": "a kernel with CONFIG_SECCOMP_FILTER=y, on x86_64 or aarch64",
    "processes": "apt-get install bubblewrap (0.8 or newer); sysctl -w user.max_user_namespaces=10000",
}


def capabilities(levels: Iterable[str] = LEVELS, *, unsafe: bool = False) -> Capabilities:
    """Attack the requested levels, once per process, and return which properties hold.

    Args: unsafe: report missing properties instead of raising.
    Raises: ResourceError E520 without bubblewrap, E521 if a sandbox cannot be built, E522 if a required property
        is missing.
    """
    probes: dict[str, tuple[Probe, ...]] = {}
    for level in levels:
        try:
            probes[level] = probe_level(level, os.environ.get("PATH", ""))
        except ResourceError as error:
            if not unsafe:
                raise
            probes[level] = (Probe(name=NO_SANDBOX, holds=False, needed=True, got=error.what),)
    user = "root" if os.geteuid() == 0 else "user"
    matrix = Capabilities(
        kernel=platform.release(),
        machine=platform.machine(),
        bubblewrap=version(os.environ.get("PATH", "")),
        user=user,
        levels=probes,
        unsafe=unsafe,
    )
    for level in probes:
        if (missing := matrix.missing(level)) and not unsafe:
            raise refusal(level, missing)
    return matrix


def refusal(level: str, missing: list[Probe]) -> ResourceError:
    fixes = [
        FIXES.get(probe.name.split()[0], "a newer kernel, or a machine that permits namespaces") for probe in missing
    ]
    return ResourceError(
        "E522",
        f"untrusted code cannot run: the {level} is not secure on this host",
        where=", ".join(probe.name for probe in missing),
        why="; ".join(f"{probe.name}: {probe.got}" for probe in missing),
        fix="; ".join(dict.fromkeys(fixes)),
    )


@cache
def version(path: str) -> str:
    """The version of bubblewrap on a search path."""
    program = shutil.which("bwrap", path=path)
    if program is None:
        return ""
    try:
        words = subprocess.run(
            [program, "--version"], capture_output=True, encoding="utf-8", errors="replace", timeout=WORD
        ).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return words[-1] if words else ""


@cache
def probe_level(level: str, path: str) -> tuple[Probe, ...]:
    """The probes of one level, cached. Args: path: the search path for programs; part of the cache key."""
    with socket.socket() as listener:  # A service of the host that confined code must not reach.
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        facts = {"port": listener.getsockname()[1], "pid": os.getpid(), "file": __file__, "home": str(Path.home())}
        return {"worker": worker, "sandbox": sandbox, "session": session}[level](facts)


def worker(facts: dict[str, Any]) -> tuple[Probe, ...]:
    """The probes of a hardened worker, in a separate process."""
    code = (
        "import json, os, sys\nfrom gnomon.sandbox.confine import harden, limit\n"
        "from gnomon.sandbox.attacks import attack\n"
        "limit(memory=2**29, cpu=60)\n"
        "try:\n    harden([sys.base_prefix, *(p for p in sys.path if p)])\n"
        "except OSError as error:\n    sys.exit(str(error))\n"
        "print(json.dumps(attack('worker', json.loads(sys.argv[1]))))"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, json.dumps(facts)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(inherited_path())},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        result = f"no answer within {SECONDS:g} s"
        return (Probe(name="landlock and filter", holds=False, needed=True, got=result),)
    if done.returncode:
        result = (done.stderr.strip().splitlines() or ["it died"])[-1]
        return (Probe(name="landlock and filter", holds=False, needed=True, got=result),)
    return probes_of(json.loads(done.stdout))


def sandbox(facts: dict[str, Any]) -> tuple[Probe, ...]:
    """The probes of a sandbox, run as a job."""
    source = (Path(__file__).parent / "attacks.py").read_text("utf-8")
    job = Job(source=source, call="attack", inputs=(("sandbox", facts),))
    limits = Limits(wall_seconds=SECONDS, cpu_seconds=SECONDS / 2)
    outcome, report = alone(Plan(kind=way(), limits=limits), job)
    if not isinstance(outcome, Finished) or not isinstance(outcome.values[0], Ok):
        return (Probe(name=NO_SANDBOX, holds=False, needed=True, got=str(outcome)),)
    return probes_of(outcome.values[0].json) + around(report)


def session(facts: dict[str, Any]) -> tuple[Probe, ...]:
    """The probes of a session, run as its program."""
    source = (Path(__file__).parent / "attacks.py").read_text("utf-8")
    code = f"{source}\nimport json, sys\nprint(json.dumps(attack('session', json.loads(sys.argv[1]))))"
    argv = (os.path.realpath(sys.executable), "-c", code, json.dumps(facts))
    with RawSession(argv) as going:
        output = going.receive_all(SECONDS)
        report = going.report
    try:
        return probes_of(json.loads(output)) + around(report)
    except ValueError:
        return (Probe(name="a session", holds=False, needed=True, got=output.decode(errors="replace")[-300:]),)


def probes_of(results: dict[str, list[Any]]) -> tuple[Probe, ...]:
    return tuple(
        Probe(name=name, holds=not breach, needed=required, got=breach)
        for name, (required, breach) in sorted(results.items())
    )


def around(report: dict[str, Any]) -> tuple[Probe, ...]:
    """The optional additional protections of a sandbox."""
    group = Group.open(2**27, 16)
    group.close()
    second = {
        "landlock inside": "" if report["landlock"] else "the kernel has none",
        "user namespace": "" if report["user_namespace"] else "the kernel forbids it",
        "control group of memory": "" if "memory" in group.folders else "no controller is writable",
        "control group of processes": "" if "pids" in group.folders else "no controller is writable",
    }
    return tuple(Probe(name=name, holds=not absence, needed=False, got=absence) for name, absence in second.items())


def as_text(matrix: Capabilities) -> str:
    """The capabilities as a table for a terminal."""
    head = f"kernel {matrix.kernel} {matrix.machine}, bubblewrap {matrix.bubblewrap or 'none'}, as {matrix.user}"
    lines = [head + (", UNSAFE" if matrix.unsafe else "")]
    for level, probes in matrix.levels.items():
        lines.append(level)
        for probe in probes:
            sign = "holds" if probe.holds else "MISSING" if probe.needed else "absent"
            lines.append(f"  {sign:<8} {probe.name}" + (f": {probe.got}" if probe.got else ""))
    return "\n".join(lines)
