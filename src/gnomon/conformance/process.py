"""A trainer in an interpreter of its own, asked over pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Timer
from typing import Any

import torch
from torch import Tensor

from gnomon.errors import ConfigError, ResourceError

__all__ = ["Trainer", "trainer"]

HERE = Path(__file__).parent
ADAPTERS = {name: HERE / f"{name}_adapter.py" for name in ("trl", "verl", "openrlhf", "areal")}
"""Adapters that are shipped, by the name of the library."""
SERVE = HERE / "serve.py"
SECONDS = 600.0
"""How long a trainer may take to load, and for the gradient of a batch."""
PYTHON = "name the interpreter that has the trainer, such as --python ../trainer/.venv/bin/python"
REFUSE = "raise NotImplementedError where the trainer does not offer what the batch asks for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """What is tested."""

    gradient: Callable[[dict[str, Any]], dict[str, Tensor]]
    """The body of a batch to the gradient of the loss. NotImplementedError: the trainer does not offer it."""
    objectives: Mapping[str, str]
    """The row of each objective that the trainer has, by its own name for it. Empty: its names are those of rows."""


@contextmanager
def trainer(word: str, python: str = sys.executable) -> Iterator[Trainer]:
    """A trainer by its name or as `file.py:function`, in a process of that interpreter, which ends with the block."""
    file, _, function = (f"{ADAPTERS[word]}:gradient" if word in ADAPTERS else word).rpartition(":")
    if not file or not Path(file).is_file():
        raise ConfigError(
            "E095", f"{word} is not a trainer", where=f"the command line: {word}",
            why=f"a trainer is {' or '.join(ADAPTERS)}, or a function gradient(batch) as file.py:gradient",
            fix="gnomon conform trl",
        )  # fmt: skip
    words = [python, str(SERVE), file, function]
    try:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", env=quiet())
    except OSError as error:
        why = f"{python}: {error.strerror}"
        fix = "name an interpreter that exists, such as --python .venv/bin/python"
        raise ConfigError(
            "E095", "the trainer's interpreter cannot be started", where="--python", why=why, fix=fix
        ) from error
    with process:
        try:
            start = receive(process)
            if "error" in start:
                raise failure("the file of the trainer cannot be loaded", start["error"], "repair it")
            yield Trainer(gradient=lambda body: gradient(process, body), objectives=start["objectives"])
        finally:
            process.kill()


def quiet() -> dict[str, str]:
    silent = {"PYTHONWARNINGS": "ignore", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    return {**os.environ, **silent, "TOKENIZERS_PARALLELISM": "false"}


def receive(process: subprocess.Popen[str]) -> dict[str, Any]:
    """A line of the process. Raises: ResourceError E546 where it ends before that, or takes longer than `SECONDS`."""
    assert process.stdout
    late = Event()

    def end() -> None:
        late.set()
        process.kill()

    limit = Timer(SECONDS, end)
    limit.daemon = True
    limit.start()
    line = process.stdout.readline()
    limit.cancel()
    if late.is_set():
        fix = "call the function by itself, in the interpreter of the trainer, and see where it waits"
        raise ResourceError("E546", f"the trainer did not answer within {SECONDS:g} s", fix=fix)
    if not line:
        raise ResourceError(
            "E546", "the process of the trainer ended", why=f"its exit code is {process.wait()}; its error is above",
            fix="start the file by itself, in the interpreter of the trainer, and repair what it raises",
        )  # fmt: skip
    reply: dict[str, Any] = json.loads(line)
    return reply


def gradient(process: subprocess.Popen[str], body: dict[str, Any]) -> dict[str, Tensor]:
    assert process.stdin
    try:
        process.stdin.write(json.dumps(body) + "\n")
        process.stdin.flush()
    except BrokenPipeError:  # It has ended; `receive` says so.
        with suppress(BrokenPipeError):
            process.stdin.close()
    reply = receive(process)
    if "refused" in reply:
        raise NotImplementedError(reply["refused"])
    if "error" in reply:
        raise failure("the trainer raised an error", reply["error"], REFUSE)
    if "wrong" in reply:
        raise ConfigError(
            "E096", "what the trainer returns is not a gradient", why=reply["wrong"],
            fix="return {name: value.grad for name, value in model.named_parameters()}, zeros where there is none",
        )  # fmt: skip
    return {
        name: torch.tensor(values, dtype=torch.float64).reshape(shape)
        for name, (shape, values) in reply["values"].items()
    }


def failure(what: str, traceback: str, fix: str) -> ResourceError:
    *_, last = traceback.strip().splitlines()
    if last.startswith(("ImportError", "ModuleNotFoundError")):
        fix = PYTHON
    return ResourceError("E546", what, why=last.replace("trainer.", "", 1), where=place_in(traceback), fix=fix)


def place_in(traceback: str) -> str:
    """The last line of the trainer's code that it names."""
    lines = [line.strip() for line in traceback.splitlines() if line.startswith("  File ")]
    return next((line for line in reversed(lines) if str(SERVE) not in line and "<frozen" not in line), "")
