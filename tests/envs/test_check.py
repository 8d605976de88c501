"""The conformance suite passes what ships, and finds each planted fault by its name."""

import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import pytest

from gnomon.envs import (
    ENVS,
    Agent,
    Arithmetic,
    Ask,
    CharCount,
    Env,
    Episode,
    GuessNumber,
    KuhnPoker,
    MultiTurn,
    Play,
    SingleTurn,
    Step,
    identity,
    witness,
)
from gnomon.envs.check import CHECKS, Finding, Report, Subject, check_env, finding_of, well_formed
from gnomon.envs.turns import Playing
from gnomon.keys import Key
from gnomon.types import Message, Part, Status, Task, Verdict
from gnomon.verifiers import Price, Strictness
from gnomon.verifiers.hostile import hostile


def failures(report: Report) -> dict[str, Finding]:
    return {finding.name: finding for finding in report.findings if not finding.passed}


@pytest.mark.parametrize("name", sorted(ENVS))
def test_every_shipped_environment_passes(name: str) -> None:
    # A verdict in a sandbox takes a hundred times as long.
    report = check_env(ENVS[name](), tasks=20 if hasattr(ENVS[name], "isolation") else 200)
    assert report.passed, str(report)
    assert [finding.name for finding in report.findings] == ["tasks", *CHECKS]
    skipped = {finding.name for finding in report.findings if finding.skipped}
    alone = {"mutations", "wrong answers"}
    if issubclass(ENVS[name], SingleTurn):
        assert skipped == ({"mutations"} if name == "dataset" else set())
    elif issubclass(ENVS[name], Agent):
        assert skipped == alone | {"prompt", "two answers"}
    else:
        assert skipped == alone | ({"constant answer"} if getattr(ENVS[name](), "players", 1) > 1 else set())


@pytest.mark.parametrize(
    "env",
    [
        Arithmetic(gate="correct", shots=2),
        CharCount(strictness=Strictness.LAST),
    ],
)
def test_options_pass_too(env: Env) -> None:
    report = check_env(env, tasks=60)
    assert report.passed, str(report)
    assert [f.name for f in report.findings if f.skipped] == (["two answers"] if "last" in str(report) else [])


# Planted faults: each class breaks one promise of a sound environment.


class Sound(CharCount):
    """What the faulty ones depart from."""


def shown(task: Task, content: str) -> Task:
    return replace(task, messages=(Message(role="user", content=content),))


class GlobalDraw(Sound):
    def make(self, rng: random.Random) -> Task:
        return super().make(random.Random(random.random()))


class HashOrder(Sound):
    def make(self, rng: random.Random) -> Task:
        task = super().make(rng)
        letters = "".join(set("abcdefgh"))
        return shown(task, f"{letters}: {task.messages[0].content}")


class Seeds(Sound):
    def check(self, task: Task, answer: str) -> bool:
        random.seed(0)
        return super().check(task, answer)


class OneIdForAll(Sound):
    def make(self, rng: random.Random) -> Task:
        return replace(super().make(rng), id="1")


class NewIds(Sound):
    """Counts its tasks: the same problem comes under many ids, and stands in both splits."""

    def make(self, rng: random.Random) -> Task:
        letter, count = rng.choice("ab"), rng.randint(0, 5)
        return Task(
            id=identity(rng.random()), answer=count, info={"letter": letter, "word": letter * count},
            messages=(Message(role="user", content=f"{letter} in {letter * count}? End with <answer>...</answer>"),),
        )  # fmt: skip


class SplitsAlike(Sound):
    def tasks(self, split: str) -> Any:
        return super().tasks("train")


class NoSlotShown(Sound):
    def make(self, rng: random.Random) -> Task:
        task = super().make(rng)
        return shown(task, task.info["word"])


class Echo(Sound):
    """The prompt gives an example answer in the slot, and that is the right one."""

    def make(self, rng: random.Random) -> Task:
        task = super().make(rng)
        return shown(task, f"{task.info['word']}: <answer>{task.answer}</answer>")


class WrongSolution(Sound):
    def solution(self, task: Task) -> str:
        return str(task.answer + 1)


class ShortPaid(Sound):
    """Declares more than a right answer ever earns."""

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, 2.0


class AnythingGoes(Sound):
    """Two non-empty texts are equally true."""

    def check(self, task: Task, answer: str) -> bool:
        return bool(answer) == bool(str(task.answer))


class Substring(Sound):
    def check(self, task: Task, answer: str) -> bool:
        return str(task.answer) in answer


class NoSlotNeeded(Sound):
    def verify(self, task: Task, reply: str) -> Verdict:
        return self.verdict(Status.CORRECT if reply == str(task.answer) else super().verify(task, reply).status)


class EmptySlotPaid(Sound):
    def verify(self, task: Task, reply: str) -> Verdict:
        found = super().verify(task, reply)
        return self.verdict(Status.WRONG) if "</answer>" in reply and not found.correct else found


class FirstOfMany(Sound):
    def verify(self, task: Task, reply: str) -> Verdict:
        return super().verify(task, reply.partition("</answer>")[0] + "</answer>")


class AlwaysThree(Sound):
    def make(self, rng: random.Random) -> Task:
        task = super().make(rng)
        return task if rng.random() < 0.1 or task.answer == 3 else self.make(rng)


class FormatOverAll(Sound):
    """Pays a wrong answer more than a right one."""

    def verdict(self, status: Status, *, share: float | None = None, **found: Any) -> Verdict:
        return Verdict(status=status, parts=(Part(name="format", value=float(status is Status.WRONG)),), **found)


class ShortPriced(Sound):
    """Pays for the format and does not declare it."""

    @property
    def prices(self) -> tuple[Price, ...]:
        return super().prices[:1]


class Bought(Sound):
    """Five calls that nobody saw made pay more than a right answer."""

    @property
    def prices(self) -> tuple[Price, ...]:
        return *super().prices, Price(name="tool", weight=1.0, most=5)


class DeafToTheGate(Sound):
    def verdict(self, status: Status, **found: Any) -> Verdict:
        made = super().verdict(status, **found)
        return replace(made, parts=tuple(replace(part, gate=None) for part in made.parts))


class OutOfRange(Sound):
    def verdict(self, status: Status, *, share: float | None = None, **found: Any) -> Verdict:
        return Verdict(status=status, parts=(Part(name="correct", value=2.0 * (status is Status.CORRECT)),), **found)

    @property
    def reward_range(self) -> tuple[float, float]:
        return 0.0, 1.0


class Overwrites(Sound):
    def check(self, task: Task, answer: str) -> bool:
        task.info["tries"] = task.info.get("tries", 0) + 1  # type: ignore[index]
        return super().check(task, answer)


class Moody(Sound):
    def verify(self, task: Task, reply: str) -> Verdict:
        return super().verify(task, reply) if os.urandom(1)[0] % 2 else self.verdict(Status.WRONG)


class WrongPlace(Sound):
    def verify(self, task: Task, reply: str) -> Verdict:
        return replace(super().verify(task, reply), span=(0, 1))


class Naive(Sound):
    """int() takes full-width digits, and breaks on most texts and on over 4,300 digits."""

    def check(self, task: Task, answer: str) -> bool:
        return int(answer) == int(task.answer)


class Hangs(Sound):
    def check(self, task: Task, answer: str) -> bool:
        while "^" in answer:
            time.sleep(0.01)
        return super().check(task, answer)


class Quits(Sound):
    def check(self, task: Task, answer: str) -> bool:
        if "^" in answer:
            os._exit(0)
        return super().check(task, answer)


class Exits(Sound):
    def solution(self, task: Task) -> str:
        raise SystemExit(0)


class Fails(Sound):
    def verify(self, task: Task, reply: str) -> Verdict:
        found = super().verify(task, reply)
        return self.verdict(Status.FAILED, detail="no idea") if found.status is Status.MALFORMED else found


class NoTasks(Sound):
    def make(self, rng: random.Random) -> Task:
        raise KeyError("no such file\n\x1b[2J")


class OwnIds(Sound):
    def make(self, rng: random.Random) -> Task:
        return replace(super().make(rng), id="question 17")


class SameNeighbour(Sound):
    """A neighbour that is not told apart from chance."""

    def neighbour(self, task: Task, rng: random.Random) -> Task:
        return super().neighbour(task, random.Random(os.urandom(4)))


class UnsolvedNeighbour(Sound):
    def neighbour(self, task: Task, rng: random.Random) -> Task:
        return replace(super().neighbour(task, rng), answer="many")


@dataclass(frozen=True, kw_only=True)
class Uncarried(Sound):
    judge: Any = field(default_factory=Lock)


FAULTS: list[tuple[type[Sound], str, str]] = [
    (GlobalDraw, "repeatable", "another task"),
    (HashOrder, "another process", "PYTHONHASHSEED"),
    (Seeds, "no trace", "random state"),
    (OneIdForAll, "identity", "not interchangeable"),
    (NewIds, "identity", "another id"),
    (NewIds, "splits", "under another id"),
    (SplitsAlike, "splits", "same problem"),
    (NoSlotShown, "prompt", "0 times"),
    (Echo, "prompt", "the prompt itself"),
    (WrongSolution, "solutions", "judged wrong"),
    (ShortPaid, "solutions", "maximum of reward_range"),
    (AnythingGoes, "wrong answers", "176 of 176 wrong answers"),
    (AnythingGoes, "constant answer", "100.0%"),
    (AnythingGoes, "hostile replies", "judged correct"),
    (Substring, "wrong answers", " or "),
    (NoSlotNeeded, "no answer", "gives no answer but is correct"),
    (EmptySlotPaid, "no answer", "<answer></answer>"),
    (FirstOfMany, "two answers", "two answers"),
    (AlwaysThree, "constant answer", "'3'"),
    (FormatOverAll, "rewards", "a wrong reply gets the reward 1.0"),
    (DeafToTheGate, "rewards", "still earns 0.1"),
    (ShortPriced, "weights", "'format' is paid but not declared"),
    (Bought, "weights", "the other parts pay at most 5.1 (format 1 x 0.1 + tool 5 x 1)"),
    (OutOfRange, "solutions", "outside reward_range"),
    (Overwrites, "no trace", "changes the task"),
    (Moody, "no trace", "is judged"),
    (WrongPlace, "no trace", "`span` points at"),
    (SameNeighbour, "mutations", "does not depend on task and key alone"),
    (UnsolvedNeighbour, "mutations", "is not correct"),
    (Naive, "hostile replies", "ValueError"),
    (Hangs, "hostile replies", "LaTeX power tower, in the slot: no answer within 2 s"),
    (Quits, "hostile replies", "LaTeX power tower, in the slot: the process ended with exit status 0"),
    (Exits, "solutions", "SystemExit"),
    (Fails, "hostile replies", "the verifier failed: no idea"),
    (NoTasks, "tasks", "KeyError"),
    (OwnIds, "tasks", "question 17"),
    (Uncarried, "another process", "pickle"),
]


@pytest.mark.parametrize(("kind", "name", "detail"), FAULTS, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_fault_is_found(kind: type[Sound], name: str, detail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "PATIENCE", 2.0)
    finding = finding_of(name, {"tasks": well_formed, **CHECKS}[name], Subject(kind(), 40))
    assert not finding.passed and detail in finding.detail, finding


def test_faults_are_told_together_and_none_escapes() -> None:
    report = check_env(AnythingGoes(), tasks=40)
    assert set(failures(report)) == {"prompt", "wrong answers", "constant answer", "rewards", "hostile replies"}
    assert len(report.findings) == 1 + len(CHECKS)
    assert [finding.name for finding in check_env(NoTasks()).findings] == ["tasks"], "without a task there is no more"


def test_the_sound_one_has_none_of_the_faults() -> None:
    report = check_env(Sound(), tasks=40)
    assert report.passed, str(report)


def test_every_check_can_fail() -> None:
    assert {name for _, name, _ in [*FAULTS, *SEVERAL_FAULTS]} == {"tasks", *CHECKS}


def test_an_exception_is_shown_on_one_line_with_its_place() -> None:
    finding = failures(check_env(NoTasks()))["tasks"]
    assert finding.detail.isprintable() and "\\x1b" in finding.detail
    assert Path(finding.where.split(":")[0]).name == Path(__file__).name and finding.where.endswith("in make")
    there = finding_of("hostile replies", CHECKS["hostile replies"], Subject(Naive(), 5))
    assert Path(there.where.split(":")[0]).name == Path(__file__).name and there.where.endswith("in check")


def test_a_report_as_text_and_as_data() -> None:
    report = check_env(WrongSolution(), tasks=10)
    data = json.loads(json.dumps(report.as_dict()))
    assert data["passed"] is False and len(data["findings"]) == len(report.findings)
    assert data["findings"][8] == {
        "name": "solutions", "passed": False, "skipped": False,
        "detail": report.findings[8].detail, "where": "train task 0",
    }  # fmt: skip
    lines = str(report).splitlines()
    assert any(line.startswith("  FAIL  solutions") for line in lines)
    assert "          train task 0" not in lines and any(line.strip() == "at train task 0" for line in lines)
    columns = {line.index(f.detail) for f in report.findings for line in lines if f.detail and line.endswith(f.detail)}
    assert len(columns) == 1, "details stand in one column"
    assert lines[-1].endswith("0 skipped") and "failed" in lines[-1]


# An environment of its own kind: several turns, no slot, no solution.


class Guess:
    """The play of one number: the reply must be the number; low and high are told."""

    def __init__(self, task: Task, turns: int) -> None:
        self.messages, self.number, self.left = task.messages, task.info["number"], turns

    def step(self, reply: str) -> Step:
        self.left -= 1
        right = reply == str(self.number)
        if right or not self.left:
            status = Status.CORRECT if right else Status.WRONG
            return Step(done=True, verdict=Verdict(status=status, parts=(Part(name="won", value=float(right)),)))
        return Step(done=False, messages=(Message(role="user", content="No."),))

    def close(self) -> None:
        """Nothing is held."""


class Fair(GuessNumber):
    """What the faulty ones of several turns depart from."""


class FromTheClock(Fair):
    def play(self, task: Task, rng: random.Random) -> Play:
        return super().play(replace(task, answer=1 + os.urandom(1)[0] % 20), rng)


class KeepsCount(Fair):
    """Its hints depend on how often anybody was asked before."""

    asked: ClassVar[list[int]] = []

    def play(self, task: Task, rng: random.Random) -> Play:
        self.asked.append(0)
        yield Ask(text=f"Question {len(self.asked)}")
        return [0.0]


class HashedHints(Fair):
    def play(self, task: Task, rng: random.Random) -> Play:
        yield Ask(text="".join(set("abcdefgh")))
        return [0.0]


class OneTooMany(Fair):
    @property
    def moves(self) -> int:
        return self.guesses - 1


class PoorPlayer(Fair):
    def best(self, task: Task, ask: Ask) -> str:
        return "1"


class EveryoneWins(Fair):
    def play(self, task: Task, rng: random.Random) -> Play:
        yield Ask(legal=("1", "2"))
        return [1.0]

    def best(self, task: Task, ask: Ask) -> str:
        return "1"


class PaysTheUnreadable(Fair):
    def start(self, task: Task, key: Key) -> Playing:
        return Generous(self, task, key)


class Generous(Playing):
    """Takes what it cannot read in the second turn for the solution."""

    def step(self, reply: str) -> Step:
        later = len(self.ask.text) > 0
        made = super().step(reply)
        return replace(made, verdict=replace(made.verdict, status=Status.CORRECT)) if later and made.verdict else made


class BreaksLate(Fair):
    """Sound at first; falls over a long move in the second turn."""

    def play(self, task: Task, rng: random.Random) -> Play:
        yield Ask()
        return [float(int((yield Ask(text="Again."))) == task.answer)]

    def best(self, task: Task, ask: Ask) -> str:
        return str(task.answer)


class SpeechlessPlayer(KuhnPoker):
    def play(self, task: Task, rng: random.Random) -> Play:
        yield Ask(legal=("pass",))
        yield Ask(legal=("pass",), player=1)
        return [0.0, 0.0]

    def best(self, task: Task, ask: Ask) -> str:
        return "pass"


class LostPlayer(KuhnPoker):
    def start(self, task: Task, key: Key) -> Playing:
        return OneVerdict(self, task, key)


class OneVerdict(Playing):
    def step(self, reply: str) -> Step:
        made = super().step(reply)
        return replace(made, verdict=made.verdicts[0], verdicts=()) if made.done else made


class IllegalPlayer(KuhnPoker):
    def best(self, task: Task, ask: Ask) -> str:
        return "raise"


SEVERAL_FAULTS: list[tuple[type[MultiTurn], str, str]] = [
    (FromTheClock, "episodes", "replayed from its completions differs"),
    (KeepsCount, "episodes", "replayed from its completions differs"),
    (HashedHints, "another process", "plays the same replies differently"),
    (OneTooMany, "episodes", "not over after max_turns = 5"),
    (PoorPlayer, "solutions", "its expert, as player 0, is judged wrong"),
    (EveryoneWins, "constant answer", "100.0%"),
    (PaysTheUnreadable, "hostile replies", "in turn 4: judged correct"),
    (PaysTheUnreadable, "two answers", "two actions"),
    (BreaksLate, "hostile replies", "ValueError"),
    (SpeechlessPlayer, "episodes", "player 1 must act and got no observation"),
    (LostPlayer, "episodes", "2 players and 1 verdicts"),
    (IllegalPlayer, "solutions", "as player 0, is judged rejected"),
]


@pytest.mark.parametrize(("kind", "name", "detail"), SEVERAL_FAULTS, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_fault_of_several_turns_is_found(kind: type[MultiTurn], name: str, detail: str) -> None:
    finding = finding_of(name, CHECKS[name], Subject(kind(), 20))
    assert not finding.passed and detail in finding.detail, finding


@dataclass(frozen=True)
class Guessing:
    reward_range: tuple[float, float] = (0.0, 1.0)
    max_turns: int = 3
    allowed: int = 3

    def tasks(self, split: str) -> Sequence[Task]:
        return [
            Task(
                id=identity(split, n), messages=(Message(role="user", content="Guess my number."),), answer=None,
                info={"number": 1000 * n + (split == "test")},
            )
            for n in range(50)
        ]  # fmt: skip

    def start(self, task: Task, key: Key) -> Episode:
        return Guess(task, self.allowed)


def test_an_environment_of_several_turns_passes_what_concerns_it() -> None:
    report = check_env(Guessing())
    assert report.passed, str(report)
    skipped = {finding.name for finding in report.findings if finding.skipped}
    assert skipped == {"prompt", "solutions", "mutations", "wrong answers", "two answers", "constant answer"}
    assert all("SingleTurn" in finding.detail for finding in report.findings if finding.skipped)


def test_an_episode_that_does_not_end_is_found() -> None:
    found = failures(check_env(Guessing(allowed=4)))
    assert "not over after max_turns = 3" in found["no trace"].detail
    assert "hostile replies" in found


class ShowsSeed(Sound):
    def make(self, rng: random.Random) -> Task:
        return shown(super().make(rng), f"{os.environ.get('PYTHONHASHSEED')}: End with <answer>...</answer>")


@pytest.mark.parametrize("own", ["1", "2", "random"])
def test_the_other_process_has_another_hash_seed(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", own)
    heard, end = witness.elsewhere(ShowsSeed(), 1)
    assert heard[0][1][1].messages[0].content.partition(":")[0] in {"1", "2"} - {own} and not end


def test_the_hostile_corpus_is_named_and_large() -> None:
    names = {entry.name for entry in hostile()}
    assert len(names) == len(list(hostile())) >= 80
    assert max(len(entry.text) for entry in hostile()) >= 9_999_990
    assert {entry.row for entry in hostile()} == set(range(1, 89)) and all(entry.why for entry in hostile())
