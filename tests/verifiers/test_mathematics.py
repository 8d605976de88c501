"""The verifier of mathematics on pairs of answer and gold, on questions handed back, and on whatever text there is."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from gnomon.types import Message, Task
from gnomon.verifiers import Malformed, Math, Rejected, Several
from verifiers.shipped import there

pytestmark = pytest.mark.skipif(not there("mpmath"), reason="needs mpmath")

CASES = Path(__file__).parent / "cases"
FILES = sorted(CASES.glob("pairs_*.jsonl"))
MISTAKES = {
    (
        "2(\\cos\\frac\\pi3 + i\\sin\\frac\\pi3)",
        "2e^{i\\pi/3}",
    ): "values of functions that are rational are not worked out",
    ("42°C", "42"): "a unit may stand behind a number where the gold has none",
    ("\\frac{11}{36} \\text{ or } \\frac{11}{36}", "\\frac{11}{36}"): "the same answer twice is two answers",
    ("\\$12", "\\$12 \\text{ per hour}"): "half of a unit is another unit",
    ("|x| < \\sqrt{3}", "\\left(-\\sqrt{3}, \\sqrt{3}\\right)"): "an inequality that is not solved",
    ("0+2i", "2i"): "terms that are not put together",
    ("y=\\frac{6}{x}", "xy = 6"): "equations are compared as multiples of one another by a number",
}
"""Pairs on which the rules and the reader who wrote them down disagree, and by which rule."""


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def judged(answer: str, gold: Any, question: str = "") -> Any:
    messages = (Message(role="user", content=question),) if question else ()
    return Math().verify(Task(id="pair", messages=messages, answer=gold), f"<answer>{answer}</answer>")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_pairs(path: Path) -> None:
    found = [row for row in rows(path) if judged(row["answer"], row["gold"]).correct != row["right"]]
    assert [row for row in found if (row["answer"], row["gold"]) not in MISTAKES] == []


def test_the_pairs_are_many_and_the_mistakes_are_there() -> None:
    pairs = [row for path in FILES for row in rows(path)]
    assert len(pairs) > 2000 and len({(row["answer"], row["gold"]) for row in pairs}) > 1900
    known = [row for row in pairs if (row["answer"], row["gold"]) in MISTAKES]
    assert len(known) == len(MISTAKES)
    assert all(judged(row["answer"], row["gold"]).correct != row["right"] for row in known), "no longer a mistake"


@pytest.mark.parametrize("row", [pytest.param(row, id=row["answer"]) for row in rows(CASES / "questions.jsonl")])
def test_a_question_handed_back_is_no_answer(row: dict[str, str]) -> None:
    verdict = judged(row["answer"], row["gold"], row["question"])
    assert verdict.status == row["status"], verdict.detail


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_gold_is_right_for_itself(path: Path) -> None:
    for gold in {row["gold"] for row in rows(path)}:
        assert judged(gold, gold).correct, gold


@pytest.mark.parametrize(
    "gold", ["无解", "# 3 @ home", "\\unknown{4}", "{3", "3 4", "\\int_0^1 x dx", "not 3", "3 is odd"]
)
def test_a_gold_that_cannot_be_read_is_right_for_itself_alone(gold: str) -> None:
    assert judged(gold, gold).correct
    assert not judged("3", gold).correct and not judged("4", gold).correct


@pytest.mark.parametrize("gold", ["", "  ", "$$", None, True, ["3"]])
def test_a_gold_that_is_none_is_the_tasks_fault(gold: Any) -> None:
    with pytest.raises(ValueError, match="the task's own answer"):
        judged("3", gold)


PIECES = re.compile(r"\\[a-zA-Z]+|\\.|[0-9]+|[a-zA-Z]+|.", re.DOTALL)


@pytest.mark.parametrize("seed", range(4))
def test_texts_that_are_almost_answers_get_a_verdict_at_once(seed: int) -> None:
    """Pieces of real answers in the wrong places: no exception but the three of a verdict, and no long wait."""
    texts = [row[side] for path in FILES for row in rows(path) for side in ("answer", "gold") if row[side]]
    golds = [row["gold"] for path in FILES for row in rows(path)]
    drawn = random.Random(seed)
    for _ in range(1500):
        pieces = PIECES.findall(drawn.choice(texts))
        for _ in range(drawn.randrange(4)):
            place = drawn.randrange(len(pieces) + 1)
            other = PIECES.findall(drawn.choice(texts))
            start = drawn.randrange(len(other))
            pieces[place : place + drawn.randrange(2)] = other[start : start + drawn.choice((1, 1, 5))]
        answer, gold = "".join(pieces), drawn.choice(golds)
        began = process_time()
        try:
            Math().accepts(answer, gold)
        except (Malformed, Rejected, Several) as problem:
            assert str(problem)
        assert process_time() - began < 1.0, (answer, gold)


def test_a_value_does_not_depend_on_the_precision_that_others_set() -> None:
    import mpmath  # type: ignore[import-untyped, unused-ignore]

    before = mpmath.mp.dps
    assert judged(r"\frac{2}{\sqrt{2}}", r"\sqrt{2}").correct
    assert mpmath.mp.dps == before
    with mpmath.workdps(5):
        assert not judged(r"\sqrt{2.0000000001}", r"\sqrt{2}").correct
