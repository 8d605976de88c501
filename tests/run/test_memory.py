"""Memory that is used up is an error with a way out, wherever it happened."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
import torch

import gnomon
from gnomon.errors import ResourceError
from gnomon.learners.local import LocalLearner
from gnomon.run.session import memory_errors
from gnomon.store import RunReader, RunStatus


def python() -> None:
    raise MemoryError


def fork() -> None:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


def primitive() -> None:
    raise RuntimeError("could not create a primitive")


def too_much() -> None:
    torch.empty(1 << 50, dtype=torch.uint8)


@pytest.mark.parametrize("ask", [python, fork, primitive, too_much])
def test_memory_that_is_used_up_is_told(tmp_path, ask: Callable[[], None]):
    with pytest.raises(ResourceError, match=r"(?s)E513.*intact.*gnomon resume"), memory_errors(tmp_path):
        ask()


def test_other_errors_stay_as_they_are(tmp_path):
    for error in (RuntimeError("shape mismatch"), FileNotFoundError("x")):
        with pytest.raises(type(error)) as caught, memory_errors(tmp_path):
            raise error
        assert caught.value is error


def test_a_run_without_memory_fails_and_goes_on(tmp_path, monkeypatch):
    """The error names the resume, and the resumed run ends."""
    small = {"steps": 2, "prompts": 2, "group": 2, "eval": {"tasks": 2, "samples": 1}, "save": {"every": 1}}
    real, calls = LocalLearner.optim_step, 0

    def step(learner: LocalLearner, lr: float) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            too_much()
        return real(learner, lr)

    monkeypatch.setattr(LocalLearner, "optim_step", step)
    with pytest.raises(ResourceError, match="E513"):
        gnomon.train("char_count", run=tmp_path / "run", quiet=True, threads=1, **small)
    with RunReader(tmp_path / "run") as run:
        assert run.status is RunStatus.FAILED and run.steps == 1 and "E513" in run.reason
    with gnomon.resume(tmp_path / "run") as run:
        assert run.complete
