"""Failures of the verifier are counted by cause, and a gain that they alone could make is not mistaken for learning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from commands import command
from gnomon.integrations.imports.rollout import Foreign, single_turn, task_of
from gnomon.integrations.imports.run import ImportedRun
from gnomon.monitoring.failures import ERRORS, Window, bound, failures
from gnomon.store import RunReader
from gnomon.types import Message

GROUPS, SIZE, RUNS = 40, 8, 1000
Fail = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def hiding(right: bool, share: float) -> Fail:
    """Failures that hit right replies alone, or wrong ones, so that this share of all rollouts fails."""

    def fail(scores: np.ndarray, drawn: np.random.Generator) -> np.ndarray:
        hit = scores == float(right)
        return hit & (drawn.random(scores.shape) < share / max(hit.mean(), 1e-9))

    return fail


def anywhere(share: float) -> Fail:
    return lambda scores, drawn: drawn.random(scores.shape) < share


def window(rates: np.ndarray, fail: Fail, drawn: np.random.Generator) -> Window:
    scores = (drawn.random((GROUPS, SIZE)) < rates[:, None]).astype(float)
    failed = fail(scores, drawn)
    groups = [list(row[~lost]) for row, lost in zip(scores, failed, strict=True)]
    return Window([group for group in groups if group], int(failed.sum()))


def mistaken(first: Fail, last: Fail, gain: float = 0.0) -> tuple[int, int]:
    """Of 1,000 runs: how many seem to gain by their standard errors alone, and how many by the bound."""
    drawn = np.random.default_rng(7)
    naive = bounded = 0
    for _ in range(RUNS):
        rates = drawn.beta(2, 2, GROUPS) * 0.6 + 0.1
        before = window(rates, first, drawn)
        after = window(drawn.permutation(rates) + gain, last, drawn)
        seen = after.mean - before.mean
        naive += seen > ERRORS * np.hypot(before.error, after.error)
        bounded += seen > bound(before, after, 0.0, 1.0)
    return naive, bounded


def test_failures_that_hide_right_replies_early_and_wrong_ones_late_do_not_pass_for_a_gain() -> None:
    """2.5 % of noise is allowed; 45 of 1,000 is four standard errors above it."""
    naive, bounded = mistaken(hiding(True, 0.1), hiding(False, 0.1))
    assert naive > 500 and bounded < 45, (naive, bounded)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (anywhere(0.1), anywhere(0.1)),
        (hiding(True, 0.15), anywhere(0.0)),
        (anywhere(0.02), hiding(False, 0.15)),
        (hiding(True, 0.05), hiding(True, 0.05)),
    ],
)
def test_other_failures_pass_less_often_still(first: Fail, last: Fail) -> None:
    assert mistaken(first, last)[1] < 45


def test_a_large_gain_is_seen_in_spite_of_failures() -> None:
    assert mistaken(anywhere(0.05), anywhere(0.05), gain=0.3)[1] > 800


def test_the_bound_without_noise_is_the_worst_case() -> None:
    """Of 10 rollouts 2 failed and 4 of 8 were right: between 4 and 6 of 10. Last, none failed."""
    first = Window([[1.0, 0.0]] * 4, 2)
    last = Window([[1.0, 0.0]] * 5, 0)
    assert first.error == last.error == 0
    assert bound(first, last, 0.0, 1.0) == pytest.approx(0.6 - 0.5)
    assert bound(last, first, 0.0, 1.0) == pytest.approx(5 / 8 - 0.5)


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    """Ten steps of four tasks: long replies to one task time out."""
    with ImportedRun(tmp_path / "run", format="test", correct="reward >= 1") as run:
        for step in range(10):
            rollouts = []
            for task in range(4):
                for sample in range(4):
                    long = task == 3 and sample > 0
                    rollouts.append(foreign(step, task, sample, "TimeoutError: 3.1 s" if long else ""))
            run.step(step, rollouts)
    return tmp_path / "run"


def foreign(step: int, task: int, sample: int, failed: str) -> Foreign:
    prompt = (Message(role="user", content=f"Question {task}?"),)
    ids = range(60 if failed else 5)
    return Foreign(
        task=task_of(prompt), turns=single_turn(prompt, "word", token_ids=ids), source="here", step=step,
        reward=None if failed else float(sample < 2), failed=failed,
    )  # fmt: skip


def test_an_imported_run_has_an_account(imported: Path) -> None:
    with RunReader(imported) as reader:
        found = failures(reader)
    assert found is not None and (found.failed, found.rollouts) == (30, 160)
    assert found.causes == {"TimeoutError: … s": 30}
    assert found.task is not None and found.task > 0.6
    assert found.length == pytest.approx(1.0)
    (curve,) = found.curves
    assert curve.name == "reward" and curve.shares == (3 / 16, 3 / 16) and curve.gain == 0 < curve.bound
    for words in (("show", str(imported)), ("doctor", str(imported))):
        done = command(*words)
        assert "30 of 160 rollouts (18.8%) have no score: TimeoutError: … s 100%" in done.stdout, done.stdout
        assert "could be failures and noise alone" in done.stdout
        facts = json.loads(command(*words, "--json").stdout)["failures"]
        assert facts["failed"] == 30 and facts["curves"]["reward"]["bound"] == curve.bound
    page = imported.parent / "page.html"
    assert command("report", str(imported), str(page)).returncode == 0
    assert "could be failures and noise alone" in page.read_text("utf-8")


def test_a_run_without_failures_has_none(tmp_path: Path) -> None:
    with ImportedRun(tmp_path / "run", format="test", correct="reward >= 1") as run:
        run.step(0, [foreign(0, 0, sample, "") for sample in range(3)])
    with RunReader(tmp_path / "run") as reader:
        assert failures(reader) is None
    assert "have no score" not in command("show", str(tmp_path / "run")).stdout
