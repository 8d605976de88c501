"""Environments drawn from a grammar: programs of one to four steps over numbers, words and small tables.

`python -m gnomon_lab.drawn COUNT LEVEL SEED` draws and admits them, and prints what was refused and why.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

from gnomon.audit import Finding, Judgement, Severity, audit, subject_of
from gnomon.audit.case import Case
from gnomon.audit.correctness import probe as correctness
from gnomon.audit.exploit import outpaid
from gnomon.audit.exploit import probe as exploit
from gnomon.audit.judging import Bench, VerifierWorkers, judgement_of
from gnomon.envs.base import SLOT, SingleTurn, identity, user, with_examples
from gnomon.envs.check import CHECKS, Subject, check_env, finding_of
from gnomon.envs.dictionary import words
from gnomon.keys import Key
from gnomon.terminal import put
from gnomon.types import Task
from gnomon.verifiers import Malformed, Strictness
from gnomon.workers import Outcome, Returned

__all__ = ["Drawn", "Program", "Step", "admit", "faults", "programs", "refusal"]

INPUTS = 48
"""Fixed inputs on which programs are compared."""
MOST = 0.4
"""Share of the inputs on which a program may give one answer, or give its input back."""
UNSURE = 0.25
"""Share of the inputs that may be ambiguous or have no answer. Instances are drawn from the others."""
TASKS = 16
"""Instances with which an environment is checked and audited."""
LONGEST = 48
"""Characters of an answer."""
ELSEWHERE = ("episodes", "another process", "hostile replies", "splits")
"""Checks that start processes or read many tasks: they are made once, of all programs together."""


@dataclass(frozen=True, slots=True)
class Step:
    """One transformation, as a sentence says it."""

    text: str
    takes: str
    gives: str
    run: Callable[[Any], Any]
    other: Callable[[Any], Any] | None = None
    """Another reading of the same sentence."""


@dataclass(frozen=True, slots=True)
class Program:
    """Steps of which each takes what the one before gives. Its text is its name."""

    steps: tuple[Step, ...]

    @property
    def text(self) -> str:
        sentence = ", then ".join(step.text for step in self.steps)
        return sentence[0].upper() + sentence[1:]

    def answers(self, value: Any) -> set[str]:
        """The answers by every reading: one if the text is clear; none if a step has no result."""
        values = [value]
        for step in self.steps:
            readings = [step.run] if step.other is None else [step.run, step.other]
            values = [read(each) for each in values for read in readings]
            if any(each in ("", [], None) for each in values):
                return set()
        texts = {show(each) for each in values}
        return texts if max(map(len, texts)) <= LONGEST else set()


def show(value: Any) -> str:
    """A value as text: `3 1 2`, `red blue`, or `ann 3, bob 5`."""
    if isinstance(value, list):
        return (", " if isinstance(value[0], tuple) else " ").join(map(show, value))
    return f"{value[0]} {value[1]}" if isinstance(value, tuple) else str(value)


def once(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def every(run: Callable[[str], str], values: list[str]) -> list[str]:
    """Of no word if one would be empty."""
    results = [run(word) for word in values]
    return results if all(results) else []


def running(values: list[int]) -> list[int]:
    return [sum(values[: at + 1]) for at in range(len(values))]


def order(text: str, kind: str, noun: str) -> Iterator[Step]:
    """Steps that rearrange any list."""
    yield Step("reverse the list", kind, kind, lambda v: v[::-1])
    yield Step("swap the first and the last " + noun, kind, kind, lambda v: [v[-1], *v[1:-1], v[0]] if v[1:] else [])
    yield Step(f"drop the first {noun}", kind, kind, lambda v: v[1:])
    yield Step(f"drop the last {noun}", kind, kind, lambda v: v[:-1])
    yield Step(f"repeat the first {noun} at the end", kind, kind, lambda v: [*v, v[0]])
    yield Step("write the list twice", kind, kind, lambda v: v + v)
    yield Step("rotate the list by one place", kind, kind, lambda v: v[1:] + v[:1], lambda v: v[-1:] + v[:-1])
    yield Step(f"keep every second {noun}", kind, kind, lambda v: v[::2], lambda v: v[1::2])
    yield Step(f"keep every second {noun}, starting with the first", kind, kind, lambda v: v[::2])
    yield Step(f"keep every second {noun}, starting with the second", kind, kind, lambda v: v[1::2])
    yield Step(f"move the first {noun} to the end", kind, kind, lambda v: v[1:] + v[:1])
    yield Step(f"move the last {noun} to the front", kind, kind, lambda v: v[-1:] + v[:-1])
    for k in (2, 3):
        yield Step(f"keep the first {k} {text}", kind, kind, lambda v, k=k: v[:k])  # type: ignore[misc]
        yield Step(f"keep the last {k} {text}", kind, kind, lambda v, k=k: v[-k:])  # type: ignore[misc]
    if kind == "table":
        return
    one = "number" if kind == "numbers" else "word"
    yield Step(f"give the first {noun}", kind, one, lambda v: v[0])
    yield Step(f"give the last {noun}", kind, one, lambda v: v[-1])
    yield Step(f"give the second {noun}", kind, one, lambda v: v[1] if v[1:] else None)
    yield Step(f"join the {text} with hyphens", kind, "text", lambda v: "-".join(map(str, v)) if v[1:] else None)
    yield Step(f"count the {text}", kind, "number", len)
    yield Step(
        f"remove repeated {text}", kind, kind, once, lambda v: [each for each in v if v.count(each) == 1]
    )  # fmt: skip


def grammar() -> Iterator[Step]:
    """All steps. Those with two readings are refused, or avoided, where the readings differ."""
    yield from order("numbers", "numbers", "number")
    yield from order("words", "words", "word")
    yield from order("rows", "table", "row")
    numbers: list[tuple[str, Callable[[Any], Any]]] = [
        ("sort from smallest to largest", sorted),
        ("sort from largest to smallest", lambda v: sorted(v, reverse=True)),
        ("keep the even numbers", lambda v: [n for n in v if n % 2 == 0]),
        ("keep the odd numbers", lambda v: [n for n in v if n % 2]),
        ("square every number", lambda v: [n * n for n in v]),
        ("replace every number by the sum of it and all before it", running),
        ("subtract every number from the one after it", lambda v: [b - a for a, b in pairwise(v)]),
        ("add every number to the one after it", lambda v: [a + b for a, b in pairwise(v)]),
        ("append the sum", lambda v: [*v, sum(v)]),
        ("append the largest number", lambda v: [*v, max(v)]),
    ]
    for text, run in numbers:
        yield Step(text, "numbers", "numbers", run)
    for k in range(1, 10):
        yield Step(f"add {k} to every number", "numbers", "numbers", lambda v, k=k: [n + k for n in v])  # type: ignore[misc]
        yield Step(f"add {k}", "number", "number", lambda n, k=k: n + k)  # type: ignore[misc]
        yield Step(f"subtract every number from {9 + k}", "numbers", "numbers", lambda v, k=k: [9 + k - n for n in v])  # type: ignore[misc]
    for k in range(2, 8):
        yield Step(f"multiply every number by {k}", "numbers", "numbers", lambda v, k=k: [n * k for n in v])  # type: ignore[misc]
        yield Step(f"multiply by {k}", "number", "number", lambda n, k=k: n * k)  # type: ignore[misc]
        yield Step(f"keep the numbers above {k}", "numbers", "numbers", lambda v, k=k: [n for n in v if n > k])  # type: ignore[misc]
        yield Step(f"keep the numbers below {k}", "numbers", "numbers", lambda v, k=k: [n for n in v if n < k])  # type: ignore[misc]
        yield Step(f"count the numbers above {k}", "numbers", "number", lambda v, k=k: sum(n > k for n in v))  # type: ignore[misc]
        yield Step(f"keep the rows above {k}", "table", "table", lambda v, k=k: [r for r in v if r[1] > k])  # type: ignore[misc]
        yield Step(f"put {k} in front", "numbers", "numbers", lambda v, k=k: [k, *v])  # type: ignore[misc]
        yield Step(f"add {k} to the number of every row", "table", "table", lambda v, k=k: [(a, n + k) for a, n in v])  # type: ignore[misc]
    figures: list[tuple[str, Callable[[Any], Any]]] = [
        ("add up the numbers", sum),
        ("give the smallest number", min),
        ("give the largest number", max),
        ("give the largest number less the smallest", lambda v: max(v) - min(v)),
        ("add the first and the last number", lambda v: v[0] + v[-1]),
        ("count the odd numbers", lambda v: sum(n % 2 for n in v)),
    ]
    for text, run in figures:
        yield Step(text, "numbers", "number", run)
    letters: list[tuple[str, Callable[[Any], Any]]] = [
        ("reverse the letters", lambda w: w[::-1]),
        ("write it in capitals", str.upper),
        ("remove the vowels", lambda w: "".join(c for c in w if c not in "aeiouAEIOU")),
        ("keep only the vowels", lambda w: "".join(c for c in w if c in "aeiouAEIOU")),
        ("sort the letters by the alphabet", lambda w: "".join(sorted(w, key=str.lower))),
        ("write it twice", lambda w: w + w),
        ("double every letter", lambda w: "".join(c + c for c in w)),
        ("drop the first letter", lambda w: w[1:]),
        ("drop the last letter", lambda w: w[:-1]),
        ("keep the first 2 letters", lambda w: w[:2]),
        ("keep the last 2 letters", lambda w: w[-2:]),
        ("move the first letter to the end", lambda w: w[1:] + w[:1]),
        ("move the last letter to the front", lambda w: w[-1:] + w[:-1]),
        ("swap the first and the last letter", lambda w: w[-1] + w[1:-1] + w[0] if w[1:] else ""),
        ("add the letter s", lambda w: w + "s"),
    ]
    for text, run in letters:
        yield Step(text, "word", "word", run)
        each = text.replace("write it", "write every word").replace(" letters", " letters of every word")
        each = each if each != text else text + " of every word"
        yield Step(each.replace("add the letter s of", "add the letter s to"), "words", "words", partial(every, run))
    yield Step("spell it with spaces", "word", "text", " ".join)
    yield Step("spell it with hyphens", "word", "text", "-".join)
    yield Step("count the letters", "word", "number", len)
    yield Step("count the vowels", "word", "number", lambda w: sum(c in "aeiouAEIOU" for c in w))
    yield Step("sort by the alphabet", "words", "words", lambda v: sorted(v, key=str.lower))
    yield Step("sort from short to long", "words", "words", lambda v: sorted(v, key=len),
               lambda v: sorted(v[::-1], key=len))  # fmt: skip
    yield Step("give the longest word", "words", "word", lambda v: max(v, key=len), lambda v: max(v[::-1], key=len))
    yield Step("join the first letters", "words", "word", lambda v: "".join(w[0] for w in v))
    yield Step("join the last letters", "words", "word", lambda v: "".join(w[-1] for w in v))
    yield Step("replace every word by its number of letters", "words", "numbers", lambda v: [len(w) for w in v])
    yield Step("count all letters", "words", "number", lambda v: len("".join(v)))
    for k in (3, 4):
        yield Step(f"keep the words of more than {k} letters", "words", "words",
                   lambda v, k=k: [w for w in v if len(w) > k])  # type: ignore[misc]  # fmt: skip
    yield Step("sort the rows by name", "table", "table", sorted)
    yield Step("sort the rows by number, smallest first", "table", "table",
               lambda v: sorted(v, key=lambda r: r[1]), lambda v: sorted(v[::-1], key=lambda r: r[1]))  # fmt: skip
    yield Step("give the names", "table", "words", lambda v: [name for name, _ in v])
    yield Step("give the numbers", "table", "numbers", lambda v: [n for _, n in v])
    yield Step("give the name of the largest number", "table", "word",
               lambda v: max(v, key=lambda r: r[1])[0], lambda v: max(v[::-1], key=lambda r: r[1])[0])  # fmt: skip


STEPS = tuple(grammar())
KINDS = ("numbers", "word", "words", "table")


def drawn_input(kind: str, rng: random.Random) -> Any:
    """A list of 3 to 5 digits, a word, 3 or 4 words, or a table of 3 rows."""
    if kind == "numbers":
        return [rng.randint(0, 9) for _ in range(rng.randint(3, 5))]
    if kind == "word":
        return rng.choice(words(3, 6, 99))
    some = rng.sample(words(3, 6, 99), 3 if kind == "table" else rng.randint(3, 4))
    return [(name, rng.randint(0, 9)) for name in some] if kind == "table" else some


@lru_cache
def fixed_choices(kind: str) -> tuple[Any, ...]:
    return tuple(drawn_input(kind, Key(0).at("fixed input", kind=kind, index=i).random()) for i in range(INPUTS))


def refusal(program: Program, known: Container[object] = ()) -> tuple[str, object]:
    """Why a program is refused before it is an environment ("" if it is not), and its behaviour on the fixed inputs.

    Args: known: behaviours of other programs.
    """
    inputs = fixed_choices(program.steps[0].takes)
    answers = [program.answers(value) for value in inputs]
    behaviour = tuple(min(each) if len(each) == 1 else None for each in answers)
    clear = [text for text in behaviour if text is not None]
    if sum(not each for each in answers) > UNSURE * INPUTS:
        return "no answer", behaviour
    if len(clear) < (1 - UNSURE) * INPUTS:
        return "ambiguous", behaviour
    if Counter(clear).most_common(1)[0][1] > MOST * len(clear):
        return "trivial: constant", behaviour
    if sum(a == show(value) for a, value in zip(behaviour, inputs, strict=True)) > MOST * INPUTS:
        return "trivial: the input", behaviour
    return ("duplicate" if (program.steps[0].takes, behaviour) in known else ""), behaviour


@lru_cache(maxsize=8)
def programs(seed: int, level: int, count: int) -> tuple[tuple[Program, ...], dict[str, int]]:
    """The first programs of at most `level` steps that are new and not trivial, and the numbers of refusals.

    Raises: ValueError if the grammar has too few.
    """
    taken: dict[object, Program] = {}
    refused: Counter[str] = Counter()
    for index in range(60 * count + 1000):
        if len(taken) == count:
            return tuple(taken.values()), dict(sorted(refused.items()))
        rng = Key(seed).at("drawn program", index=index, level=level).random()
        kind, steps = rng.choice(KINDS), list[Step]()
        for _ in range(rng.randint(1, level)):
            if not (after := [step for step in STEPS if step.takes == kind]):
                break
            steps.append(rng.choice(after))
            kind = steps[-1].gives
        program = Program(tuple(steps))
        why, behaviour = refusal(program, taken.keys())
        if why:
            refused[why] += 1
        else:
            taken[program.steps[0].takes, behaviour] = program
    raise ValueError(
        f"level {level} gives {len(taken)} different programs in {60 * count + 1000} draws, and not {count}; "
        "use a smaller count or a higher level"
    )


@dataclass(frozen=True, kw_only=True)
class Drawn(SingleTurn):
    """Instances of programs drawn from the grammar, each after examples of the same program.

    Raises: ValueError for a level outside 1 to 4, or more programs than the grammar has.
    """

    level: int = 2
    """Most steps of a program, 1 to 4."""
    count: int = 1000
    """Number of programs."""
    first: int = 0
    """Index of the first program. Ranges that do not overlap have no program in common."""
    examples: int = 2
    """Solved instances before the question."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (1 <= self.level <= 4 and self.count >= 1 and self.first >= 0 and self.examples >= 0):
            raise ValueError("level must be 1 to 4, count at least 1, first and examples at least 0")
        self.programs()

    def programs(self) -> tuple[Program, ...]:
        return programs(self.seed, self.level, self.first + self.count)[0][self.first :]

    def framed(self, answer: str) -> str:
        """In examples too: without a slot if the strictness is `lenient`, so that replies are short."""
        return answer if self.strictness is Strictness.LENIENT else super().framed(answer)

    def make(self, rng: random.Random) -> Task:
        program = rng.choice(self.programs())
        task, *examples = (self.instance(program, rng) for _ in range(1 + self.examples))
        return with_examples(self, task, [each for each in examples if each.id != task.id])

    def instance(self, program: Program, rng: random.Random) -> Task:
        """A task of one program, whose text has one reading on this input."""
        while True:
            value = drawn_input(program.steps[0].takes, rng)
            if len(answers := program.answers(value)) == 1:
                break
        text = show(value)
        return Task(
            id=identity("drawn", program.text, text), messages=user(f"{program.text}: {text} {SLOT}"),
            answer=min(answers), info={"program": program.text, "input": text},
        )  # fmt: skip

    def check(self, task: Task, answer: str) -> bool:
        if not (parts := answer.replace(",", " ").split()):
            raise Malformed("no answer")
        return parts == str(task.answer).replace(",", " ").split()

    def solution(self, task: Task) -> str:
        return str(task.answer)


class Here(VerifierWorkers):
    """Judges in this process, for a verifier whose class was audited in processes before."""

    def judge(self, calls: Iterable[tuple[int, str]]) -> list[Judgement]:
        judgements = [judgement_of(self.bench, index, reply) for index, reply in calls]
        self.judgements += judgements
        return judgements

    def ask(self, probe: Callable[..., Any], *arguments: Any, fresh: bool = False, patience: float = 1) -> Outcome:
        return Returned(probe(self.bench, *arguments))

    @property
    def bench(self) -> Bench:
        return self.sent.bench


def faults(env: SingleTurn, *, tasks: int = TASKS) -> list[str]:
    """What `gnomon check` and the audit's axes correctness and exploit find wrong with one environment.

    Checks that start processes are left out (`ELSEWHERE`), and replies are judged in this process. One test is added:
    whether prompts contain their answer more often than another task's, apart from the input.
    """
    subject = Subject(env, tasks)
    found = [finding_of(name, check, subject) for name, check in CHECKS.items() if name not in ELSEWHERE]
    reasons = [f"check: {each.name}" for each in found if not each.passed]
    reasons += ["leaked answer"] if leaked(subject.tasks) else []
    whole = subject_of(env, count=tasks)
    with Here(whole) as workers:
        case = Case(subject=whole, workers=workers)
        blocking: list[Finding] = [*correctness(case), *exploit(case), *outpaid(case)]
    return reasons + [f"audit: {each.rule}" for each in blocking if each.severity is Severity.BLOCKING]


def leaked(tasks: tuple[Task, ...]) -> bool:
    """Whether the prompts show their own answer, apart from the input, in 30 % more tasks than that of the next."""

    def share(step: int) -> float:
        hits = 0
        for at, task in enumerate(tasks):
            text = task.messages[-1].content.replace(task.info.get("input", ""), "\0")
            hits += f" {tasks[(at + step) % len(tasks)].answer} " in f" {text} ".replace("\n", " ")
        return hits / len(tasks)

    return share(0) > share(1) + 0.3


def admit(env: Drawn) -> Iterator[tuple[Program, list[str]]]:
    """Every program of a family, and the faults of the environment of this program alone."""
    for index, program in enumerate(env.programs()):
        yield program, faults(replace(env, first=env.first + index, count=1))


def main(count: int = 1000, level: int = 2, seed: int = 0) -> int:
    """Draw and admit; print the counts by reason and the time. Returns 1 if check or audit refuses anything."""
    began = time.process_time()
    env = Drawn(count=count, level=level, seed=seed)
    put(f"{count} programs drawn in {time.process_time() - began:.1f} s of processor time")
    for why, times in programs(seed, level, count)[1].items():
        put(f"{times:6} refused: {why}")
    whole = [each.name for each in check_env(env).findings if not each.passed]
    whole += [each.rule for each in audit(subject_of(env)).findings if each.severity is Severity.BLOCKING]
    put(f"all together: {', '.join(whole) or 'no fault'}")
    refused = 0
    for done, (program, reasons) in enumerate(admit(env), 1):
        if reasons:
            refused += 1
            put(f"  refused: {program.text}: {', '.join(reasons)}")
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} of {count}" + ("\n" if done == count else ""))
    put(f"{count - refused} admitted by check and audit, in {time.process_time() - began:.0f} s of processor time")
    return int(bool(refused or whole))


if __name__ == "__main__":
    from gnomon_lab.drawn import main as command  # Worker processes cannot import the classes of `__main__`.

    parser = argparse.ArgumentParser("python -m gnomon_lab.drawn", description="Draw environments and admit them.")
    parser.add_argument("count", type=int, nargs="?", default=1000, help="environments, 1 or more")
    parser.add_argument("level", type=int, nargs="?", default=2, choices=range(1, 5), help="most steps of a program")
    parser.add_argument("seed", type=int, nargs="?", default=0)
    arguments = parser.parse_args()
    if arguments.count < 1:
        parser.error(f"count is {arguments.count}; it must be 1 or more")
    sys.exit(command(arguments.count, arguments.level, arguments.seed))
