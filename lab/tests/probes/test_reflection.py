"""Words of self-reflection in stored replies, against counts made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import command, interpreter
from comparison.written import write
from gnomon.errors import RunError
from gnomon.store import RunReader
from gnomon.types import Status
from gnomon_lab.probes.reflection import WORDS, pattern, reflecting, reflection

RIGHT, WRONG = Status.CORRECT, Status.WRONG
STEPS = [
    {0: [(("Wait, 3",), RIGHT), (("3",), WRONG)], 1: [(("waiting 4",), RIGHT), (("5",), WRONG)]},
    {
        0: [(("3", "let me double-check"), WRONG), (("wait",), Status.FAILED)],
        2: [(("6",), RIGHT), (("7, WAIT",), WRONG)],
    },
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("words") / "r", {"type": "arithmetic"}, STEPS)


def test_replies_are_counted_by_step_and_broken_verdicts_are_left_out(run: Path) -> None:
    with RunReader(run) as reader:
        found, share = reflection(reader), reflecting()(reader)
    counts = [(each.step, each.replies, each.with_words) for each in (*found.steps, found.whole)]
    assert counts == [(0, 4, 1), (1, 3, 2), (None, 7, 3)] and share == pytest.approx(2 / 3)
    first, second = found.steps
    assert first.right_with and first.right_with.value == 1 and first.right_without
    assert first.right_without.value == pytest.approx(1 / 3) and first.right_without.n == 2
    assert second.right_with and second.right_with.value == 0
    assert found.whole.right_with and found.whole.right_with.value == pytest.approx(1 / 3)


def test_equal_tasks_are_compared_within_their_groups(run: Path) -> None:
    with RunReader(run) as reader:
        within = reflection(reader).within
    # Task 0 at step 0: 1 − 0; task 2 at step 1: 0 − 1. The other two groups have replies of one kind alone.
    assert within and within.n == 2 and within.value == pytest.approx(0.0)
    assert within.high == pytest.approx(12.706204736 * 1.0, rel=1e-6), (
        "t of one degree of freedom, deviation √2 over √2"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [("Wait!", True), ("await", False), ("waits", False), ("check\n  again", True), ("checkagain", False),
     ("re-evaluate.", True), ("ßwait", False), ("", False)],
)  # fmt: skip
def test_words_are_whole_words(text: str, found: bool) -> None:
    assert bool(pattern(WORDS).search(text)) is found


def test_words_may_hold_what_a_pattern_would_read() -> None:
    assert pattern(["a.b", "(no)"]).search("so (no) then") and not pattern(["a.b"]).search("acb")


def test_a_run_without_such_rollouts_is_refused(run: Path) -> None:
    with RunReader(run) as reader, pytest.raises(RunError, match="E436"):
        reflection(reader, kind="held_out")


def test_the_command_prints_what_the_function_finds(run: Path) -> None:
    facts = json.loads(command("probe", "words", str(run), "--word", "6", "--json").stdout)
    assert facts["words"] == ["6"] and facts["whole"]["with_words"] == 1 and facts["whole"]["share"] == 1 / 7
    text = command("probe", "words", str(run)).stdout
    assert "on equal tasks" in text and text.count("\n") == 6
    assert "E436" in command("probe", "words", str(run), "--held-out").stderr


def test_stored_runs_are_read_without_torch(run: Path) -> None:
    code = (
        "import sys, gnomon_lab.probes.reflection as a, gnomon_lab.probes.answers as b\n"
        "from gnomon.store import RunReader\n"
        f"with RunReader({str(run)!r}) as reader:\n a.reflection(reader); print(b.answers(reader).whole.replies)\n"
        "assert not {'torch', 'transformers', 'numpy'} & sys.modules.keys()"
    )
    done = interpreter("-c", code)
    assert done.returncode == 0 and done.stdout.strip() == "7", done.stderr
