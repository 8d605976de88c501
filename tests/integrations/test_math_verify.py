"""The calls of math-verify and TRL give what the libraries themselves give on plain cases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gnomon.integrations import math_verify as ours
from verifiers.shipped import there

pytestmark = pytest.mark.skipif(not there("mpmath"), reason="needs mpmath")

CALLS = [
    ("$\\frac{1}{2}$", "So the answer is $\\boxed{0.5}$.", True),
    ("\\boxed{\\frac{1}{2}}", "\\boxed{\\frac{1}{3}}", False),
    ("42", "6 \\cdot 7 = 42, so \\boxed{42}", True),
    ("$120$", "\\boxed{5!}", True),
    ("$\\{1, 2\\}$", "\\boxed{\\{2, 1\\}}", True),
    ("$x^2-1$", "\\boxed{(x-1)(x+1)}", True),
    ("42", "no idea", False),
]


@pytest.mark.parametrize(("gold", "reply", "right"), CALLS)
def test_verify(gold: str, reply: str, right: bool) -> None:
    assert ours.verify(ours.parse(gold), ours.parse(reply)) is right


@pytest.mark.skipif(not there("math_verify"), reason="needs math-verify")
@pytest.mark.parametrize(("gold", "reply", "right"), CALLS)
def test_math_verify_gives_the_same(gold: str, reply: str, right: bool) -> None:
    from math_verify import parse, verify  # type: ignore[import-not-found, import-untyped, unused-ignore]

    found = verify(parse(gold, parsing_timeout=None), parse(reply, parsing_timeout=None), timeout_seconds=None)
    assert bool(found) is right


def test_texts_without_an_answer_and_options() -> None:
    assert ours.parse("\\boxed{4") == ours.parse("I do not know") == ours.parse("") == []
    assert ours.verify("1/2", ["2", "0.5"]) and not ours.verify([], "1") and not ours.verify("1", [])
    assert not ours.verify("120", "5!", form="reduced")
    assert not ours.verify("3", "not 3")


def test_accuracy_reward_as_trl_calls_it() -> None:
    texts = ["\\boxed{4}", "\\boxed{5}", "4 or so", "\\boxed{4}"]
    chats = [[{"role": "assistant", "content": text}] for text in texts]
    solutions = ["$4$", "4", "4", "a solution without a final result"]
    for completions in (texts, chats):
        found = ours.accuracy_reward(completions, solution=solutions, prompts=["?"] * 4, trainer_state=None)
        assert found == [1.0, 0.0, 0.0, None]


def test_verify_works_in_threads() -> None:
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda n: ours.verify(str(n), f"{2 * n}/2"), range(50)))
