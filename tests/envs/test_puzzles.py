"""The puzzles of one turn: what they ask, what they accept, and that their dials turn."""

from fractions import Fraction
from typing import Any

import pytest

from gnomon.envs import (
    LinearEquation,
    ListPuzzle,
    MultipleChoice,
    NumberWords,
    PolynomialProduct,
    SingleTurn,
    WordProblem,
)
from gnomon.envs.linear_equation import side
from gnomon.envs.polynomial_product import polynomial_text
from gnomon.envs.spelled import words
from gnomon.types import Status, Task
from gnomon.verifiers.polynomial import polynomial


def first(env: SingleTurn, count: int = 150) -> list[Task]:
    tasks = env.tasks("train")
    return [tasks[index] for index in range(count)]


def said(env: SingleTurn, task: Task, answer: str) -> Status:
    return env.verify(task, f"<answer>{answer}</answer>").status


@pytest.mark.parametrize("level", [1, 2, 3])
def test_an_equation_holds_at_its_answer_and_nowhere_near(level: int) -> None:
    for task in first(LinearEquation(level=level)):
        left, right = (polynomial(text).terms for text in task.info["equation"].split(" = "))

        def at(terms: Any, x: int) -> Fraction:
            return sum((value * Fraction(x) ** len(term) for term, value in terms.items()), Fraction(0))

        for shift in (-1, 0, 1):
            assert (at(left, task.answer + shift) == at(right, task.answer + shift)) == (shift == 0), task.info
        assert ("x" in task.info["equation"].split(" = ")[1]) == (level == 3)


def test_an_equation_takes_the_letter_too() -> None:
    env = LinearEquation()
    task = first(env, 1)[0]
    for text in (f"{task.answer}", f"x = {task.answer}", f"x={task.answer}"):
        assert said(env, task, text) is Status.CORRECT
    assert said(env, task, f"y = {task.answer}") is said(env, task, "x =") is Status.MALFORMED
    assert [side(3, 0), side(0, -4), side(2, -5), side(2, 5)] == ["3x", "-4", "2x - 5", "2x + 5"]


@pytest.mark.parametrize("level", [1, 2, 4])
def test_a_story_is_told_as_it_is_counted(level: int) -> None:
    """The numbers of the text, in order, with the signs of the steps, come to the answer; it is never below 0."""
    for task in first(WordProblem(level=level)):
        text = task.messages[0].content
        name, things, have, steps = task.info["story"]
        numbers = [int(word.strip(".")) for word in text.split() if word.strip(".").isdigit()]
        assert numbers == [have, *(number for _, number in steps)] and len(steps) == level
        for sign, number in steps:
            have = {"+": have + number, "-": have - number, "*": have * number}[sign]
            assert have >= 0
        assert have == task.answer and text.count(things) == 2 and name in text


def test_lists_are_sorted_reversed_and_counted() -> None:
    env = ListPuzzle()
    kinds = set()
    for task in first(env):
        numbers, kind = task.info["numbers"], task.info["kind"]
        kinds.add(kind)
        expected = {
            "sort": sorted(numbers),
            "reverse": list(reversed(numbers)),
            "count": [len([n for n in numbers if n > numbers[0]])],
        }[kind]
        assert said(env, task, ", ".join(map(str, expected))) is Status.CORRECT
        assert said(env, task, " ".join(map(str, [*expected, 0]))) is Status.WRONG
        assert said(env, task, " ".join(map(str, expected)) + " x") is Status.MALFORMED
    assert kinds == {"sort", "reverse", "count"} and said(env, task, ",") is Status.MALFORMED


@pytest.mark.parametrize("options", [2, 4, 8])
def test_one_option_is_right_and_the_letters_are_even(options: int) -> None:
    """The share of a letter has a standard error of at most 0.025 over 400 tasks; the bound is four of them."""
    env = MultipleChoice(options=options)
    tasks = first(env, 400)
    for task in tasks:
        a, sign, b = task.info["question"]
        shown = task.messages[0].content.split("?")[1].split("<")[0].split()
        values = dict(zip(shown[::2], map(int, shown[1::2]), strict=True))
        value = {"+": a + b, "-": a - b, "*": a * b}[sign]
        assert len(values) == len(set(values.values())) == options
        assert [letter for letter in values if values[letter] == value] == [task.answer]
        assert said(env, task, task.answer.lower()) is Status.CORRECT
    assert abs(sum(task.answer == "A" for task in tasks) / 400 - 1 / options) < 0.1
    assert said(env, task, "Z") is said(env, task, "A B") is said(env, task, "42") is Status.MALFORMED


def test_a_question_of_multiple_choice_stays_on_one_side_whatever_its_options() -> None:
    env = MultipleChoice(largest=12)
    asked = {split: {env.tasks(split)[i].info["question"] for i in range(250)} for split in ("train", "test")}
    assert asked["train"] and asked["test"] and not asked["train"] & asked["test"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (99, "ninety-nine"),
        (100, "one hundred"),
        (512, "five hundred twelve"),
        (7005, "seven thousand five"),
        (999_999, "nine hundred ninety-nine thousand nine hundred ninety-nine"),
    ],
)
def test_numbers_in_words(number: int, text: str) -> None:
    assert words(number) == text


def test_no_two_numbers_have_the_same_words() -> None:
    assert len({words(number) for number in range(20_000)}) == 20_000


def test_hyphens_case_and_the_word_and_are_free() -> None:
    env = NumberWords()
    task = next(task for task in first(env) if task.answer.count("-") and "hundred" in task.answer)
    for text in (task.answer.upper(), task.answer.replace("-", " "), task.answer.replace("hundred", "hundred and")):
        assert said(env, task, text) is Status.CORRECT
    assert said(env, task, str(task.info["number"])) is Status.MALFORMED
    assert said(env, task, task.answer + " and one") is Status.WRONG


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_product_is_what_its_factors_multiply_to(level: int) -> None:
    env = PolynomialProduct(level=level)
    for task in first(env, 60):
        question = task.messages[0].content.removeprefix("Expand ").partition(". ")[0]
        assert question.count("(") == level + 1
        assert polynomial(question).terms == polynomial(task.answer).terms
        assert said(env, task, question) is Status.MALFORMED, "the question is no answer"
        assert said(env, task, task.answer + " + 1") is not Status.CORRECT
    assert (
        polynomial_text([-1, 0, 1]) == "x^2 - 1"
        and polynomial_text([0, -2, -1]) == "-x^2 - 2x"
        and polynomial_text([1, 1]) == "x + 1"
    )


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (LinearEquation(level=1), LinearEquation(level=3)),
        (WordProblem(level=1), WordProblem(level=3)),
        (ListPuzzle(length=(3, 3)), ListPuzzle(length=(9, 9))),
        (NumberWords(digits=1), NumberWords(digits=6)),
        (MultipleChoice(options=2), MultipleChoice(options=8)),
        (PolynomialProduct(level=1), PolynomialProduct(level=3)),
    ],
    ids=lambda env: type(env).__name__,
)
def test_the_dial_of_difficulty_turns(small: SingleTurn, large: SingleTurn) -> None:
    """More has to be read or written."""
    sizes = [sum(len(t.messages[0].content + env.solution(t)) for t in first(env, 40)) for env in (small, large)]
    assert sizes[0] < sizes[1]
