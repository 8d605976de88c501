"""The environments that ship: what they ask, what they accept, and how evenly."""

import inspect
import itertools
import random
from collections import Counter
from dataclasses import replace
from difflib import SequenceMatcher
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.envs import ENVS, Arithmetic, CharCount, Countdown, Dataset, Scramble, SingleTurn, identity
from gnomon.envs.arithmetic import total
from gnomon.envs.base import SLOT, TEST_SHARE, split_of
from gnomon.envs.dictionary import dictionary, words
from gnomon.envs.expressions import grow
from gnomon.keys import Key
from gnomon.types import Message, Status, Task
from gnomon.verifiers import Strictness, evaluate

SINGLE: dict[str, type[SingleTurn]] = {
    name: kind for name, kind in ENVS.items() if issubclass(kind, SingleTurn) and kind is not Dataset
}
GENERATED = sorted(name for name, kind in ENVS.items() if kind is not Dataset)
NAMES = sorted(SINGLE)
DRAWN = ("count_shapes", "maze", "read_clock")
"""Tasks with an image."""
PAYS_FORM = sorted(name for name in NAMES if SINGLE[name]().format)


def said(env: SingleTurn, task: Task, answer: str) -> Status:
    return env.verify(task, f"<answer>{answer}</answer>").status


def first(env: SingleTurn, count: int, split: str = "train") -> list[Task]:
    tasks = env.tasks(split)
    return [tasks[i] for i in range(count)]


@pytest.mark.parametrize("name", GENERATED)
def test_an_environment_is_one_short_file(name: str) -> None:
    source = Path(inspect.getfile(ENVS[name]))
    assert source.stem == name
    assert len(source.read_text().splitlines()) <= (110 if name in DRAWN else 60)


PINNED = {
    "anytime": ("Compute 40 - 26 - 49. <answer>...</answer>", "0960a11f0a5d93c8"),
    "arithmetic": ("Compute 3 - 13. <answer>...</answer>", "3e6b1808e3e55d10"),
    "calculator": ("2*(5*7). <answer>...</answer>", "2ade36a096bf86c8"),
    "char_count": ('How many "a" in "wgra"? <answer>...</answer>', "97bd8afb8a238650"),
    "code": (
        "Python: solve(x), x a list of integers: keep those above 4."
        " solve([-1, -3, 3]) == []. solve([-3, 7, 12, 7, 2]) == [7, 12, 7]. One ```python block.",
        "6b7ade42ec0ef968",
    ),
    "count_shapes": ("How many triangles? <answer>...</answer>", "10b057302ab48f30"),
    "countdown": ("Make 1 from 6, 4, 9. <answer>...</answer>", "5539c171c33f9200"),
    "guess_number": ("Guess 1-20. <answer>...</answer>", "51a8fc3d98cf91c8"),
    "kuhn_poker": ("Kuhn poker. Card K. pass or bet? <answer>...</answer>", "33281ea8be699be0"),
    "linear_equation": ("Solve 4x + 14 = -18. <answer>...</answer>", "ec497b916cfeff68"),
    "list_puzzle": ("Reverse 2 4 2. <answer>...</answer>", "483ad3c7531479e0"),
    "mastermind": ("Find 3 digits 1-4. <answer>...</answer>", "ea29016ccce8f558"),
    "maze": ("Red to green: up, down, left or right? <answer>...</answer>", "8ae83874c8a724b8"),
    "multiple_choice": ("14 * 9? A 135 B 106 C 126 D 621 <answer>...</answer>", "6f8df895b115df38"),
    "nim": ("Nim 1 2 7. Take: size count. <answer>...</answer>", "caa2efbca1227f20"),
    "number_words": ("Write 7400 in words. <answer>...</answer>", "ddcab76ccc5d39c0"),
    "polynomial_product": ("Expand (2x - 9)(4x + 3). <answer>...</answer>", "1a0b6475861a9518"),
    "read_clock": ("What time is it, such as 3:05? <answer>...</answer>", "c35703893d801bb8"),
    "repair": (
        "The Python package in this folder has one fault. Repair it."
        " pipeline.solve(x), x a text: write every character twice, then reverse the text.",
        "e2fa1070c52303c8",
    ),
    "scramble": ('Unscramble "pom". <answer>...</answer>', "c0dad131024917a8"),
    "tic_tac_toe": ("Tic-tac-toe, cells 1-9. You are x. <answer>...</answer>", "6f39767a193a3368"),
    "word_problem": ("Ada has 20 keys. Ada buys 3. How many keys has Ada? <answer>...</answer>", "a7f244c0dfd2e558"),
    "wordle": ("Word of 4 letters. g right, y elsewhere, - absent. <answer>...</answer>", "7e9a55e8cecee7a8"),
}


@pytest.mark.parametrize("name", GENERATED)
def test_tasks_are_pinned(name: str) -> None:
    """A run is judged on these tasks for ever: a change of a draw or a word of a prompt is a new environment."""
    task = ENVS[name]().tasks("test")[5]
    assert (task.messages[0].content, task.id) == PINNED[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_task_is_split_by_its_content(name: str) -> None:
    env = SINGLE[name]()
    train, test = first(env, 400), first(env, 400, "test")
    assert not {task.id for task in train} & {task.id for task in test}
    assert not {task.messages for task in train} & {task.messages for task in test}
    other = first(replace(env, seed=1), 400)
    assert not {task.id for task in other} & {task.id for task in test}, "nor do the tasks of another seed leak"
    assert all(int(task.id, 16) % TEST_SHARE == 0 for task in test)


@pytest.mark.parametrize("name", NAMES)
def test_neighbouring_seeds_share_no_run_of_tasks(name: str) -> None:
    """The seed + index rule would make item i + 1 of one seed item i of the next."""
    env = SINGLE[name]()
    here, there = first(env, 100), first(replace(env, seed=1), 100)
    assert sum(a.id == b.id for a, b in zip(here[1:], there, strict=False)) < 5


def test_tasks_are_a_sequence_of_fixed_length() -> None:
    tasks = Countdown().tasks("train")
    assert len(tasks) == 2**31
    assert tasks[2**31 - 1].messages
    for index in (-1, 2**31):
        with pytest.raises(IndexError):
            tasks[index]
    with pytest.raises(TypeError):
        tasks[0.0]  # type: ignore[index]
    with pytest.raises(ValueError, match="split"):
        Countdown().tasks("validation")


def test_too_few_tasks_for_a_split_are_reported() -> None:
    with pytest.raises(ValueError, match="test split"):
        for task in first(Arithmetic(terms=1, largest=1), 1) + first(Arithmetic(terms=1, largest=1), 1, "test"):
            assert task


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shots", [1, 3])
def test_shots_are_solved_train_tasks_before_the_question(name: str, shots: int) -> None:
    plain, env = SINGLE[name](), SINGLE[name](shots=shots)
    for split in ("train", "test"):
        for bare, task in zip(first(plain, 10, split), first(env, 10, split), strict=True):
            assert replace(task, messages=task.messages[-1:]) == bare
            assert [message.role for message in task.messages] == ["user", "assistant"] * shots + ["user"]
            examples = task.messages[:-1]
            assert bare.messages[0] not in examples
            for question, answer in zip(examples[::2], examples[1::2], strict=True):
                before, after = env.frame
                assert env.frame != SingleTurn.frame or question.content.endswith(SLOT)
                assert answer.content.startswith(before) and answer.content.endswith(after)


def test_a_question_is_never_its_own_example() -> None:
    """Among twelve problems a shot would often be the question itself."""
    env = Arithmetic(terms=1, largest=12, shots=2)
    for task in first(env, 60):
        assert task.messages[-1] not in task.messages[:-1]
        assert len(task.messages) == 5


@pytest.mark.parametrize("name", PAYS_FORM)
def test_a_gate_pays_the_format_only_under_a_right_answer(name: str) -> None:
    plain, gated = SINGLE[name](), SINGLE[name](gate="correct")
    task, *others = first(plain, 20)
    other = next(other for other in others if plain.solution(other) != plain.solution(task))
    right, wrong = (f"<answer>{plain.solution(t)}</answer>" for t in (task, other))
    assert [env.verify(task, right).reward for env in (plain, gated)] == [1.1, 1.1]
    assert [env.verify(task, wrong).reward for env in (plain, gated)] == [0.1, 0.0]
    assert [env.verify(task, "").reward for env in (plain, gated)] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0.0, 1.1)),
        ({"gate": "correct"}, (0.0, 1.1)),
        ({"format": -0.5}, (-0.5, 0.5)),
        ({"format": -0.5, "gate": "correct"}, (0.0, 0.5)),
        ({"correct": -1.0, "format": -1.0}, (-2.0, 0.0)),
    ],
)
def test_the_reward_range_is_reached_at_both_ends(options: dict[str, Any], expected: tuple[float, float]) -> None:
    env = CharCount(**options)
    task = first(env, 1)[0]
    replies = ("", "<answer>9</answer>", f"<answer>{task.answer}</answer>")
    rewards = [env.verify(task, reply).reward for reply in replies]
    assert env.reward_range == (min(rewards), max(rewards)) == expected


@pytest.mark.parametrize("options", [{"gate": "corect"}, {"shots": -1}, {"strictness": "loose"}])
def test_options_that_mean_nothing_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"gate|shots|loose"):
        Countdown(**options)


def test_a_strictness_spelled_in_a_recipe_is_the_strictness() -> None:
    spelled: Strictness = "exact"  # type: ignore[assignment]
    env = CharCount(strictness=spelled)
    assert env.strictness is Strictness.EXACT
    task = first(env, 1)[0]
    assert env.verify(task, f"<answer>{task.answer}</answer> I think").status is Status.OUT_OF_PLACE


# Neighbours


@pytest.mark.parametrize("name", NAMES)
def test_a_mutation_is_a_near_task_of_the_same_split(name: str) -> None:
    env = SINGLE[name]()
    for split in ("train", "test"):
        near = far = 0.0
        for place, task in enumerate(first(env, 60, split)):
            other = env.mutate(task, Key(5))
            assert other == env.mutate(task, Key(5)) and other.id != task.id and split_of(other.id) == split
            assert env.verify(other, env.framed(env.solution(other))).correct
            stranger = env.tasks(split)[1000 + place]
            near += likeness(task, other)
            far += likeness(task, stranger)
        if name not in DRAWN:
            assert near > far, "a neighbour's prompt is nearer than a stranger's"


def likeness(a: Task, b: Task) -> float:
    return SequenceMatcher(None, a.messages[-1].content, b.messages[-1].content, autojunk=False).ratio()


def test_mutations_by_one_key_differ_from_task_to_task_and_keep_the_examples() -> None:
    env = Arithmetic(shots=2)
    tasks = first(env, 20)
    others = [env.mutate(task, Key(1)) for task in tasks]
    assert len({other.id for other in others}) > 15
    for task, other in zip(tasks, others, strict=True):
        assert other.messages[:-1] == task.messages[:-1] and len(other.messages) == 5
    assert env.mutate(tasks[0], Key(2)) != others[0]


class Rigid(CharCount):
    def neighbour(self, task: Task, rng: random.Random) -> Task:
        return task


def test_a_task_without_a_neighbour_is_an_error() -> None:
    task = first(Rigid(), 1)[0]
    with pytest.raises(ValueError, match="found no neighbour"):
        Rigid().mutate(task, Key(0))
    with pytest.raises(NotImplementedError, match="Dataset has no `neighbour`"):
        Dataset().mutate(task, Key(0))
    with pytest.raises(ValueError, match="Dataset has no `neighbour`"):
        Dataset(mutations=1)


def test_mutations_stand_behind_their_task() -> None:
    plain, families = Countdown(shots=1), Countdown(shots=1, mutations=3)
    tasks = first(families, 40)
    assert tasks[::4] == first(plain, 10)
    for place, task in enumerate(tasks):
        other = tasks[place - place % 4]
        assert task.messages[:-1] == other.messages[:-1] and (task.id == other.id) == (place % 4 == 0)
    assert len({task.id for task in tasks}) > 30
    assert families.tasks("test")[5] == plain.tasks("test")[5]
    with pytest.raises(IndexError):
        families.tasks("train")[-1]


def test_a_family_stands_in_one_split() -> None:
    ids = [identity("x", number, member, family=("x", number)) for number in range(64) for member in range(4)]
    assert len(set(ids)) == 256
    splits = [{split_of(name) for name in ids[place : place + 4]} for place in range(0, 256, 4)]
    assert all(len(split) == 1 for split in splits) and {"test"} in splits and {"train"} in splits


# Countdown


@pytest.mark.parametrize("numbers", [(2,), (3,), (3, 4), (6,)])
def test_countdown_is_always_solvable_with_each_number_once(numbers: tuple[int, ...]) -> None:
    env = Countdown(numbers=numbers)
    sizes = set()
    for task in first(env, 150):
        given = task.info["numbers"]
        solution = evaluate(env.solution(task))
        assert solution.value == task.answer and 1 <= task.answer <= env.target
        assert sorted(solution.numbers) == sorted(given) and all(1 <= n <= env.largest for n in given)
        assert said(env, task, env.solution(task)) is Status.CORRECT
        assert f"from {', '.join(map(str, given))}." in task.messages[0].content
        sizes.add(len(given))
    assert sizes == set(numbers)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 2**32))
def test_an_expression_grows_over_each_number_once(numbers: list[int], seed: int) -> None:
    value, text = grow(random.Random(seed), list(numbers))
    found = evaluate(text)
    assert found.value == value >= 0 and value.denominator == 1
    assert sorted(found.numbers) == sorted(numbers)


def countdown(numbers: list[int], target: int) -> Task:
    return Task(
        id=identity(numbers), messages=(Message(role="user", content=""),), answer=target, info={"numbers": numbers}
    )


@pytest.mark.parametrize(
    ("numbers", "target", "answer", "status", "why"),
    [
        ([4, 5, 2], 9, "4.5*2", Status.MALFORMED, "decimal splice of two numbers"),
        ([2, 3], 8, "2**3", Status.MALFORMED, "power"),
        ([2, 3], 8, "2^3", Status.MALFORMED, "power"),
        ([7, 2], 3, "7//2", Status.MALFORMED, "floor division"),
        ([7, 2], 1, "7%2", Status.MALFORMED, "remainder"),
        ([3, 5], 15, "3(5)", Status.MALFORMED, "implied product"),
        ([1, 2, 3], 7, "1+2*3=7", Status.MALFORMED, "an equation"),
        ([2, 3], 5, "2+3 # 9", Status.MALFORMED, "a comment"),
        ([5, 3], 2, "-3+5", Status.MALFORMED, "a sign in front"),
        ([1, 2, 3], 6, "01+2+3", Status.MALFORMED, "a leading zero"),
        ([2, 3], 6, "3+3", Status.WRONG, "a number used twice"),
        ([2, 3], 8, "2+3+3", Status.WRONG, "a number used once too often"),
        ([2, 3, 4], 5, "2+3", Status.WRONG, "a number left out"),
        ([2, 3], 23, "23", Status.WRONG, "digits put together"),
        ([1, 2, 3], 15, "12+3", Status.WRONG, "digits put together"),
        ([12, 3], 6, "1+2+3", Status.WRONG, "digits taken apart"),
        ([2, 3], 6, "6", Status.WRONG, "the target itself"),
        ([2, 3], 5, "2*3", Status.WRONG, "another value"),
        ([1, 3, 3], 1, "1/3*3", Status.CORRECT, "exact through a fraction"),
        ([3, 3], 9, "3*3", Status.CORRECT, "a number given twice"),
        ([6, 7, 2], 21, "6 × 7 ÷ 2", Status.CORRECT, "typographic signs"),
        ([8, 3, 8, 3], 24, "8/(3-8/3)", Status.CORRECT, "the value passes through a fraction"),
    ],
)
def test_countdown_rules(numbers: list[int], target: int, answer: str, status: Status, why: str) -> None:
    assert said(Countdown(), countdown(numbers, target), answer) is status, why


def test_a_countdown_that_cannot_be_is_an_error_and_no_endless_search() -> None:
    with pytest.raises(ValueError, match="value from 1 to 0"):
        Countdown(target=0).make(Key(0).random())


# Scramble


def test_scramble_accepts_every_anagram_in_the_dictionary() -> None:
    env = Scramble()
    seen = 0
    for task in first(env, 40):
        for letters in set(itertools.permutations(task.info["letters"])):
            word = "".join(letters)
            assert (said(env, task, word) is Status.CORRECT) == (word in dictionary())
            seen += word in dictionary() and word != task.answer
    assert seen > 5, "some words have an anagram"


def test_scramble_rules() -> None:
    env = Scramble()
    task = Task(id="00", messages=(Message(role="user", content=""),), answer="lead", info={"letters": "aeld"})
    assert [said(env, task, word) for word in ("lead", "deal", "LEAD")] == [Status.CORRECT] * 3
    assert [said(env, task, word) for word in ("aeld", "lea", "leads", "word")] == [Status.WRONG] * 4
    for text in ("le ad", "lead deal", "léad", "ｌｅａｄ", "l3ad"):
        assert said(env, task, text) is Status.MALFORMED, text


def test_scramble_shows_no_word_where_it_can_help_it() -> None:
    env = Scramble(length=(4, 6))
    tasks = first(env, 300)
    assert all(sorted(task.info["letters"]) == sorted(task.answer) for task in tasks)
    assert {len(task.answer) for task in tasks} == {4, 5, 6}
    assert not [task.answer for task in tasks if task.info["letters"] in dictionary()]


def test_the_word_list_is_plain_and_sorted_into_lengths() -> None:
    assert len(dictionary()) > 10_000
    assert all(word.isascii() and word.isalpha() and word.islower() and 3 <= len(word) <= 8 for word in dictionary())
    assert all(len(word) == 4 for word in words(4, 4, 9)) and words(4, 4, 9)
    assert "pots" in words(4, 4, 9) and "pots" not in words(4, 4, 1), "stop, spot and tops are words too"


# Character count


def test_char_count_counts() -> None:
    for task in first(CharCount(), 300):
        assert task.answer == task.info["word"].count(task.info["letter"])
        assert 3 <= len(task.info["word"]) <= 7


def test_char_counts_are_balanced() -> None:
    """Each of four answers on 1/4 of 3,000 tasks; the standard error is 0.0079, the bound four of them."""
    counts = Counter(task.answer for task in first(CharCount(), 3000))
    assert set(counts) == set(range(4))
    assert all(abs(count / 3000 - 1 / 4) < 0.0316 for count in counts.values())


def test_char_count_may_ask_for_more_letters_than_the_string_would_have() -> None:
    for task in first(CharCount(length=(2, 3), most=8), 100):
        assert task.answer == task.info["word"].count(task.info["letter"])


# Arithmetic


@given(st.lists(st.tuples(st.sampled_from("+-*"), st.integers(0, 99)), max_size=8), st.integers(0, 99))
def test_total_is_the_value(rest: list[tuple[str, int]], start: int) -> None:
    text = str(start) + "".join(f" {sign} {number}" for sign, number in rest)
    assert Fraction(total(text.split())) == evaluate(text).value


def test_arithmetic_follows_its_options() -> None:
    for task in first(Arithmetic(terms=4, largest=20, signs="+*"), 100):
        words_of = task.info["expression"].split()
        assert len(words_of) == 7 and set(words_of[1::2]) <= {"+", "*"}
        for sign, number in zip(words_of[1::2], words_of[2::2], strict=True):
            assert 2 <= int(number) <= 9 if sign == "*" else 1 <= int(number) <= 20
        assert evaluate(task.info["expression"]).value == task.answer


def test_arithmetic_takes_negative_answers() -> None:
    env = Arithmetic()
    task = next(task for task in first(env, 100) if task.answer < 0)
    assert said(env, task, str(task.answer)) is said(env, task, f"−{-task.answer}") is Status.CORRECT
    assert said(env, task, str(-task.answer)) is Status.WRONG
    assert said(env, task, f"{task.answer}.0") is Status.MALFORMED
