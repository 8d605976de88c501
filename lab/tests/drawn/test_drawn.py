"""Environments drawn from a grammar: what is refused before and by check and audit, and planted faults."""

import random
import sys
from dataclasses import dataclass, replace
from subprocess import run

import pytest

from gnomon.envs.base import identity, user
from gnomon.types import Message, Task
from gnomon_lab.drawn import STEPS, Drawn, Program, admit, faults, programs, refusal


def program(*texts: str, takes: str = "numbers") -> Program:
    steps, kind = [], takes
    for text in texts:
        steps.append(next(step for step in STEPS if (step.text, step.takes) == (text, kind)))
        kind = steps[-1].gives
    return Program(tuple(steps))


def test_a_program_says_its_steps_and_does_them() -> None:
    one = program("reverse the list", "add 3 to every number", "join the numbers with hyphens")
    assert one.text == "Reverse the list, then add 3 to every number, then join the numbers with hyphens"
    assert one.answers([1, 2, 9]) == {"12-5-4"}


def test_tables_are_sorted_by_number_and_named() -> None:
    one = program("sort the rows by number, smallest first", "give the names", takes="table")
    assert one.answers([("ann", 3), ("bob", 1)]) == {"bob ann"}


def test_two_readings_are_two_answers() -> None:
    assert program("give the longest word", takes="words").answers(["red", "tan", "to"]) == {"red", "tan"}


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (("rotate the list by one place",), "ambiguous"),
        (("keep the first 2 numbers", "count the numbers"), "trivial: constant"),
        (("reverse the list", "reverse the list"), "trivial: the input"),
        (("keep the numbers above 7", "keep the numbers below 3"), "no answer"),
        (("reverse the list", "sort from smallest to largest"), "duplicate"),
        (("reverse the list", "append the sum"), ""),
    ],
)
def test_programs_are_refused_by_what_they_do(steps: tuple[str, ...], why: str) -> None:
    known = {("numbers", refusal(program("sort from smallest to largest"))[1])}
    assert refusal(program(*steps), known)[0] == why


def test_the_draw_repeats_and_has_no_behaviour_twice() -> None:
    first, refused = programs(3, 2, 60)
    programs.cache_clear()
    assert programs(3, 2, 60) == (first, refused)
    assert first == programs(3, 2, 80)[0][:60]
    assert len({(each.steps[0].takes, refusal(each)[1]) for each in first}) == 60


def test_ranges_share_no_program_and_splits_no_instance() -> None:
    old, new = Drawn(count=8), Drawn(first=8, count=8)
    assert not {each.text for each in old.programs()} & {each.text for each in new.programs()}
    ids = [{old.tasks(split)[index].id for index in range(200)} for split in ("train", "test")]
    assert not ids[0] & ids[1]


def test_examples_are_of_the_same_program() -> None:
    task = Drawn().tasks("train")[5]
    questions = [message.content for message in task.messages if message.role == "user"]
    assert len({each.partition(":")[0] for each in questions}) == 1 and len(questions) > 1


def test_drawn_environments_are_admitted() -> None:
    assert [reasons for _, reasons in admit(Drawn(count=6, level=3, seed=1))] == [[]] * 6


def test_the_command_counts_what_was_refused() -> None:
    done = run([sys.executable, "-m", "gnomon_lab.drawn", "3", "1", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all together: no fault" in done.stdout and "3 admitted" in done.stdout


@pytest.mark.long
def test_too_few_programs_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"level 1 gives \d+ different programs"):
        programs(0, 1, 400)


@dataclass(frozen=True, kw_only=True)
class AnyOrder(Drawn):
    """A broken verifier: it ignores order and what follows."""

    def check(self, task: Task, answer: str) -> bool:
        return set(str(task.answer).split()) <= set(answer.split())


@dataclass(frozen=True, kw_only=True)
class Unclear(Drawn):
    """One question with two answers."""

    def instance(self, program: Program, rng: random.Random) -> Task:
        value, either = rng.randint(0, 99), rng.choice((1, -1))
        return Task(
            id=identity(value), messages=user(f"Rotate {value} 5 6: <answer>...</answer>"),
            answer=f"5 6 {value}" if either == 1 else f"6 {value} 5", info={"input": f"{value} 5 6"},
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Leaking(Drawn):
    """The prompt shows the answer."""

    def instance(self, program: Program, rng: random.Random) -> Task:
        task = super().instance(program, rng)
        text = f"{task.messages[0].content} (not {task.answer} )"
        return replace(task, messages=(Message(role="user", content=text),))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(AnyOrder, "audit: correctness"), (Unclear, "check: identity"), (Leaking, "leaked answer")],
)
def test_planted_faults_are_refused(kind: type[Drawn], reason: str) -> None:
    found = faults(kind(level=2, count=1, first=4))
    assert any(each.startswith(reason) for each in found), found
