"""Test an environment in a fresh process: the same tasks, the same verdicts, and verdicts on hostile texts.

The process has a deadline, so a verifier that hangs or ends its process is also detected.
"""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

from gnomon.envs.base import Env
from gnomon.envs.blame import blamed_line, describe
from gnomon.envs.episodes import Fault, interrupt, judge, lines, play, replies, slot, turns
from gnomon.import_path import inherited_path
from gnomon.types import Task
from gnomon.verifiers.hostile import hostile
from gnomon.workers import Carried, pack_value
from gnomon.workers.fork_server import WORKER

__all__ = ["SECONDS", "elsewhere"]

SECONDS = 1.0
"""Time limit of one verdict."""
LONG = 10_000
"""Texts shorter than this, in characters, are tried in every turn; longer ones in the first and the last turn."""
PATIENCE = 10.0
"""Seconds without a report after which the process is killed."""
LOADING = 60.0
"""Seconds until the first report, which includes the imports of the environment."""


def elsewhere(env: Env, count: int) -> tuple[list[tuple[str, Any]], str]:
    """The reports of `testify` in a fresh process with another PYTHONHASHSEED, and its failure, if any."""
    here, there = Pipe()
    settings = {
        "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
        "PYTHONPATH": os.pathsep.join(inherited_path()),
        WORKER: "1",
    }
    command = f"from gnomon.envs.witness import serve; serve({there.fileno()})"
    reports: list[tuple[str, Any]] = []
    with here:
        payload = pickle.dumps((Carried.of(env), count))
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", command],
            pass_fds=[there.fileno()], env={**os.environ, **settings}, stdin=quiet, stdout=quiet, stderr=quiet,
        )  # fmt: skip
        try:
            there.close()
            here.send_bytes(payload)
            while here.poll(PATIENCE if reports else LOADING):
                kind, value = pickle.loads(here.recv_bytes())
                if kind == "end":
                    return reports, str(value)
                reports.append((kind, value))
            return reports, f"no answer within {PATIENCE if reports else LOADING:g} s"
        except (EOFError, ConnectionError):
            return reports, f"the process ended with exit status {process.wait()}"
        finally:
            process.kill()
            process.wait()


def serve(descriptor: int) -> None:
    """The other end of `elsewhere`."""
    with Connection(descriptor) as channel:
        try:
            carried, count = pickle.loads(channel.recv_bytes())
            for message in testify(carried.load(), count):
                channel.send_bytes(pack_value(message))
            channel.send_bytes(pack_value(("end", "")))
        except BaseException as error:
            channel.send_bytes(pack_value(("end", describe(error))))


def testify(env: Env, count: int) -> Iterator[tuple[str, Any]]:
    """Yield reports: tasks, verdicts, and the judging of hostile texts."""
    tasks = env.tasks("train")
    first = [tasks[index] for index in range(min(count, 5))]
    for index in reversed(range(count)):
        yield "task", (index, tasks[index])
    for index, task in enumerate(first):
        for reply in replies(env, first, index):
            yield "verdict", (index, reply, judge(env, task, reply))
    for index in range(len(first)):
        for number, say in enumerate(lines(env, first, index)):
            yield "episode", (index, number, play(env, first[index], say))
    longest = max(first, key=lambda task: turns(env, task))
    every = range(turns(env, longest))
    for entry in hostile():
        name, text = entry.name, entry.text
        yield from attempts(env, longest, name, text, (0, every[-1]))
        inner = every if len(text) < LONG else (0, every[-1])
        yield from attempts(env, longest, f"{name}, in the slot", slot(text, env), inner)


def attempts(env: Env, task: Task, form: str, reply: str, after: Iterable[int]) -> Iterator[tuple[str, Any]]:
    for turn in sorted(set(after)):
        yield "try", (label := form + (f", in turn {turn + 1}" if turn else ""))
        yield "outcome", (label, *complaint(env, task, reply, turn))


def waiting_seconds() -> float:
    """Seconds for which this thread could run and had no processor; 0 where the kernel does not count them."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def complaint(env: Env, task: Task, reply: str, after: int) -> tuple[str, str]:
    """The fault in judging a hostile reply, and where; empty if there is none.

    A slow reply is judged once more and the shorter time counts. Time in which this thread had to wait for a processor
    does not count, because the machine may be busy.
    """
    seconds = math.inf
    for _ in range(2):
        began = perf_counter() - waiting_seconds()
        try:
            verdict = interrupt(env, task, reply, after)
        except Fault as fault:
            return str(fault), ""
        except BaseException as error:
            return describe(error), blamed_line(error, env)
        if verdict.correct:
            return "judged correct", ""
        seconds = min(seconds, perf_counter() - waiting_seconds() - began)
        if seconds <= SECONDS:
            return "", ""
    return f"took {seconds:.1f} s", ""
