"""The readers of answers under any text: total, exact, and only as dear as their caps allow."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from fractions import Fraction
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import ResourceError
from gnomon.types import Status, Task
from gnomon.verifiers import JsonSchema, Malformed, Math, Pattern, Rejected, Several, judge
from gnomon.verifiers.boxes import read_box
from gnomon.verifiers.choice import choice
from gnomon.verifiers.fences import read_fence
from gnomon.verifiers.mathematics.answer import parse_answer
from gnomon.verifiers.number import quantity, rational
from gnomon.verifiers.polynomial import polynomial
from gnomon.verifiers.strict_json import strict_json
from verifiers.shipped import there

CHARACTERS = st.characters()  # every code point, lone surrogates included
MATHS = st.lists(
    st.sampled_from([*"0123456789xyei+-*/^(){}[],.=%$! \\", "\\frac", "\\sqrt", "\\boxed{", "\\text{", "**", " or "])
).map("".join)
ANY = st.text(CHARACTERS, max_size=60) | MATHS


READERS: list[Callable[[str], Any]] = [
    rational, quantity, polynomial, strict_json, parse_answer, lambda text: choice(text, ("a", "b", text[:3])),
]  # fmt: skip


@given(ANY, st.sampled_from(READERS))
def test_every_text_is_read_or_refused_with_a_reason(text: str, reader: Callable[[str], Any]) -> None:
    try:
        reader(text)
    except (Malformed, Rejected, Several) as problem:
        assert str(problem)


@given(st.lists(st.sampled_from(["\\boxed{", "}", "{", "\\", "```", "\n", "py", "<answer>", "</answer>", "4"])))
def test_every_reply_has_a_box_and_a_block_or_none(pieces: list[str]) -> None:
    reply = "".join(pieces)
    for find in (read_box, read_fence):
        found = find(reply)
        assert (found.text is None) != (found.status is None)
        if found.text is not None:
            assert found.span is not None and reply[slice(*found.span)] == found.text != ""


@given(st.fractions(max_denominator=10**6))
def test_a_fraction_reads_back(value: Fraction) -> None:
    assert rational(str(value)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9))
def test_a_decimal_is_the_number_that_it_shows(value: Any) -> None:
    assert rational(format(value, "f")) == Fraction(value)


Tree = int | str | tuple["Tree", str, "Tree"]
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.integers(0, 99) | st.sampled_from("xy"),
    lambda deeper: st.tuples(deeper, st.sampled_from("+-*"), deeper),
    max_leaves=10,
)


def written(tree: Tree) -> str:
    return f"({written(tree[0])}{tree[1]}{written(tree[2])})" if isinstance(tree, tuple) else str(tree)


def worth(tree: Tree, x: int, y: int) -> int:
    if not isinstance(tree, tuple):
        return tree if isinstance(tree, int) else {"x": x, "y": y}[tree]
    left, right = worth(tree[0], x, y), worth(tree[2], x, y)
    return {"+": left + right, "-": left - right, "*": left * right}[tree[1]]


@given(TREES, st.integers(-9, 9), st.integers(-9, 9))
def test_a_normal_form_has_the_values_of_what_was_written(tree: Tree, x: int, y: int) -> None:
    total = Fraction(0)
    for term, factor in polynomial(written(tree)).terms.items():
        value = factor
        for name, exponent in term:
            value *= {"x": x, "y": y}[name] ** exponent
        total += value
    assert total == worth(tree, x, y)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(CHARACTERS), lambda deeper: st.lists(deeper)))
def test_json_reads_back(value: Any) -> None:
    try:
        assert strict_json(json.dumps(value)) == value
    except Malformed as problem:
        assert "deep" in str(problem)


@pytest.mark.parametrize(
    "text",
    ["(" * 250 + "x" * 10, "(x+y+1)^30(x+y+2)^30", "x" * 512, "+".join("abcdefghijklm" * 19), "((x+y)^8)^8"],
)  # fmt: skip
def test_a_polynomial_costs_no_more_than_its_caps(text: str) -> None:
    began = process_time()
    try:
        polynomial(text)
    except Malformed as problem:
        assert str(problem)
    assert process_time() - began < 1.0


def test_a_careless_pattern_costs_its_own_reply_alone() -> None:
    task = Task(id="1", messages=(), answer="(a+)+b")
    items = [(task, f"<answer>{text}</answer>") for text in ("aab", "a" * 40, "ab")]
    assert [v.status for v in judge(Pattern(), items, workers=1, seconds=0.3)] == [
        Status.CORRECT, Status.EXCEEDED, Status.CORRECT,
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "code"), [(Math, "E111"), (JsonSchema, "E110")])
def test_a_missing_package_is_told_at_once(monkeypatch: pytest.MonkeyPatch, kind: type, code: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=rf"{code}.*\n.*pip install \"gnomon\["):
        kind()


@pytest.mark.skipif(not there("jsonschema"), reason="needs jsonschema")
def test_a_schema_fetches_nothing_and_is_judged_as_its_authors_when_it_is_none() -> None:
    remote = Task(id="1", messages=(), answer={"$ref": "http://127.0.0.1:9/schema"})
    (verdict,) = judge(JsonSchema(), [(remote, "<answer>1</answer>")], workers=1)
    assert verdict.status is Status.FAILED and "Unresolvable" in verdict.detail
    endless = {"$defs": {"n": {"type": ["array", "integer"], "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}
    deep = "<answer>" + "[" * 24 + "1" + "]" * 24 + "</answer>"
    assert JsonSchema().verify(Task(id="1", messages=(), answer=endless), deep).correct


@pytest.mark.parametrize(
    ("kind", "gold"),
    [("number", "four"), ("number", True), ("number", float("nan")), ("polynomial", "1/x"), ("text", 4), ("text", []),
     ("sets", 4), ("pattern", "("), ("pattern", None), ("choice", "Z")],
)  # fmt: skip
def test_a_gold_that_is_none_is_never_the_policys_fault(kind: str, gold: Any) -> None:
    from verifiers.test_corpora import KINDS

    task = Task(id="1", messages=(), answer=gold, info={"options": ("a", "b")})
    (verdict,) = judge(KINDS[kind](), [(task, "<answer>4</answer>")], workers=1)
    assert verdict.status is Status.FAILED and "ValueError" in verdict.detail
