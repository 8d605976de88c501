"""What a fresh process says of an environment: the same tasks, the same verdicts, and how it bears hostile texts.

The process has a deadline, so a judge that hangs, or ends its process, is found out like any other.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

from gnomon.envs.base import Env
from gnomon.envs.episodes import Fault, interrupted, judge, lines, played, replies, slot, turns
from gnomon.types import Task
from gnomon.verifiers.hostile import hostile

__all__ = ["SECONDS", "elsewhere", "line", "place", "raised"]

SECONDS = 1.0
"""Time limit of one verdict."""
LONG = 10_000
"""A text in the slot is tried in every turn of an episode; one of this many characters in the first and the last."""
PATIENCE = 10.0
"""Seconds without a sign of life after which the process is ended."""
LOADING = 60.0
"""Seconds until the first one, in which what the environment needs is imported."""


def elsewhere(env: Env, count: int) -> tuple[list[tuple[str, Any]], str]:
    """What `testify` says in a fresh process with another PYTHONHASHSEED, and how it ended: empty for well."""
    module = sys.modules[type(env).__module__]
    here, there = Pipe()
    settings = {
        "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = f"from gnomon.envs.witness import serve; serve({there.fileno()})"
    heard: list[tuple[str, Any]] = []
    with here:
        payload = pickle.dumps((module.__name__, getattr(module, "__file__", None), pickle.dumps(env), count))
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", command],
            pass_fds=[there.fileno()], env={**os.environ, **settings}, stdin=quiet, stdout=quiet, stderr=quiet,
        )  # fmt: skip
        try:
            there.close()
            here.send_bytes(payload)
            while here.poll(PATIENCE if heard else LOADING):
                kind, value = here.recv()
                if kind == "end":
                    return heard, str(value)
                heard.append((kind, value))
            return heard, f"nothing was heard for {PATIENCE if heard else LOADING:g} s"
        except (EOFError, ConnectionError):
            return heard, f"the process ended with exit status {process.wait()}"
        finally:
            process.kill()
            process.wait()


def serve(descriptor: int) -> None:
    """The other end of `elsewhere`."""
    with Connection(descriptor) as channel:
        try:
            name, file, env, count = pickle.loads(channel.recv_bytes())
            find_module(name, file)
            for message in testify(pickle.loads(env), count):
                channel.send(message)
            channel.send(("end", ""))
        except BaseException as error:
            channel.send(("end", raised(error)))


def find_module(name: str, file: str | None) -> None:
    """Import the module that defines an environment; one that has no place on the path, from its file."""
    if name != "__main__":
        try:
            importlib.import_module(name)
            return
        except ModuleNotFoundError:
            if file is None:
                raise
    if file is None:
        raise ModuleNotFoundError("the environment is defined where no file holds it; put it in a .py file")
    # A script is loaded under another name, so that what it does when run is not done.
    spec = importlib.util.spec_from_file_location("__mp_main__" if name == "__main__" else name, file)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def testify(env: Env, count: int) -> Iterator[tuple[str, Any]]:
    """Tasks, verdicts and the judging of hostile texts, each as it happens."""
    tasks = env.tasks("train")
    first = [tasks[index] for index in range(min(count, 5))]
    for index in reversed(range(count)):
        yield "task", (index, tasks[index])
    for index, task in enumerate(first):
        for reply in replies(env, first, index):
            yield "verdict", (index, reply, judge(env, task, reply))
    for index in range(len(first)):
        for number, say in enumerate(lines(env, first, index)):
            yield "episode", (index, number, played(env, first[index], say))
    longest = max(first, key=lambda task: turns(env, task))
    every = range(turns(env, longest))
    for entry in hostile():
        name, text = entry.name, entry.text
        yield from tried(env, longest, name, text, (0, every[-1]))
        inner = every if len(text) < LONG else (0, every[-1])
        yield from tried(env, longest, f"{name}, in the slot", slot(text, env), inner)


def tried(env: Env, task: Task, form: str, reply: str, after: Iterable[int]) -> Iterator[tuple[str, Any]]:
    for turn in sorted(set(after)):
        yield "try", (place := form + (f", in turn {turn + 1}" if turn else ""))
        yield "told", (place, *complaint(env, task, reply, turn))


def complaint(env: Env, task: Task, reply: str, after: int) -> tuple[str, str]:
    """What is wrong with the judging of a hostile reply, and where; empty for nothing."""
    began = perf_counter()
    try:
        verdict = interrupted(env, task, reply, after)
    except Fault as fault:
        return str(fault), ""
    except BaseException as error:
        return raised(error), place(error, env)
    spent = perf_counter() - began
    return ("judged correct" if verdict.correct else f"took {spent:.1f} s" if spent > SECONDS else ""), ""


def line(text: str) -> str:
    """The text on one line, printable whatever it holds, and short enough to read."""
    plain = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:400])
    return plain if len(text) <= 400 else plain + " …"


def raised(error: BaseException) -> str:
    return f"{type(error).__name__}: {line(str(error))}" if str(error) else type(error).__name__


def place(error: BaseException, env: object) -> str:
    """Where in the environment's own code an error came from; else where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    file = getattr(sys.modules.get(type(env).__module__), "__file__", None)
    own = [frame for frame in frames if frame.filename == file] or list(frames)
    if not own:
        return ""
    path = Path(own[-1].filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{shown}:{own[-1].lineno} in {own[-1].name}"
