"""A terminal of 80 columns: what a person watches and reads is whole, and long work shows how far it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from commands import command, screen

WORDS = ("char_count", "steps=2", "prompts=4", "group=4", "max_tokens=32", "eval.tasks=32", "threads=1")


def lines_of(text: str) -> list[str]:
    """The lines that stood on the screen at some time."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", text).replace("\r", "\n").split("\n")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run, and what was seen of it."""
    folder = tmp_path_factory.mktemp("terminal") / "a-run-with-a-name"
    return folder, lines_of(screen("train", *WORDS, f"run={folder}"))


def test_a_run_is_watched_whole(watched):
    _, lines = watched
    text = " ".join(" ".join(lines).split())
    for field in ("reward 0.", "held-out 0.", "length ", "all right ", "all wrong ", "tok/s", "mismatch 0", " left"):
        assert field in text
    assert max(len(line) for line in lines if "a-run-with-a-name" not in line) <= 80


def test_the_baseline_shows_how_far_it_is(watched):
    _, lines = watched
    assert any(
        re.fullmatch(r"baseline on 32 held-out tasks, then step 1: sampled \d+ of 32 replies", line.strip())
        for line in lines
    )


def test_an_evaluation_shows_how_far_it_is():
    lines = lines_of(screen("eval", "char_count", "eval.tasks=24", "eval.samples=2", "eval.pass_at=[1,2]", "threads=1"))
    assert any(
        re.fullmatch(r"24 held-out tasks of char_count: sampled \d+ of 48 replies", line.strip()) for line in lines
    )
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("pass@1 ") for line in lines)


@pytest.mark.parametrize(
    "words",
    [
        ("show", "RUN"), ("show", "RUN", "1"), ("show", "RUN", "1", "--brief"), ("rank", "RUN"), ("alarms", "RUN"),
        ("env", "list"), ("objective",), ("explain", "players"), ("check", "countdown"),
        ("audit", "char_count", "--tasks", "4"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_is_read_fits(watched, words):
    folder, _ = watched
    lines = lines_of(screen(*(str(folder) if word == "RUN" else word for word in words)))
    assert any(line.strip() for line in lines)
    too_long = [line for line in lines if len(line) > 80 and str(folder) not in line]
    assert not too_long


def test_a_pipe_gets_whole_lines(watched):
    done = command("env", "list")
    assert any(len(line) > 80 for line in done.stdout.splitlines())


def test_a_step_is_read_as_texts(watched):
    folder, _ = watched
    text = command("show", str(folder), "1").stdout
    assert text.count("=== step 1   task ") == 4 and text.count("--- 1:") == 16
    assert text.count('How many "') == 4 and text.count("<answer>") >= 16
    assert len(command("show", str(folder), "1", "--brief").stdout.splitlines()) == 16


def test_one_task_is_read_through_time(watched):
    folder, _ = watched
    text = command("show", str(folder), "held-out:task:3").stdout
    assert re.findall(r"=== step (\d+)   task 3", text) == ["0", "2"]
    assert text.count('How many "') == 1, "the prompt is written once where it stays the same"
    missing = command("show", str(folder), "task:5")
    assert missing.returncode and "E409" in missing.stderr
    near = re.search(r"gnomon show \S+ (task:\d+)", missing.stderr)
    assert near and "=== step" in command("show", str(folder), near[1]).stdout
