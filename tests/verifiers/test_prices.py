"""What a reward can pay: the arithmetic, by hand."""

from __future__ import annotations

import pytest

from gnomon.types import Part, Status, Verdict
from gnomon.verifiers import Price, Slot, pay
from gnomon.verifiers.prices import payments, undeclared_parts

RIGHT = Price(name="correct", weight=1.0)


@pytest.mark.parametrize(
    ("others", "without", "overpaid"),
    [
        ([], 0.0, False),
        ([Price(name="format", weight=0.1)], 0.1, False),
        ([Price(name="tool", weight=1.0, most=5)], 5.0, True),
        ([Price(name="tool", weight=1.0, most=5, gate="correct")], 0.0, False),
        ([Price(name="format", weight=0.1, gate="correct")], 0.0, False),
        ([Price(name="tool", weight=1.0, most=5, gate="format"), Price(name="format", weight=0.1)], 5.1, True),
        ([Price(name="tool", weight=0.5), Price(name="format", weight=0.5)], 1.0, True),
        ([Price(name="length", weight=-2.0)], 0.0, False),
        ([Price(name="bonus", weight=3.0, gate="never"), Price(name="never", weight=1.0, most=0.0)], 0.0, False),
    ],
)
def test_the_most_without_a_right_answer(others, without, overpaid):
    found = pay([RIGHT, *others])
    assert (found.right, found.without, found.overpaid) == (1.0, pytest.approx(without), overpaid)


def test_five_calls_that_pay_five_are_said_in_a_line():
    assert str(pay([RIGHT, Price(name="tool", weight=1.0, most=5)])) == (
        "a correct answer pays 1; the other parts pay at most 5 (tool 5 x 1) without it"
    )


def test_nothing_is_said_where_no_part_is_named_correct():
    assert pay([Price(name="score", weight=1.0)]) is None


@pytest.mark.parametrize("gate", [None, "correct"])
@pytest.mark.parametrize("status", list(Status))
def test_a_slots_prices_hold_for_every_verdict_it_gives(status, gate):
    slot = Slot(correct=2.0, format=0.3, gate=gate)
    assert not list(undeclared_parts(slot.prices, slot.verdict(status)))
    assert pay(slot.prices).without == (0.0 if gate else 0.3)


@pytest.mark.parametrize(
    ("part", "word"),
    [
        (Part(name="tool", value=1.0), "not declared"),
        (Part(name="format", value=1.0, weight=0.2), "weight 0.2"),
        (Part(name="format", value=1.0, weight=0.1, gate="correct"), "gate correct"),
        (Part(name="format", value=2.0, weight=0.1), "value 2"),
        (Part(name="format", value=-1.0, weight=0.1), "value -1"),
    ],
)
def test_what_the_prices_do_not_name_is_told(part, word):
    verdict = Verdict(status=Status.WRONG, parts=(Part(name="correct", value=0.0), part))
    assert [word in sentence for sentence in undeclared_parts(Slot().prices, verdict)] == [True]


def test_what_is_paid_adds_up_to_the_reward():
    gated = Part(name="tool", value=3.0, weight=0.5, gate="correct")
    for value in (0.0, 1.0):
        verdict = Verdict(status=Status.WRONG, parts=(Part(name="correct", value=value), gated))
        assert sum(payments(verdict.parts).values()) == verdict.reward == 2.5 * value
