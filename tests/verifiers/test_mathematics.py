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
from gnomon.verifiers.mathematics.compare import Form
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
    ("P(5,5)=120", "120"): "P with two arguments may be a point",
    ("C(20,10)", "\\binom{20}{10}"): "C with two arguments may be a point",
    ("2\\begin{pmatrix}1&0\\\\0&1\\end{pmatrix}", "\\begin{pmatrix} 2 & 0 \\\\ 0 & 2 \\end{pmatrix}"): (
        "matrices are not multiplied"
    ),
    ("~5", "5"): "a tilde is a space of LaTeX",
}
"""Pairs on which the rules and the reader who wrote them down disagree, and by which rule."""


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def judged(answer: str, gold: Any, question: str = "", form: str = "reduced") -> Any:
    messages = (Message(role="user", content=question),) if question else ()
    return Math(form=Form(form)).verify(Task(id="pair", messages=messages, answer=gold), f"<answer>{answer}</answer>")


def labelled(row: dict[str, Any]) -> Any:
    return judged(row["answer"], row["gold"], form=row.get("form", "reduced"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_pairs(path: Path) -> None:
    found = [row for row in rows(path) if labelled(row).correct != row["right"]]
    assert [row for row in found if (row["answer"], row["gold"]) not in MISTAKES] == []


def test_the_pairs_are_many_and_the_mistakes_are_there() -> None:
    pairs = [row for path in FILES for row in rows(path)]
    assert len(pairs) > 2000 and len({(row["answer"], row["gold"]) for row in pairs}) > 1900
    known = [row for row in pairs if (row["answer"], row["gold"]) in MISTAKES]
    assert len(known) == len(MISTAKES)
    assert all(labelled(row).correct != row["right"] for row in known), "no longer a mistake"


@pytest.mark.parametrize("row", [pytest.param(row, id=row["answer"]) for row in rows(CASES / "questions.jsonl")])
def test_a_question_handed_back_is_no_answer(row: dict[str, str]) -> None:
    verdict = judged(row["answer"], row["gold"], row["question"])
    assert verdict.status == row["status"], verdict.detail


FORMS = [
    # answer, gold, the strictest form that accepts it
    ("\\dfrac{3}{4}", "3/4", "exact"),
    ("{3 \\over 4}", "\\frac34", "exact"),
    ("¾", "\\nicefrac{3}{4}", "exact"),
    ("1,234", "1234", "exact"),
    ("x^{2} - 1", "x²-1", "exact"),
    ("0.75", "\\frac{3}{4}", "reduced"),
    ("7^{-1}", "\\frac17", "reduced"),
    ("2x = 3 + x \\text{ is unsolved}", "2x = 3 + x \\text{ is unsolved}", "exact"),
    ("6/8", "\\frac{3}{4}", "reduced"),
    ("12½ %", "12\\frac12\\%", "exact"),
    ("2\\sqrt{2}+x", "x+2\\sqrt2", "reduced"),
    ("x=5", "5", "reduced"),
    ("10/2", "5", "any"),
    ("(10/2, 3)", "(5, 3)", "any"),
    ("[10/2, 8)", "[5, 8)", "any"),
    ("5!", "120", "any"),
    ("\\sin(π/6)", "\\frac12", "any"),
    ("\\sqrt8", "2\\sqrt2 + 0", "reduced"),
    ("\\sqrt2+\\sqrt8", "3\\sqrt2", "any"),
    ("2x+3x", "5x", "any"),
    ("1.414214", "\\sqrt2", "none"),
    ("2516", "2516_8", "none"),
    ("7 (mod 10)", "7", "none"),
    ("1, 234", "1,234", "none"),
    ("2x = 10", "x = 5", "none"),
    ("5 or 6", "5", "none"),
]


@pytest.mark.parametrize(("answer", "gold", "strictest"), FORMS)
def test_each_form_accepts_what_the_stricter_one_accepts(answer: str, gold: str, strictest: str) -> None:
    forms = ["exact", "reduced", "any"]
    allowed = forms[forms.index(strictest) :] if strictest in forms else []
    assert [form for form in forms if judged(answer, gold, form=form).correct] == allowed


@pytest.mark.parametrize(
    ("answer", "gold", "question", "right"),
    [
        ("2516", "2516_8", "Write 1358 in base 8.", True),
        ("2516", "2516_8", "Write $1358_{10}$ in base eight.", True),
        ("2516", "2516_8", "Write 1358 in base 7.", False),
        ("2516", "2516_{8}", "Add $1234_8$ and $1262_8$.", True),
        ("7 (mod 10)", "7", "Find 17 modulo 10.", True),
        ("n \\equiv 7 \\pmod{10}", "7", "What is the remainder if 17 is divided by 10?", True),
        ("7 (mod 10)", "7", "Find 17 modulo 100.", False),
    ],
)
def test_a_base_or_modulus_may_stand_in_the_question(answer: str, gold: str, question: str, right: bool) -> None:
    assert judged(answer, gold, question).correct == right


def test_a_decimal_stands_for_an_irrational_number_only_if_the_verifier_says_so() -> None:
    assert not Math().accepts("3.146264", "\\sqrt2+\\sqrt3")
    assert Math(decimals=6).accepts("3.146264", "\\sqrt2+\\sqrt3")
    assert not Math(decimals=6).accepts("3.1463", "\\sqrt2+\\sqrt3")
    assert Math().accepts("\\sqrt2+\\sqrt3", "3.146264"), "the gold itself is rounded"


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
