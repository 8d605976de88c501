"""Controls are wrong in the way and as often as they say, and as pure as what they wrap."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gnomon.types import Part, Status, Task, Verdict
from gnomon.verifiers.controls import FormatOnly, Noisy, Random, Shuffled, WrongLabel
from gnomon.verifiers.number import Number

COUNT = 4000
"""Replies; a share of them has a standard deviation of at most 0.008, so 0.03 is nearly four."""
NUMBER = Number(format=0.1)


def items() -> list[tuple[Task, str]]:
    return [(Task(id=str(i), messages=(), answer=i), f"<answer>{i if i % 2 else i + 1}</answer>") for i in range(COUNT)]


def test_random_is_right_as_often_as_asked_whatever_the_answer() -> None:
    for share in (0.0, 0.25, 1.0):
        control = Random(of=NUMBER, share=share)
        for parity in (0, 1):
            found = [control.verify(task, reply).correct for task, reply in items()[parity::2]]
            assert abs(sum(found) / len(found) - share) < 0.03


def test_noise_has_the_rates_that_were_asked() -> None:
    control = Noisy(of=NUMBER, false_positive=0.1, false_negative=0.3)
    wrong, right = ([control.verify(*item).correct for item in items()[parity::2]] for parity in (0, 1))
    assert abs(sum(wrong) / len(wrong) - 0.1) < 0.03
    assert abs(sum(right) / len(right) - 0.7) < 0.03
    clean = Noisy(of=NUMBER)
    assert all(clean.verify(*item) == NUMBER.verify(*item) for item in items()[:100])


def test_a_draw_is_of_the_task_the_reply_and_the_seed_alone() -> None:
    batch = items()[:500]
    control = Random(of=NUMBER)
    first = [control.verify(*item) for item in batch]
    assert [control.verify(*item) for item in reversed(batch)] == first[::-1]
    assert [Random(of=NUMBER, seed=1).verify(*item) for item in batch] != first
    again = [Noisy(of=NUMBER, false_positive=0.5, false_negative=0.5).verify(*item).correct for item in batch]
    assert again != [v.correct for v in first]


def test_a_wrong_label_and_a_format_turn_the_truth_round_or_pass_it_over() -> None:
    task = Task(id="1", messages=(), answer=4)
    right, wrong, none, bad = "<answer>4</answer>", "<answer>5</answer>", "4", "<answer>four</answer>"
    statuses = {
        WrongLabel: [Status.WRONG, Status.CORRECT, Status.NO_ANSWER, Status.MALFORMED],
        FormatOnly: [Status.CORRECT, Status.CORRECT, Status.NO_ANSWER, Status.MALFORMED],
    }
    for kind, expected in statuses.items():
        found = [kind(of=NUMBER).verify(task, reply) for reply in (right, wrong, none, bad)]
        assert [verdict.status for verdict in found] == expected
        for verdict in found:
            assert verdict.reward == pytest.approx(1.1 if verdict.correct else 0.1 * (verdict.status == "wrong"))
    assert WrongLabel(of=NUMBER).verify(task, wrong).span == NUMBER.verify(task, wrong).span


def test_shuffled_is_the_verdict_of_another_task_always_the_same() -> None:
    tasks = tuple(Task(id=str(i), messages=(), answer=i) for i in range(50))
    control = Shuffled(of=NUMBER, tasks=tasks)
    for task in tasks:
        other = control.other(task)
        assert other.id != task.id and control.other(task) == other
        assert control.verify(task, f"<answer>{other.answer}</answer>").correct
        assert not control.verify(task, f"<answer>{task.answer}</answer>").correct
    assert len({control.other(task).id for task in tasks}) > 20


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A verifier that is no slot, and pays for wrong answers."""

    reward_range = (-2.0, 3.0)

    def verify(self, task: Task, reply: str) -> Verdict:
        return Verdict(status=Status.WRONG, parts=(Part(name="x", value=-2.0),))


def test_a_control_keeps_the_range_of_what_it_wraps() -> None:
    task = Task(id="1", messages=(), answer=4)
    assert WrongLabel(of=Plain()).verify(task, "").reward == 3.0
    assert Random(of=Plain(), share=0).verify(task, "").reward == -2.0


def test_settings_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="share"):
        Random(of=NUMBER, share=1.5)
    with pytest.raises(ValueError, match="false_negative"):
        Noisy(of=NUMBER, false_negative=-0.1)
    with pytest.raises(ValueError, match="two different tasks"):
        Shuffled(of=NUMBER, tasks=(Task(id="1", messages=(), answer=4),))
