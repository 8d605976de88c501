"""The conformance suite behind `gnomon check ENV`.

Each check is a function that returns what it found, or raises `Fault` or `Skip`. Hostile texts are judged in a
separate process (`witness.py`).
"""

from __future__ import annotations

import copy
import math
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from gnomon.envs import check_turns as turns
from gnomon.envs import offers
from gnomon.envs.base import SPLITS, Env, SingleTurn, check_isolation
from gnomon.envs.blame import blamed_line, describe, line
from gnomon.envs.episodes import Fault, Skip, at, judge, lines, play, replies, slot
from gnomon.envs.surroundings import LESSER, changed_names, surroundings
from gnomon.envs.turns import MultiTurn
from gnomon.envs.witness import SECONDS, elsewhere
from gnomon.keys import Key
from gnomon.types import Message, Task
from gnomon.verifiers import Strictness, pay
from gnomon.verifiers.prices import undeclared_parts

__all__ = ["Finding", "Report", "check_env"]

CONSTANT = 0.6
"""Fraction of the tasks that one constant answer may solve. A balanced yes-or-no task passes."""
DISTINCT = 0.5
"""Fraction of the drawn tasks that must be distinct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of one check."""

    name: str
    passed: bool
    detail: str
    where: str = ""
    skipped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Every finding about one environment."""

    env: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return all(finding.passed for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        return {"env": self.env, "passed": self.passed, "findings": [asdict(finding) for finding in self.findings]}

    def __str__(self) -> str:
        width = max(len(finding.name) for finding in self.findings)
        lines = [f"check {self.env}"]
        for finding in self.findings:
            mark = "skip" if finding.skipped else "ok" if finding.passed else "FAIL"
            lines.append(f"  {mark:4}  {finding.name:{width}}  {finding.detail}")
            lines += [f"  {'':4}  {'':{width}}  at {finding.where}"] if finding.where else []
        skipped = sum(finding.skipped for finding in self.findings)
        successes = sum(finding.passed for finding in self.findings) - skipped
        failed = len(self.findings) - successes - skipped
        return "\n".join([*lines, f"{successes} passed, {failed} failed, {skipped} skipped"])


@dataclass(frozen=True)
class Subject:
    """The environment under check, with values that several checks share."""

    env: Env
    count: int

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        tasks = self.env.tasks("train")
        return tuple(tasks[i] for i in range(min(self.count, len(tasks))))

    @cached_property
    def single(self) -> SingleTurn:
        if not isinstance(self.env, SingleTurn):
            raise Skip("needs `solution` and an answer slot, which only a SingleTurn environment has")
        return self.env

    @cached_property
    def slot_env(self) -> SingleTurn | MultiTurn:
        if not isinstance(self.env, SingleTurn | MultiTurn):
            raise Skip("needs an answer slot, which only a SingleTurn or a MultiTurn environment is known to have")
        return self.env

    @cached_property
    def played(self) -> bool:
        """Whether the environment plays several turns and has an expert."""
        return not isinstance(self.env, SingleTurn) and offers.expert(self.env) is not None

    @cached_property
    def golds(self) -> tuple[str, ...]:
        return tuple(self.single.solution(task) for task in self.tasks)

    @cached_property
    def strangers(self) -> tuple[tuple[int, int], ...]:
        """Pairs of tasks with different answers, so the second's solution is wrong for the first."""
        pairs = [(i, (i + step) % len(self.tasks)) for i in range(len(self.tasks)) for step in (1, 2, 3)]
        return tuple(
            (i, j)
            for i, j in pairs
            if self.tasks[i].id != self.tasks[j].id
            and self.tasks[i].answer != self.tasks[j].answer
            and self.golds[i] != self.golds[j]
        )

    @cached_property
    def testimony(self) -> tuple[list[tuple[str, Any]], str]:
        """The reports of a fresh process, and how it ended."""
        return elsewhere(self.env, len(self.tasks))


def check_env(env: Env, *, tasks: int = 200) -> Report:
    """Run every check on an environment's first `tasks` train tasks. An exception of the environment is a finding.

    Raises: ResourceError, E520 to E522, if it needs a sandbox that this host does not support.
    """
    check_isolation(env)
    subject = Subject(env, tasks)
    findings = [finding_of("tasks", well_formed, subject)]
    if findings[0].passed:
        findings += [finding_of(name, check, subject) for name, check in CHECKS.items()]
    return Report(env=line(repr(env)), findings=tuple(findings))


def finding_of(name: str, check: Callable[[Subject], str], subject: Subject) -> Finding:
    try:
        return Finding(name=name, passed=True, detail=line(check(subject)))
    except Skip as reason:
        return Finding(name=name, passed=True, detail=f"skipped: {reason}", skipped=True)
    except Fault as fault:
        return Finding(name=name, passed=False, detail=line(str(fault)), where=line(fault.where))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an exception of the environment is a finding, `SystemExit` included
        return Finding(name=name, passed=False, detail=line(describe(error)), where=blamed_line(error, subject.env))


def well_formed(subject: Subject) -> str:
    low, high = subject.env.reward_range
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise Fault(f"reward_range is ({low}, {high})")
    if subject.env.max_turns < 1:
        raise Fault(f"max_turns is {subject.env.max_turns}")
    if not subject.tasks:
        raise Fault("there are no train tasks")
    for index, task in enumerate(subject.tasks):
        if not isinstance(task, Task):
            raise Fault(f"a task is a {type(task).__name__}, not a Task", at(index))
        if not (isinstance(task.id, str) and task.id):
            raise Fault(f"the id {task.id!r} must be a string", at(index))
        if not (isinstance(task.messages, tuple) and all(isinstance(m, Message) for m in task.messages)):
            raise Fault("messages must be a tuple of Message", at(index))
        if not (task.messages and task.messages[-1].role in ("user", "tool") and task.messages[-1].content.strip()):
            raise Fault("the last message must have the role user or tool, and some text", at(index))
    return f"{len(subject.tasks)} tasks, reward {low:g} … {high:g}, {subject.env.max_turns} turn(s)"


def repeatable(subject: Subject) -> str:
    again = subject.env.tasks("train")
    for index in reversed(range(len(subject.tasks))):
        if again[index] != subject.tasks[index]:
            raise Fault("the same index gives another task when tasks are read again in another order", at(index))
    return "the same index gives the same task, in any order"


def check_pickle(subject: Subject) -> str:
    if pickle.loads(pickle.dumps(subject.tasks)) != subject.tasks:
        raise Fault("a task is not equal to itself after pickling; give the class of its answer an __eq__")
    reports, end = subject.testimony
    tasks = [value for kind, value in reports if kind == "task"]
    for index, task in tasks:
        if task != subject.tasks[index]:
            raise Fault("another process, with another PYTHONHASHSEED, makes a different task", at(index))
    verdicts = [value for kind, value in reports if kind == "verdict"]
    for index, reply, verdict in verdicts:
        if verdict != judge(subject.env, subject.tasks[index], reply):
            raise Fault(f"another process, with another PYTHONHASHSEED, judges {reply!r} differently", at(index))
    first = subject.tasks[:5]
    for index, number, there in (value for kind, value in reports if kind == "episode"):
        here = play(subject.env, first[index], list(lines(subject.env, first, index))[number])
        if here != there:
            raise Fault("another process, with another PYTHONHASHSEED, plays the same replies differently", at(index))
    if len(tasks) < len(subject.tasks) or not verdicts:
        raise Fault(f"the environment does not work in another process: {end}")
    return f"equal tasks and verdicts in a process with another PYTHONHASHSEED ({len(tasks)} tasks)"


def traceless(subject: Subject) -> str:
    own = getattr(subject.env, "__dict__", {})
    before, around = copy.deepcopy(own), surroundings()
    tasks = subject.env.tasks("train")
    for index in range(min(20, len(subject.tasks))):
        task, original = tasks[index], copy.deepcopy(tasks[index])
        for reply in replies(subject.env, subject.tasks, index):
            first, second = judge(subject.env, task, reply), judge(subject.env, task, reply)
            if first != second:
                both = f"{first.status}, {first.reward}, then {second.status}, {second.reward}"
                raise Fault(f"the reply {reply!r} is judged {both}", at(index))
            text = None if first.span is None else reply[slice(*first.span)]
            if text is not None and first.extracted not in (None, text):
                raise Fault(f"`extracted` is {first.extracted!r} but `span` points at {text!r}", at(index))
        if task != original:
            raise Fault("judging a reply changes the task", at(index))
    changes = [name for name in before if own.get(name) != before[name]]
    if changes:
        raise Fault(f"judging a reply changes the environment: {', '.join(changes)}")
    if names := [name for name in changed_names(around, surroundings()) if name not in LESSER]:
        raise Fault(f"making or judging a task changes the process's {', '.join(names)}")
    return "a verdict depends on task and reply alone, and changes neither them nor the environment nor the process"


def check_identity(subject: Subject) -> str:
    content: dict[object, list[int]] = {}
    ids: dict[str, int] = {}
    for index, task in enumerate(subject.tasks):
        for other in content.setdefault(task.messages, []):
            twin = subject.tasks[other]
            if twin.id != task.id and (twin.answer, twin.info) == (task.answer, task.info):
                raise Fault(f"the same content as {at(other)} has another id", at(index))
        content[task.messages].append(index)
        first = ids.setdefault(task.id, index)
        if isinstance(subject.env, SingleTurn):
            for a, b in ((first, index), (index, first)):
                if not judge(subject.env, subject.tasks[a], slot(subject.golds[b], subject.env)).correct:
                    raise Fault(f"{at(first)} has the same id, but their solutions are not interchangeable", at(index))
    if len(ids) < DISTINCT * len(subject.tasks):
        raise Fault(f"only {len(ids)} of {len(subject.tasks)} tasks have different ids")
    return f"{len(ids)} of {len(subject.tasks)} tasks have different ids; equal content has equal ids"


def disjoint(subject: Subject) -> str:
    size, by_split = max(subject.count, 300), {}
    for split in SPLITS:
        tasks = subject.env.tasks(split)
        by_split[split] = [tasks[i] for i in range(min(size, len(tasks)))]
    train, test = by_split["train"], by_split["test"]
    if not test:
        raise Fault("there are no test tasks")
    ids = {task.id: index for index, task in enumerate(train)}
    by_prompt: dict[object, list[int]] = {}
    for index, task in enumerate(train):
        by_prompt.setdefault(task.messages, []).append(index)
    for index, task in enumerate(test):
        if task.id in ids:
            raise Fault(f"{at(ids[task.id])} is the same problem", at(index, "test"))
        for other in by_prompt.get(task.messages, []):
            if (train[other].answer, train[other].info) == (task.answer, task.info):
                raise Fault(f"{at(other)} is the same problem under another id", at(index, "test"))
    return f"no problem is in both splits ({len(train)} train and {len(test)} test tasks)"


def check_prompts(subject: Subject) -> str:
    env = subject.slot_env
    before, after = (part.strip() for part in (env.frame if isinstance(env, SingleTurn) else SingleTurn.frame))
    for index, task in enumerate(subject.tasks[:20]):
        prompt = "\n".join(m.content for m in (*(m for m in task.messages if m.role == "system"), task.messages[-1]))
        if (times := prompt.count(before)) != 1:
            raise Fault(f"the prompt shows the slot {before}…{after} {times} times and must show it once", at(index))
        example = prompt[prompt.index(before) :].partition(after)
        for echo in ("".join(example[:2]), prompt, "\n".join(message.content for message in task.messages)):
            if judge(env, task, echo).correct:
                raise Fault("the prompt itself is judged a correct reply", at(index))
    return "the prompt shows the slot once and is not a correct reply itself"


def check_solutions(subject: Subject) -> str:
    if subject.played:
        return turns.check_expert(subject.env, subject.tasks)
    top = subject.single.reward_range[1]
    for index, (task, gold) in enumerate(zip(subject.tasks, subject.golds, strict=True)):
        for reply in (slot(gold, subject.env), f"Let me see.\n{slot(gold, subject.env)}"):
            verdict = judge(subject.env, task, reply)
            if not verdict.correct:
                why = verdict.detail or "no reason given"
                raise Fault(f"its own solution {gold!r} is judged {verdict.status}: {why}", at(index))
            if not math.isclose(verdict.reward, top, abs_tol=1e-9):
                raise Fault(f"its own solution gets {verdict.reward}; the maximum of reward_range is {top}", at(index))
    return f"every solution gets {top:g}, the maximum of reward_range"


def check_mutations(subject: Subject) -> str:
    env = subject.single
    if type(env).neighbour is SingleTurn.neighbour:
        raise Skip("it has no `neighbour`, so its tasks cannot be mutated")
    for index, task in enumerate(subject.tasks[:50]):
        original, key = copy.deepcopy(task), Key(0).at("check", index=index)
        other = env.mutate(task, key)
        if other != env.mutate(task, key) or task != original:
            raise Fault("a mutation does not depend on task and key alone", at(index))
        if not judge(env, other, slot(env.solution(other), env)).correct:
            raise Fault(f"the solution of its mutation {other.messages[-1].content!r} is not correct", at(index))
        again = env.mutate(other, key)
        if not judge(env, again, slot(env.solution(again), env)).correct:
            raise Fault("the solution of a mutation of its mutation is not correct", at(index))
    return "a mutation is another solvable task of the same split and can be mutated again"


def wrong(subject: Subject) -> str:
    golds = subject.golds
    if not subject.strangers:
        raise Skip("no two tasks have different answers, so no solution is known to be wrong for another task")
    accepted = []
    for i, j in subject.strangers:
        for answer in (golds[j], f"{golds[i]} or {golds[j]}"):
            if judge(subject.env, subject.tasks[i], slot(answer, subject.env)).correct:
                accepted.append((i, answer))
    if accepted:
        i, answer = accepted[0]
        raise Fault(
            f"{len(accepted)} of {2 * len(subject.strangers)} wrong answers are accepted, such as {answer!r} for"
            f" {golds[i]!r} (tasks that share right answers have an equal `answer`, or None)",
            at(i),
        )
    return f"{2 * len(subject.strangers)} wrong answers rejected: another task's solution, and a hedge between two"


def absent(subject: Subject) -> str:
    if isinstance(subject.env, SingleTurn) and subject.env.strictness is Strictness.LENIENT:
        raise Skip("the strictness is `lenient`: a reply without a slot is an answer")
    for index, task in enumerate(subject.tasks[:50]):
        nothing = judge(subject.env, task, "")
        if nothing.correct:
            raise Fault("an empty reply is correct", at(index))
        if not isinstance(subject.env, SingleTurn):
            continue
        gold, (before, after) = subject.golds[index], subject.env.frame
        outside = (gold, f"{before}{gold}", f"{gold}{after}", f"<think>{slot(gold, subject.env)}")
        for reply in (slot("", subject.env), slot(" ", subject.env), before, *outside):
            verdict = judge(subject.env, task, reply)
            if verdict.correct or verdict.reward > nothing.reward:
                raise Fault(f"{reply!r} gives no answer but is {verdict.status}, reward {verdict.reward}", at(index))
    if not isinstance(subject.env, SingleTurn):
        return "an empty reply is not correct (slots are for SingleTurn environments only)"
    return "an empty reply, an empty slot and an answer outside a slot earn nothing"


def several(subject: Subject) -> str:
    if (strictness := subject.slot_env.strictness) in (Strictness.FIRST, Strictness.LAST, Strictness.LENIENT):
        raise Skip(f"the strictness is `{strictness}`: of several answers one counts")
    if subject.played:
        return turns.check_double_action(subject.env, subject.tasks)
    for index, task in enumerate(subject.tasks[:50]):
        gold, other = (slot(subject.golds[at], subject.env) for at in (index, index - 1))
        for reply in (f"{gold}\n{gold}", f"{other}\n{gold}", f"{gold}\n{other}"):
            if judge(subject.env, task, reply).correct:
                raise Fault("a reply with two answers is correct", at(index))
    return "a reply with two answers is refused"


def lazy(subject: Subject) -> str:
    if subject.played:
        return turns.constant(subject.env, subject.tasks, CONSTANT)
    scores = []
    for answer, _ in Counter(subject.golds).most_common(10):
        verdicts = [judge(subject.env, task, slot(answer, subject.env)) for task in subject.tasks]
        share = sum(verdict.correct for verdict in verdicts) / len(verdicts)
        scores.append((share, math.fsum(verdict.reward for verdict in verdicts) / len(verdicts), answer))
    share, reward, answer = max(scores)
    best = (
        f"the best constant answer, {answer!r}, is correct on {share:.1%} of the tasks; its mean reward is {reward:.3f}"
    )
    if share > CONSTANT:
        raise Fault(f"{best}; a policy that ignores the task must not reach {CONSTANT:.0%}")
    return best


def added_up(subject: Subject) -> str:
    right: list[float] = []
    other: list[float] = []
    for index, task in enumerate(subject.tasks[:50]):
        for reply in replies(subject.env, subject.tasks, index):
            verdict = judge(subject.env, task, reply)
            (right if verdict.correct else other).append(verdict.reward)
    if right and other and max(other) >= min(right):
        raise Fault(f"a wrong reply gets the reward {max(other)}, a correct one {min(right)}")
    if not isinstance(subject.env, SingleTurn):
        return "every reward is the sum of the parts whose gate is met"
    gated = replace(subject.env, gate="correct")
    for i, j in subject.strangers[:50]:
        task, nothing = subject.tasks[i], judge(gated, subject.tasks[i], "").reward
        if (earned := judge(gated, task, slot(subject.golds[j], subject.env)).reward) > nothing:
            raise Fault(f'with gate = "correct" a wrong answer still earns {earned}', at(i))
    return f'a correct reply earns {min(right):g}, any other at most {max(other):g}; gate = "correct" works'


def check_prices(subject: Subject) -> str:
    prices = offers.prices(subject.env)
    if prices is None:
        return "no prices are declared, so the largest reward without a correct answer is not known"
    for index, task in enumerate(subject.tasks[:50]):
        for reply in replies(subject.env, subject.tasks, index):
            for sentence in undeclared_parts(prices, judge(subject.env, task, reply)):
                raise Fault(sentence, at(index))
    terms = pay(prices)
    if terms is None:
        return "no part is named correct, so the reward of a correct answer is not known"
    if terms.overpaid:
        raise Fault(str(terms))
    return str(terms)


def unhurt(subject: Subject) -> str:
    reports, end = subject.testimony
    attempts = [value for kind, value in reports if kind == "try"]
    outcomes = [value for kind, value in reports if kind == "outcome"]
    faults = [(f"{name}: {problem}", where) for name, problem, where in outcomes if problem]
    if len(outcomes) < len(attempts):
        faults.append((f"{attempts[-1]}: {end}", ""))
    elif end:
        faults.append((end, ""))
    if faults:
        more = f" (and {len(faults) - 1} more of {len(attempts)})" if len(faults) > 1 else ""
        raise Fault(faults[0][0] + more, faults[0][1])
    return f"{len(outcomes)} hostile texts each got a verdict in under {SECONDS:g} s, none of them correct"


CHECKS: dict[str, Callable[[Subject], str]] = {
    "repeatable": repeatable,
    "no trace": traceless,
    "episodes": lambda subject: turns.check_replay(subject.env, subject.tasks[:20]),
    "another process": check_pickle,
    "identity": check_identity,
    "splits": disjoint,
    "prompt": check_prompts,
    "solutions": check_solutions,
    "mutations": check_mutations,
    "wrong answers": wrong,
    "no answer": absent,
    "two answers": several,
    "constant answer": lazy,
    "rewards": added_up,
    "weights": check_prices,
    "hostile replies": unhurt,
}
