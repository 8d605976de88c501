"""Strike one process of a run with one fault in one phase, let the run end, and compare its fingerprint.

    python benchmarks/faults.py                          every actor, phase and fault
    python benchmarks/faults.py --only server/           those of one actor; or driver/gradient/, /partition …

Actors: the process of the run (driver), a worker of its environment, one of two processes of its learner (rank), a
learner's server, a sampler and a learner in a Ray cluster. Faults:

kill       SIGKILL
stop       SIGSTOP, and SIGCONT after some seconds; for workers, samplers and processes of a learner never
slow       four fifths of three seconds are spent stopped
partition  a proxy between the run and the server drops a request, drops the answer after the work, delays, or is
           silent; between the nodes of a Ray cluster, the run on one and what is struck on the other, all packets are
           dropped, a tenth of them is, or all are late
disk       the file system of the run folder, or of temporary files, is full
memory     RLIMIT_AS at what the process has
clock      the wall clock goes back by a day: as Python code of the run's process reads it; as all code of another
           process reads it, through a library that is loaded before the C library

The process of the run waits at the phase until it, or the other process, has been struck; a process other than that of
the run is struck while the verb is carried out. A run that ends with an error is resumed after the fault is over, as a
user would do. Root is needed for full disks and for packets, and a C compiler for clocks.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import multiprocessing
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from ray_network import ADDRESSES, PORT, Network

PHASES = ("rollout", "gradient", "update", "record", "checkpoint")
EVERYWHERE = ("kill", "stop", "slow", "disk", "memory", "clock")
SETTINGS = ["steps=4", "prompts=4", "group=4", "max_tokens=48", "eval.tasks=4", "eval.samples=1", "eval.every=2",
            "save.every=2", "optim.micro_batch=120", "threads=1"]  # fmt: skip
PLACES = {
    "driver": [],
    "worker": [],
    "rank": ["ranks=2", "launch.seconds=5"],
    "server": [],
    "sampler": ["launch=ray", "launch.samplers=2", "launch.episodes=4", "launch.seconds=5"],
    "learner": ["launch=ray", "launch.samplers=1", "learner=ray", "launch.episodes=4", "launch.seconds=5"],
}
"""Settings by actor."""
FORKS = multiprocessing.get_context("forkserver")
"""Runs are forked from a process that has imported the libraries."""
FORKS.set_forkserver_preload(["gnomon.api", "gnomon.run.start", "transformers.models.gpt_neox.modeling_gpt_neox"])
MARK = "GNOMON_FAULTS"
"""Environment variable by which the processes of a trial are found: all its descendants inherit it."""
DAY = 86400
CLOCK = "GNOMON_FAULTS_CLOCK"
"""Environment variable with the file that says which process has another clock, and by how many seconds."""
LIBRARY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shared; /* A process, and seconds. */

__attribute__((constructor)) static void find(void) {
    const char *path = getenv("GNOMON_FAULTS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(0, 16, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (found != MAP_FAILED) shared = found;
}

static int64_t back(void) { return shared && shared[0] == getpid() ? shared[1] : 0; }

int clock_gettime(clockid_t id, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, out);
    if (!status && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) out->tv_sec -= back();
    return status;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int status = real(out, zone);
    if (!status) out->tv_sec -= back();
    return status;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"""
"""Gives one process another wall clock."""
LOSS, DELAY = 0.1, 0.1
"""Share of the packets that are dropped, and seconds by which packets are late."""
CLONE_NEWNET = 0x40000000
HELD = 8.0
"""Seconds for which a process is stopped."""
DISK = 24
"""MiB of the small file system."""
LEFT = 20.0
"""Seconds in which the last process of a trial must have ended."""
LONG = 600.0
"""Seconds after which a run counts as hung."""


@dataclass(frozen=True)
class Cell:
    """One trial."""

    actor: str
    phase: str
    fault: str

    @property
    def name(self) -> str:
        return f"{self.actor}/{self.phase}/{self.fault}"


@dataclass
class Found:
    """What a trial showed."""

    cell: Cell
    equal: bool = False
    resumed: int = 0
    """Times that the run had to be resumed."""
    errors: list[str] = field(default_factory=list)
    """Codes of the errors that ended it; `signal`, or the end of the log without one."""
    rollouts: int = 0
    """Sampled more often than in a run that nobody touched, evaluations included."""
    steps: int = 0
    """Recorded steps that a resumed run repeated."""
    seconds: float = 0.0
    """From the strike to the next record."""
    left: int = 0
    """Processes that did not end."""


def cells() -> list[Cell]:
    """All trials."""
    driver = [Cell("driver", phase, fault) for fault in EVERYWHERE for phase in PHASES]
    worker = [Cell("worker", "rollout", fault) for fault in EVERYWHERE if fault != "disk"]
    lost = tuple(f"partition: {how}" for how in ("cut", "dropped", "delayed"))
    parted = tuple(f"partition: {how}" for how in ("request dropped", "answer dropped", "silent", "delayed"))
    verbs = ("gradient", "update", "checkpoint")
    others = {
        "rank": (("rollout", *verbs), EVERYWHERE),
        "server": (("rollout", *verbs), EVERYWHERE),
        "sampler": (("rollout", "gradient"), (*EVERYWHERE, *lost)),
        "learner": (("rollout", *verbs), (*EVERYWHERE, *lost)),
    }
    found = [Cell(actor, phase, fault) for actor, (phases, faults) in others.items() for fault in faults
             for phase in phases]  # fmt: skip
    found += [Cell("server", phase, fault) for fault in parted for phase in verbs]
    return [*driver, *worker, *found]


class Board:
    """A few shared numbers: how often each phase was entered, where to wait, and the records that are stored."""

    def __init__(self, path: Path) -> None:
        size = len(PHASES) + 5
        if not path.exists():
            path.write_bytes(bytes(8 * size))
        self._of = np.memmap(path, dtype=np.int64, mode="r+", shape=(size,))

    def enter(self, phase: str) -> None:
        place = PHASES.index(phase)
        self._of[place] += 1
        if self._of[-4] == place and self._of[place] == self._of[-3]:
            self._of[-2] = 1
            while self._of[-2]:
                time.sleep(0.0005)

    def entered(self, phase: str) -> int:
        return int(self._of[PHASES.index(phase)])

    def arm(self, phase: str, occurrence: int) -> None:
        """Have the run wait where it enters a phase for this time."""
        self._of[-4], self._of[-3] = PHASES.index(phase), occurrence

    @property
    def waits(self) -> bool:
        return bool(self._of[-2])

    @property
    def back(self) -> float:
        """Seconds by which the clock was set back."""
        return float(self._of[-5])

    def set_back(self) -> None:
        self._of[-5] = DAY

    def release(self) -> None:
        self._of[-3], self._of[-2] = 0, 0

    def store(self, records: int) -> None:
        self._of[-1] = max(self._of[-1], records)

    @property
    def stored(self) -> int:
        return int(self._of[-1])


def forked(
    environment: dict[str, str], log: Path, home: Path, folder: Path, words: list[str], network: str = ""
) -> None:
    """Entry of a forked run. Args: network: the namespace in which it runs; empty: that of this process."""
    if network:
        with open(f"/run/netns/{network}") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
    os.environ.clear()
    os.environ.update(environment)
    os.setpgid(0, 0)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    child(folder, Board(home / "board"), words)


def child(folder: Path, board: Board, words: list[str]) -> None:
    """Train, or resume if the folder holds a run, and say which phase it is in."""
    from gnomon.cli import main
    from gnomon.learners.local import LocalLearner
    from gnomon.learners.remote import RemoteLearner
    from gnomon.learners.served import ServedLearner
    from gnomon.rollout.remote_runner import RemoteRunner
    from gnomon.rollout.runner import LocalRunner
    from gnomon.store import Run

    def noting(kind: Any, name: str, phase: str, after: Callable[[Any], None] = lambda self: None) -> None:
        real = getattr(kind, name)

        def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
            board.enter(phase)
            found = real(self, *args, **kwargs)
            after(self)
            return found

        setattr(kind, name, noted)

    for runner in (LocalRunner, RemoteRunner):
        noting(runner, "run", "rollout")
    learners: list[Any] = [LocalLearner, RemoteLearner, ServedLearner]
    if "learner=ray" in words:
        from gnomon_ray.learner import RayLearner

        learners.append(RayLearner)
    for learner in learners:
        noting(learner, "forward_backward", "gradient")
        noting(learner, "optim_step", "update")
    clock = time.time
    time.time = lambda: clock() - board.back
    noting(Run, "append", "record", lambda run: board.store(run._count))
    noting(Run, "commit_checkpoint", "checkpoint")
    there = (folder / "journal.db").exists()
    sys.argv = ["gnomon", *(["resume", str(folder)] if there else ["train", "char_count", *words, f"run={folder}"])]
    main()


# Processes.


def processes(mark: str) -> dict[int, tuple[int, str]]:
    """The processes of a trial, by id: parent and command line."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            state, parent = (path / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z" and f"{MARK}={mark}".encode() in (path / "environ").read_bytes():
                words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(path.name)] = int(parent), words
    return found


def workers(mark: str) -> list[int]:
    """Processes of the environment: those that fork servers forked, and that have no children."""
    found = processes(mark)
    parents = {parent for parent, _ in found.values()}
    return [pid for pid, (_, words) in found.items() if "gnomon.workers" in words and pid not in parents]


def ranks(mark: str) -> list[int]:
    found = {pid: parent for pid, (parent, words) in processes(mark).items() if "launch.ranks" in words}
    return [pid for pid, parent in found.items() if parent in found]


def samplers(mark: str) -> list[int]:
    return [pid for pid, (_, words) in processes(mark).items() if words.startswith("ray::Sampler")]


def learners(mark: str) -> list[int]:
    return [pid for pid, (_, words) in processes(mark).items() if words.startswith("ray::Trainer")]


def send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def limit_memory(pid: int) -> None:
    """The process may have no more address space than it has now."""
    with suppress(ProcessLookupError, FileNotFoundError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        size = pages * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (size, size))


def slow(pid: int) -> None:
    end = time.monotonic() + 3.0
    while time.monotonic() < end:
        send(pid, signal.SIGSTOP)
        time.sleep(0.08)
        send(pid, signal.SIGCONT)
        time.sleep(0.02)


# The network between the run and the server.


class Proxy:
    """Forwards connections to a port. `how` decides what becomes of the next one."""

    def __init__(self, port: int) -> None:
        self.to, self.how, self.port = port, "", 0
        self._loop, ready = asyncio.new_event_loop(), threading.Event()

        async def serve() -> None:
            server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()

        self._loop.create_task(serve())
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        ready.wait()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        how = self.how
        if how not in ("delayed", "silent"):
            self.how = ""
        if how == "request dropped":
            writer.transport.abort()
            return
        if how == "silent":
            await asyncio.sleep(3600)
        try:
            there, away = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.transport.abort()
            return

        async def forward(source: asyncio.StreamReader, target: asyncio.StreamWriter, back: bool) -> None:
            with suppress(OSError):
                while data := await source.read(2**16):
                    if how == "delayed":
                        await asyncio.sleep(0.3)
                    if how == "answer dropped" and back:
                        writer.transport.abort()
                        return
                    target.write(data)
                    await target.drain()
                target.close()

        await asyncio.gather(forward(reader, away, False), forward(there, writer, True))


class Nodes:
    """A Ray cluster of two nodes, whose network is a `Network`. What has the resource `far` runs on the second."""

    def __init__(self, environment: dict[str, str], home: Path) -> None:
        access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
        environment |= access
        self.network, self.address = Network(), f"{ADDRESSES[0]}:{PORT}"
        self._environment, self._log = environment, home / "cluster"
        self.files = Path(tempfile.mkdtemp(prefix="gn"))  # Ray's sockets need a short path.
        head = ["--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={self.files}"]
        self._start(0, *head, "--num-cpus=8")
        self._start(1, f"--address={self.address}", "--num-cpus=8", '--resources={"far": 8}')

    def _start(self, node: int, *words: str) -> None:
        command = [
            "ip",
            "netns",
            "exec",
            self.network.names[node],
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
        ]
        command += [f"--node-ip-address={ADDRESSES[node]}", *words]
        with self._log.open("ab") as log:
            subprocess.run(command, env=self._environment, check=True, stdout=log, stderr=log)

    def strike(self, how: str) -> None:
        """Until `end`, no packet arrives, some are dropped, or all are late."""
        network = self.network
        network.cut, network.loss, network.delay = how == "cut", LOSS * (how == "dropped"), DELAY * (how == "delayed")

    def end(self) -> None:
        self.network.cut, self.network.loss, self.network.delay = False, 0.0, 0.0


# Trials.


class Process:
    """A forked run."""

    def __init__(self, of: Any) -> None:
        self._of, self.pid = of, int(of.pid)

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._of.exitcode  # type: ignore[no-any-return]

    def wait(self) -> int:
        self._of.join()
        return int(self._of.exitcode)


class Trial:
    """One run with all its processes. Args: home: its folder, which is on the small file system for full disks."""

    def __init__(self, cell: Cell, home: Path) -> None:
        self.cell, self.home, self.mark = cell, home, secrets.token_hex(8)
        self.board, self.folder, self.log = Board(home / "board"), home / "run", home / "log"
        self.environment = {**os.environ, MARK: self.mark, "OMP_NUM_THREADS": "1", "GNOMON_LEARNER_TOKEN": "t"}
        self.words, self.undo = [*SETTINGS, *PLACES[cell.actor]], list[Callable[[], None]]()
        self.server: subprocess.Popen[bytes] | None = None
        self.port = 0
        """Of the server; 0 until it has one."""
        self.proxy: Proxy | None = None
        self.nodes: Nodes | None = None
        if cell.fault == "disk":
            self._small_disk()
        if cell.fault == "clock" and cell.actor != "driver":
            self._other_clock()
        if cell.fault.startswith("partition") and cell.actor != "server":
            self.nodes = Nodes(self.environment, home)
            self.words += [f"launch.address={self.nodes.address}"]
            self.words += ["launch.learner.far=1" if cell.actor == "learner" else "launch.resources.far=1"]
        if cell.actor == "server":
            self._serve()

    def _small_disk(self) -> None:
        disk = self.home / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "tmpfs", disk], check=True)
        if self.cell.actor == "driver":
            self.folder = disk / "run"
        else:
            self.environment |= {"TMPDIR": str(disk), "RAY_TMPDIR": tempfile.gettempdir()}

    def _other_clock(self) -> None:
        source, library = self.home / "clock.c", self.home / "clock.so"
        source.write_text(LIBRARY)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        (self.home / "clock").write_bytes(bytes(16))
        self.environment |= {CLOCK: str(self.home / "clock"), "LD_PRELOAD": str(library)}

    def _serve(self) -> None:
        command = [sys.executable, "-m", "gnomon", "serve-learner", "char_count", *self.words, f"--port={self.port}"]
        self.server = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=self.log.open("ab")
        )
        assert self.server.stdout is not None
        line = self.server.stdout.readline().decode()
        self.port = int(line.rpartition(":")[2])
        if self.cell.fault.startswith("partition"):
            self.proxy = Proxy(self.port)
        self.url = f"learner=http://127.0.0.1:{self.proxy.port if self.proxy else self.port}"

    def begin(self) -> Process:
        """Start the run, or resume it."""
        words = [*self.words, self.url] if self.server else self.words
        network = self.nodes.network.names[0] if self.nodes else ""
        of = FORKS.Process(target=forked, args=(self.environment, self.log, self.home, self.folder, words, network))
        of.start()
        return Process(of)

    def target(self, run: Process) -> int:
        """The process to strike."""
        of = {"worker": workers, "rank": ranks, "sampler": samplers, "learner": learners}
        if self.cell.actor in of:
            return sorted(of[self.cell.actor](self.mark))[-1]
        return self.server.pid if self.server else run.pid

    def strike(self, run: Process) -> None:
        """Strike. The run waits at the phase until `release`."""
        fault, pid = self.cell.fault, self.target(run)
        if self.cell.actor in ("driver", "server") or fault == "memory":
            self._struck(fault, pid)
            self.board.release()
        else:  # While the other process is at work.
            self.board.release()
            time.sleep(0.005)
            self._struck(fault, pid)

    def _struck(self, fault: str, pid: int) -> None:
        match fault:
            case "kill":
                send(pid, signal.SIGKILL)
            case "stop":
                send(pid, signal.SIGSTOP)
                if self.cell.actor not in ("worker", "rank", "sampler", "learner"):
                    threading.Timer(HELD, send, (pid, signal.SIGCONT)).start()
            case "slow":
                threading.Thread(target=slow, args=(pid,)).start()
            case "memory":
                limit_memory(pid)
            case "disk":
                ballast = self.home / "disk" / "ballast"
                with suppress(OSError), ballast.open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(2**12))
                self.undo.append(ballast.unlink)
            case "clock" if self.cell.actor == "driver":
                self.board.set_back()
            case "clock":
                np.memmap(self.home / "clock", dtype=np.int64, mode="r+", shape=(2,))[:] = pid, DAY
            case _ if self.nodes is not None:
                self.nodes.strike(fault.partition(": ")[2])
                threading.Timer(HELD, self.nodes.end).start()
            case _:
                assert self.proxy is not None
                self.proxy.how = fault.partition(": ")[2]

    def end_fault(self) -> None:
        """The fault is over: space, network and server are there again."""
        for action in self.undo:
            action()
        self.undo = []
        if self.proxy is not None:
            self.proxy.how = ""
        if self.server is not None and (self.server.poll() is not None or self.cell.fault == "memory"):
            self.server.kill()
            self.server.wait()
            self._serve()

    def code(self, run: Process) -> str:
        if (run.status or 0) < 0:
            return "signal"
        found = re.findall(rb"error\[(E\d+)\]|\b(E\d{3})\b", self.log.read_bytes())
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        return next((a or b).decode() for a, b in reversed(found)) if found else (lines or ["?"])[-1][:100]

    def left(self) -> dict[int, tuple[int, str]]:
        """The processes that have not ended in time."""
        deadline = time.monotonic() + LEFT
        while (found := self._own()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def _own(self) -> dict[int, tuple[int, str]]:
        """The processes of the run: without those of Ray, if there was a cluster before the run."""
        found = processes(self.mark)
        if self.nodes is None:
            return found
        ours = ("gnomon", "ray::Sampler", "ray::Trainer")
        return {pid: each for pid, each in found.items() if any(word in each[1] for word in ours)
                and "/site-packages/ray/" not in each[1]}  # fmt: skip

    def close(self) -> None:
        if self.server is not None:
            self.server.terminate()
            self.server.wait()

    def clear(self) -> None:
        for pid in processes(self.mark):
            send(pid, signal.SIGKILL)
        if self.nodes is not None:
            self.nodes.network.close()
            shutil.rmtree(self.nodes.files, ignore_errors=True)
        if (self.home / "disk").exists():
            subprocess.run(["umount", "-l", self.home / "disk"], check=False)
        shutil.rmtree(self.home, ignore_errors=True)


def ended(trial: Trial, occurrence: int) -> Found:
    """Strike a run once, and let it end."""
    from gnomon.store import RunReader

    found, board = Found(trial.cell), trial.board
    board.arm(trial.cell.phase, occurrence)
    run, deadline = trial.begin(), time.monotonic() + LONG
    while not board.waits and run.status is None:
        time.sleep(0.0005)
    if run.status is not None:
        raise SystemExit(f"the run ended before its phase: {trial.log}")
    before, began = board.stored, time.monotonic()
    trial.strike(run)
    while True:
        if not found.seconds and board.stored > before:
            found.seconds = time.monotonic() - began
        if run.status is not None:
            if not run.status or found.resumed == 3:
                break
            found.errors.append(trial.code(run))
            trial.end_fault()
            with RunReader(trial.folder) as reader:
                saved = max((int(p.name) for p in (trial.folder / "checkpoints").glob("[0-9]*")), default=0)
                found.steps += reader.steps - saved
            found.resumed += 1
            run = trial.begin()
        if time.monotonic() > deadline:
            found.errors.append("hung")
            send(run.pid, signal.SIGKILL)
            run.wait()
            break
        time.sleep(0.002)
    return found


def measured(cell: Cell, wanted: str, times: dict[str, int]) -> Found:
    """A trial with its figures. Args: wanted: the fingerprint; times: how often a run enters each phase."""
    from gnomon.store import RunReader, verify

    trial = Trial(cell, Path(tempfile.mkdtemp(prefix="gnomon-faults-")))
    keep = True
    try:
        found = ended(trial, max(1, round(0.8 * times[cell.phase])))
        found.rollouts = trial.board.entered("rollout") - times["rollout"]
        with RunReader(trial.folder) as reader:
            found.equal = reader.complete and reader.fingerprint == wanted and bool(verify(trial.folder))
        trial.close()
        found.left = len(trial.left())
        keep = not found.equal
    finally:
        if keep:
            print(f"kept: {trial.log}", flush=True)
        else:
            trial.clear()
    return found


def untouched(actor: str) -> tuple[str, dict[str, int]]:
    """Fingerprint of a run that nobody touches, and how often it enters each phase."""
    from gnomon.store import RunReader

    trial = Trial(Cell(actor, "rollout", ""), Path(tempfile.mkdtemp(prefix="gnomon-faults-")))
    if trial.begin().wait():
        raise SystemExit(f"the run that nobody touched failed: {trial.log}")
    with RunReader(trial.folder) as reader:
        found = reader.fingerprint
    trial.close()
    times = {phase: trial.board.entered(phase) for phase in PHASES}
    trial.clear()
    return found, times


def table(found: list[Found]) -> Iterator[str]:
    """The results as Markdown, one line for each actor and fault."""
    yield "| struck | fault | phases | what happens | rollouts again | steps repeated | seconds | equal |"
    yield "|---|---|---|---|---|---|---|---|"
    for actor, fault in dict.fromkeys((each.cell.actor, each.cell.fault) for each in found):
        some = [each for each in found if (each.cell.actor, each.cell.fault) == (actor, fault)]
        codes = sorted({code for each in some for code in each.errors})
        resumed = sum(bool(each.resumed) for each in some)
        what = "goes on" if not resumed else f"{resumed} of {len(some)} resumed ({', '.join(codes)})"
        seconds = [each.seconds for each in some]
        yield (
            f"| {actor} | {fault} | {', '.join(each.cell.phase for each in some)} | {what} "
            f"| {max(each.rollouts for each in some)} | {max(each.steps for each in some)} "
            f"| {median(seconds):.1f}, {max(seconds):.1f} | {sum(each.equal for each in some)} of {len(some)} |"
        )


@contextmanager
def numbered(chosen: list[Cell]) -> Iterator[dict[str, tuple[str, dict[str, int]]]]:
    """The runs that nobody touched, of each actor that is struck."""
    wanted = {actor: untouched(actor) for actor in dict.fromkeys(cell.actor for cell in chosen)}
    one = {fingerprint for actor, (fingerprint, _) in wanted.items() if actor != "rank"}
    if len(one) > 1:
        raise SystemExit(f"runs that nobody touched differ: {wanted}")
    yield wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="*", default=[""], help="trials whose name ACTOR/PHASE/FAULT contains one of these"
    )
    parser.add_argument(
        "--save", type=Path, help="add the results to this file, as JSON lines, and show all that it has"
    )
    options = parser.parse_args()
    chosen = [cell for cell in cells() if any(part in cell.name for part in options.only)]
    results = []
    with numbered(chosen) as wanted:
        for cell in chosen:
            found = measured(cell, *wanted[cell.actor])
            results.append(found)
            print(json.dumps({"name": cell.name, **asdict(found)} | {"cell": None}), flush=True)
            if options.save:
                with options.save.open("a") as file:
                    file.write(json.dumps(asdict(found)) + "\n")
    if options.save:
        lines = map(json.loads, options.save.read_text().splitlines())
        results = [Found(**{**line, "cell": Cell(**line["cell"])}) for line in lines]
    print("\n".join(table(results)))
    good = sum(each.equal and not each.left for each in results)
    print(f"{good} of {len(results)} equal, with no process left")
    return 0 if good == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
