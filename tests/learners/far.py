"""Learners in another process, driven by what can be pickled without a function: `python far.py THREADS`."""

from __future__ import annotations

import importlib
import pickle
import struct
import subprocess
import sys
from enum import Enum
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import torch

from gnomon.learners.critic import Critic
from gnomon.learners.local import LocalLearner, Terms
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision

PLAIN = {
    "gnomon.learners.base": {"Model", "Named"},
    "gnomon.learners.batch": {"Batch", "TokenSequence"},
    "gnomon.models.weights": {"Kind", "WeightsRef"},
    "gnomon.objectives.credit": {"Rollouts"},
    "gnomon.objectives.tokens": {"Coefficients", "Denominators"},
    "gnomon.stats": {"At", "Max", "Mean", "Quantile", "Sum"},
    "array": {"_array_reconstructor", "array"},
    "collections": {"OrderedDict"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct"},
    "numpy._core.numeric": {"_frombuffer"},
    "pathlib": {"Path", "PosixPath"},
    "torch._utils": {"_rebuild_tensor_v2"},
    "torch.storage": {"_load_from_bytes"},
}
"""Everything that a message may be made of: records, enumerations, arrays and paths. Nothing that can be called on."""


class Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in PLAIN.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} does not travel")
        return getattr(importlib.import_module(module), name)


class Travelling(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:
        """A member of an enumeration by its value. Some versions of Python write it with `getattr`."""
        return (type(value), (value.value,)) if isinstance(value, Enum) else NotImplemented


def send(to: BinaryIO, message: object) -> None:
    buffer = BytesIO()
    Travelling(buffer).dump(message)
    raw = buffer.getvalue()
    to.write(struct.pack("<Q", len(raw)) + raw)
    to.flush()


def receive(source: BinaryIO) -> Any:
    (size,) = struct.unpack("<Q", source.read(8))
    return Plain(BytesIO(source.read(size))).load()


def built(*, dtype: str, critic: bool, reference: bool, entropy: float, published: str | None) -> LocalLearner:
    precision = Precision(compute=getattr(torch, dtype))
    return LocalLearner(
        Policy.load("tiny", precision),
        terms=Terms(entropy=entropy),
        critic=Critic(Policy.load("tiny", precision), lr=1e-3) if critic else None,
        reference=Policy.load("tiny", Precision.only(precision.compute)) if reference else None,
        published=Path(published) if published else None,
    )


class Process:
    """Holds one learner after the other."""

    def __init__(self) -> None:
        words = [sys.executable, __file__, str(torch.get_num_threads())]
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, verb: str, *args: object, **options: object) -> Any:
        assert self.child.stdin and self.child.stdout
        send(self.child.stdin, (verb, args, options))
        return receive(self.child.stdout)

    def close(self) -> None:
        self.child.kill()
        self.child.communicate()


class Far:
    """A new learner in a process, its every verb a message."""

    def __init__(self, process: Process, settings: dict[str, Any]) -> None:
        self.process = process
        process.ask("built", **settings)

    def __getattr__(self, verb: str) -> Any:
        return partial(self.process.ask, verb)


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]))
    source, to = sys.stdin.buffer, sys.stdout.buffer
    learner = None
    while True:
        verb, args, options = receive(source)
        if verb == "built":
            learner = built(**options)
            send(to, None)
        else:
            send(to, getattr(learner, verb)(*args, **options))


if __name__ == "__main__":
    main()
