"""What every verifier that ships promises: gold at the top, a verdict on everything, and no trace."""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gnomon.errors import VerifierError
from gnomon.types import Status, Verdict
from gnomon.verifiers import Judge, Verifier
from gnomon.verifiers.hostile import HOSTILE
from gnomon.verifiers.slot import Slot
from verifiers.odd_verifiers import Traced
from verifiers.shipped import Shipped, shipped, slot, there

SHIPPED = [
    pytest.param(
        case,
        id=case.name,
        marks=pytest.mark.skipif(bool(case.needs) and not there(case.needs), reason=f"needs {case.needs}"),
    )
    for case in shipped()
]
MEMORY = 2**28
"""256 MiB of address space, the interpreter and what it imports included."""
FOOLED = {"proxy", "random", "wrong label", "format only"}
"""These do not ask whether an answer is right, so they may call a hostile one correct; this is what they are for."""


@pytest.mark.parametrize("case", SHIPPED)
def test_gold_earns_the_top_and_what_is_wrong_less(case: Shipped) -> None:
    assert isinstance(case.verifier, Verifier)
    low, high = case.verifier.reward_range
    for reply in case.right:
        verdict = case.verifier.verify(case.task, reply)
        assert (verdict.status, verdict.reward) == (Status.CORRECT, high), verdict.detail
    for reply in case.wrong:
        verdict = case.verifier.verify(case.task, reply)
        assert not verdict.correct and low <= verdict.reward < high, reply


NESTED = {
    "brackets": ("(", ")"), "lists": ("[", "]"), "objects": ('{"a":', "}"), "braces": ("{", "}"), "signs": ("-", ""),
    "fractions": (r"\frac{1}{", "}"), "numerators": (r"\frac{", "}{2}"),
    "roots": (r"\sqrt{", "}"), "powers": ("2^{", "}"),
    "factorials": ("", "!"), "quotients": ("x/", ""), "primes": ("", "'"), "differences": (r"A\setminus ", ""),
    "patterns": ("(?:", ")"), "openings": ("(", ""), "marks": ("**", "**"),
    "boxes": (r"\boxed{", "}"), "matrices": (r"\begin{pmatrix}", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", SHIPPED)
def test_nothing_is_nested_too_deep_for_a_verifier(case: Shipped) -> None:
    """Neither a reply, nor a task's answer: a verdict, or an error of the author's that says so."""
    for depth in (129, 600):
        for opening, closing in NESTED.values():
            text = opening * depth + "1" + closing * depth
            for reply in (text, slot(text), f"\\boxed{{{text}}}", f"```python\n{text}\n```"):
                verdict = case.verifier.verify(case.task, reply)
                assert case.name in FOOLED or not verdict.correct, text[:60]
            with suppress(ValueError, VerifierError):
                case.verifier.verify(replace(case.task, answer=text), slot(text))
    for kind in (lambda value: [value], lambda value: {"allOf": [value]}, lambda value: {"not": value}):
        gold: object = True
        for _ in range(600):
            gold = kind(gold)
        try:
            case.verifier.verify(replace(case.task, answer=gold), case.wrong[0])
        except ValueError as error:
            assert "nested over 128 deep" in str(error)
        else:
            assert case.name in FOOLED | {"shuffled"}, "it does not read the task's answer"


@pytest.mark.parametrize("case", SHIPPED)
def test_a_verifier_travels_and_says_the_same_again(case: Shipped) -> None:
    again = pickle.loads(pickle.dumps(case.verifier))
    for reply in (*case.right, *case.wrong):
        assert again.verify(case.task, reply) == case.verifier.verify(case.task, reply)


@pytest.mark.parametrize("case", SHIPPED)
def test_the_whole_hostile_corpus(case: Shipped, tmp_path: Path) -> None:
    """In a worker of 256 MiB: a verdict within a second of processor time, no exception, no trace."""
    canary = tmp_path / "canary"
    canary.write_text("alive")
    control = case.name in ("shuffled", "noisy", *FOOLED)
    forms = {"slot": slot} if control else {"bare": str, "slot": slot}
    if case.name == "math":
        forms["box"] = lambda text: f"\\boxed{{{text}}}"
    if case.name in ("code", "language model", "proxy"):
        del forms["slot"]
        forms["bare"] = str
    traced = Traced(of=case.verifier, canary=str(canary))
    with Judge(traced, workers=1, seconds=1.0, wall=30, memory=MEMORY, retries=0) as judge:
        # Imports are not what is measured here.
        judge.judge([(case.task, reply) for reply in case.right])
        for form, written in forms.items():
            replies = [written(entry.text) for entry in HOSTILE]
            for entry, verdict in zip(HOSTILE, judge.judge([(case.task, r) for r in replies]), strict=True):
                where = f"{entry.row} {entry.name} ({form}): {verdict.status} {verdict.detail[-500:]}"
                assert verdict.status is not Status.FAILED, where
                assert case.name in FOOLED or not verdict.correct, where
                assert allowed(case, form, entry.row, verdict), where
    assert canary.read_text() == "alive"


def allowed(case: Shipped, form: str, row: int, verdict: Verdict) -> bool:
    """Whether this may become of a text; only what is known to be too much may use up its limits."""
    if verdict.status is Status.EXCEEDED:
        return case.name == "code" and row == 85
    if form == "bare" and isinstance(case.verifier, Slot) and case.name not in ("code", "math"):
        # Only these rows hold slots of their own; and then they are several, empty, or not in their place.
        unheard = {Status.NO_ANSWER, Status.SEVERAL, Status.OUT_OF_PLACE, Status.MALFORMED}
        return verdict.status in unheard and (verdict.status is Status.NO_ANSWER or row in (46, 54, 56, 58, 65))
    if case.name in ("number", "number with a unit", "choice") and verdict.status is Status.WRONG:
        return row in (24, 33, 35, 60, 61, 63, 64, 71, 73)  # Those that can be read as a number.
    return True
