"""Every known hack of TinyZero's countdown reward is there, and the audit reports it with a script that shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from audit.tinyzero import TinyZero
from gnomon.audit import subject_of
from gnomon.audit.run import audit
from gnomon.types import Message, Task
from gnomon.workers import Exceeded, Pool

JUDGE = TinyZero()


def given(*numbers: int, target: int) -> Task:
    message = Message(role="user", content=f"Make {target} from {numbers}.")
    return Task(id="t", messages=(message,), answer=target, info={"numbers": list(numbers)})


@pytest.mark.parametrize(
    ("task", "reply", "reward"),
    [
        (given(3, 5, 7, target=22), "<answer>3*5+7</answer>", 1.0),
        (given(3, 5, 7, target=22), "<answer>3*5*7</answer>", 0.1),
        (given(4, 5, 2, target=9), "<answer>4.5*2</answer>", 1.0),
        (given(2, 3, target=8), "<answer>2**3</answer>", 1.0),
        (given(7, 2, target=3), "<answer>7//2</answer>", 1.0),
        (given(7, 2, target=3), "<answer></answer>", 0.1),
        (given(7, 2, target=9), "<think> so it is <answer>7+2</answer>", 1.0),
        (given(7, 2, target=9), "<answer>7+2</answer>\nThat is it.", 0.0),
    ],
)
def test_the_rules_pay_what_theirs_pay(task, reply, reward):
    assert JUDGE.verify(task, reply).reward == reward


def test_a_power_tower_of_the_given_numbers_hangs_it():
    task = given(97, 98, 99, target=5)
    with Pool(JUDGE.verify, workers=1, seconds=0.5) as pool:
        assert pool.map([(task, "<answer>99**98**97</answer>")]) == [Exceeded("cpu")]


@pytest.fixture(scope="module")
def found():
    axes = ("correctness", "exploit", "search")
    small = audit(subject_of(TinyZero(), count=60), axes=axes)
    large = audit(subject_of(TinyZero(largest=99), count=20), axes=("availability",))
    return {finding.rule: finding for finding in (*small.findings, *large.findings)}


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        ("search.decimal_splice", "."),
        ("search.power", "**"),
        ("search.floor_division", "//"),
        ("exploit.empty_slot", "<answer>"),
        ("exploit.unclosed_reasoning", "<think>"),
        ("correctness.variant_refused", "\n"),
        ("availability.exceeded", "**"),
    ],
)
@pytest.mark.long
def test_the_audit_reports_it_with_a_script_that_shows_it(found, rule, shown, tmp_path):
    finding = found[rule]
    assert shown in finding.evidence.reply
    script = tmp_path / "repro.py"
    script.write_text(finding.repro)
    path = ":".join(sys.path)
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env={"PYTHONPATH": path}, capture_output=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert Path(script).exists()
