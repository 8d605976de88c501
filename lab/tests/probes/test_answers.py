"""The first-to-last matrix of stored replies, against replies whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from commands import command
from comparison.written import write
from gnomon.envs import Arithmetic
from gnomon.errors import GnomonError, RunError
from gnomon.store import RunReader
from gnomon.types import Status
from gnomon_lab.probes.answers import answers, share_corrected

HERE = Path(__file__).parent
TASKS = Arithmetic().tasks("train")
WRONG = "<answer>-999</answer>"


def right(task: int) -> str:
    return f"<answer>{TASKS[task].answer}</answer>"


def group(*texts: tuple[str, ...] | str) -> list[tuple[tuple[str, ...], Status]]:
    """Rollouts whose stored status does not matter: answers are judged again."""
    return [((text,) if isinstance(text, str) else text, Status.WRONG) for text in texts]


def counts(found: object) -> dict[str, int]:
    names = ("replies", "none", "one_right", "one_wrong", "kept", "spoiled", "corrected", "failed")
    return {name: value for name in names if (value := getattr(found, name))}


STEPS = [
    {0: group(right(0), WRONG, "no answer", f"{WRONG} no, {right(0)}")},
    {
        0: group(f"{right(0)} or {WRONG}", f"{right(0)} yes {right(0)}"),
        1: group(f"{WRONG}{WRONG}", f"{WRONG} {right(1)} {WRONG}", "<answer>many</answer>", f"{right(1)} so there"),
    },
]


def test_every_cell_is_counted(tmp_path: Path) -> None:
    with RunReader(write(tmp_path / "r", {"type": "arithmetic"}, STEPS)) as reader:
        found, share = answers(reader), share_corrected()(reader)
    first, second = map(counts, found.steps)
    assert first == {"replies": 4, "one_right": 1, "one_wrong": 1, "none": 1, "corrected": 1}
    # Of three answers, the one in the middle does not count; an answer that is no number is wrong; text may follow.
    assert second == {"replies": 6, "spoiled": 1, "kept": 1, "failed": 2, "one_wrong": 1, "one_right": 1}
    assert found.whole.several == 5 and found.whole.replies == 10 and share == 1 / 10
    # Task 0: (+1 − 1) of 6 replies; task 1: 0 of 4.
    assert found.gain.value == 0 and found.gain.n == 2 and found.broken == 0


@pytest.mark.parametrize("strictness", ["exact", "trimmed", "only", "first", "last", "lenient"])
def test_the_matrix_does_not_depend_on_the_strictness_of_the_run(tmp_path: Path, strictness: str) -> None:
    run = write(tmp_path / "r", {"type": "arithmetic", "strictness": strictness}, STEPS)
    with RunReader(run) as reader:
        assert counts(answers(reader).whole) == {
            "replies": 10, "none": 1, "one_right": 2, "one_wrong": 2,
            "kept": 1, "spoiled": 1, "corrected": 1, "failed": 2,
        }  # fmt: skip


def test_held_out_replies_are_read_apart(tmp_path: Path) -> None:
    held_out = Arithmetic().tasks("test")[3].answer
    run = write(tmp_path / "r", {"type": "arithmetic"}, [{3: group(f"<answer>{held_out}</answer>")}], "held_out")
    with RunReader(run) as reader:
        assert counts(answers(reader, "held_out").whole) == {"replies": 1, "one_right": 1}
        with pytest.raises(RunError, match="E436"):
            answers(reader)


def test_a_wrapped_environment_is_read_by_the_one_inside(tmp_path: Path) -> None:
    """A control pays at random; the answers are judged by the truth."""
    env = {"type": "gnomon.envs.controlled:Controlled", "of": "arithmetic", "control": "random"}
    with RunReader(write(tmp_path / "r", env, STEPS)) as reader:
        assert counts(answers(reader, trust=True).whole)["corrected"] == 1


def test_turns_are_read_in_order(tmp_path: Path) -> None:
    """The first answer of the first turn that has one, and the last of the last."""
    turns: Sequence[tuple[str, ...]] = [
        (WRONG, right(0)), (right(0), WRONG), ("hm", right(0)), (right(0), "hm"), ("a", "b"), (WRONG, WRONG),
        (right(0), f"{WRONG} {right(0)}"), (right(0), right(0)),
    ]  # fmt: skip
    env = {"type": f"{HERE}/two_tries.py:TwoTries"}
    with RunReader(write(tmp_path / "r", env, [{0: group(*turns)}])) as reader:
        with pytest.raises(GnomonError, match="E052"):
            answers(reader)
        found = answers(reader, trust=True).whole
    assert counts(found) == {
        "replies": 8, "corrected": 1, "spoiled": 1, "one_right": 2, "none": 1, "failed": 1, "kept": 2
    }  # fmt: skip


def test_a_verifier_that_breaks_is_not_a_wrong_answer(tmp_path: Path) -> None:
    env = {"type": f"{HERE}/two_tries.py:Breaking"}
    run = write(tmp_path / "r", env, [{0: group(f"<answer>13</answer> {right(0)}", right(0))}])
    with RunReader(run) as reader:
        found = answers(reader, trust=True)
    assert counts(found.whole) == {"replies": 1, "one_right": 1} and found.broken == 1


def test_games_are_refused_and_the_command_says_why(tmp_path: Path) -> None:
    game = write(tmp_path / "game", {"type": "guess_number"}, [{0: group(WRONG)}])
    assert "E435" in (done := command("probe", "answers", str(game))).stderr and "GuessNumber" in done.stderr
    run = write(tmp_path / "r", {"type": "arithmetic"}, STEPS)
    assert json.loads(command("probe", "answers", str(run), "--json").stdout)["whole"]["failed"] == 2
    text = command("probe", "answers", str(run)).stdout
    assert text.splitlines()[3:5] == [
        "first right             1           1", "first wrong             1           2"
    ]  # fmt: skip
