"""Does a verdict depend only on task and reply, and a task only on its index? Are splits and seeds disjoint?"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from hashlib import blake2b
from typing import Any

from gnomon.audit.case import Case, excerpt, prompt
from gnomon.audit.finding import Finding, Severity
from gnomon.audit.judging import Bench, Judgement, VerifierWorkers, judgement_of
from gnomon.envs.base import SPLITS
from gnomon.types import Part, Task
from gnomon.workers import Raised, Returned

__all__ = ["canonical", "probe"]

WORLDS: dict[str, dict[str, str]] = {
    **{f"PYTHONHASHSEED={seed}": {"PYTHONHASHSEED": str(seed)} for seed in range(1, 5)},
    "another time zone and locale": {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "C"},
}
"""Environments of other processes, which must give the same verdicts as PYTHONHASHSEED=0."""
OVERLAP = 0.5
"""Largest allowed fraction of tasks that occur one place further in the next seed; the chance level is near 0."""
DAY = 25 * 3600.0
"""Seconds by which the clock is advanced: another hour on another day."""


def probe(case: Case) -> Iterator[Finding]:
    calls = probes(case)
    first = case.workers.ask(in_order, calls, 1, fresh=True)
    if not isinstance(first, Returned):
        case.skipped["determinism"] = f"the calls to compare did not finish: {first}"
        return
    base: list[Judgement] = first.value
    for rule, condition, other in here(case, calls):
        yield from compare_judgements(case, rule, condition, base, other)
    yield from batches(case, base)
    for world, variables in WORLDS.items():
        with VerifierWorkers(case.subject, workers=1, variables=variables) as workers:
            rule = "determinism.hash_seed" if "HASH" in world else "determinism.locale"
            outcome = workers.ask(in_order, calls, 1)
            if isinstance(outcome, Returned):
                yield from compare_judgements(case, rule, f"in a process with {world}", base, outcome.value)
            yield from tasks_there(case, workers, world)
    yield from splits(case)
    yield from seeds(case)
    yield from shows_answers(case)


def probes(case: Case) -> list[tuple[int, str]]:
    """A correct, a wrong, a mixed and an empty reply to some tasks, and short texts of the corpus to the first."""
    calls: list[tuple[int, str]] = []
    for index in range(min(12, len(case.tasks))):
        right, wrongs = case.rights[index], case.wrongs(index, 2)
        golds = [gold for gold in (case.golds[index], *wrongs) if gold is not None]
        replies = [case.frame.put(answer) for answer in (*wrongs, "a b c d e", " ".join(golds), "7, 3, 5")]
        calls += [(index, reply) for reply in ([right] if right is not None else []) + [*replies, ""]]
    usable = [r for r in case.corpus if r.outcome == "verdict" and len(r.reply) < 200 and r.seconds < 0.01]
    return calls + [(judgement.index, judgement.reply) for judgement in usable[:40]]


def here(case: Case, calls: Sequence[tuple[int, str]]) -> Iterator[tuple[str, str, list[Judgement]]]:
    """The same calls under other conditions, with their judgements in the first order."""
    count = len(calls)
    backwards = list(range(count))[::-1]
    shuffled = case.rng("order").sample(range(count), count)
    again = case.workers.ask(in_order, calls, 2, fresh=True)
    if isinstance(again, Returned):
        yield "determinism.repeated", "asked again", again.value[count:]
    for condition, order in (("in the other order", backwards), ("in a shuffled order", shuffled)):
        outcome = case.workers.ask(in_order, [calls[i] for i in order], 1, fresh=True)
        if isinstance(outcome, Returned):
            by_place = dict(zip(order, outcome.value, strict=True))
            yield "determinism.order", condition, [by_place[i] for i in range(count)]
    alone = case.workers.pool.map([(in_order, [call], 1) for call in calls[:24]], fresh=True)
    yield "determinism.batch", "one by one", [o.value[0] for o in alone if isinstance(o, Returned)]
    for rule, condition, ask in (
        ("determinism.thread", "off the main thread", in_thread),
        ("determinism.clock", "with the clock advanced", tomorrow),
    ):
        outcome = case.workers.ask(ask, calls)
        if isinstance(outcome, Returned):
            yield rule, condition, outcome.value


def compare_judgements(
    case: Case, rule: str, condition: str, base: Sequence[Judgement], other: Sequence[Judgement]
) -> Iterator[Finding]:
    """The finding that two judgements of the same calls differ."""
    changes = [(a, b) for a, b in zip(base, other, strict=False) if a.same != b.same]
    if changes:
        a, b = changes[0]
        # A worker judges on its main thread, so code that needs the main thread works here, but not everywhere.
        yield case.finding(
            rule, Severity.WARNING if rule == "determinism.thread" else Severity.BLOCKING,
            f"{condition}, {len(changes)} of {len(base)} verdicts change: {excerpt(a.reply)} is first {a}, then {b}",
            [a for a, _ in changes], why="the same reply gets different rewards, and runs are not reproducible",
            fix="compute verdicts from task and reply alone: no clock, random numbers, set order or state",
        )  # fmt: skip


def batches(case: Case, base: Sequence[Judgement]) -> Iterator[Finding]:
    """Functions that take many replies at once must give each reply the reward that it gets alone."""
    alone = [judgement for judgement in base if judgement.outcome == "verdict"][:48]
    if not alone or not hasattr(case.subject.verifier, "together"):
        return
    twice = [judgement for judgement in alone for _ in range(2)]
    for size, orders in ((8, (alone, alone[::-1], twice)), (len(alone), (alone,))):
        for order in orders:
            calls = [(judgement.index, judgement.reply) for judgement in order]
            outcome = case.workers.ask(at_once, calls, size, fresh=True)
            if isinstance(outcome, Raised):
                yield case.finding(
                    "determinism.batch", Severity.BLOCKING,
                    f"the function fails when it judges {size} replies in one call: {outcome.error}",
                    why="the library it is written for passes a whole batch in one call",
                )  # fmt: skip
                return
            if not isinstance(outcome, Returned):
                case.skipped["determinism, batches"] = f"the calls did not finish: {outcome}"
                return
            changes = [(r, parts) for r, parts in zip(order, outcome.value, strict=True) if r.parts != parts]
            if changes:
                first, parts = changes[0]
                yield case.finding(
                    "determinism.batch", Severity.BLOCKING,
                    f"{len(changes)} of {len(order)} replies get another reward when {size} are judged in one call: "
                    f"{excerpt(first.reply)} gets {first.reward:g} alone and {total_reward(parts):g} in the batch",
                    [judgement for judgement, _ in changes],
                    why="the function keeps state between replies, so the reward of a reply depends on the others",
                    fix="compute each reward separately: no running sum, no set of earlier replies, no mutable default",
                )  # fmt: skip
                return


def total_reward(parts: Sequence[Part]) -> float:
    return math.fsum(part.weight * part.value for part in parts)


def at_once(bench: Bench, calls: Sequence[tuple[int, str]], size: int) -> list[tuple[Part, ...]]:
    """In a worker: the parts of each reply, with `size` replies per call."""
    judge: Any = bench.verifier
    items = [(bench.tasks[index], reply) for index, reply in calls]
    return [parts for start in range(0, len(items), size) for parts in judge.together(items[start : start + size])]


def in_order(bench: Bench, calls: Sequence[tuple[int, str]], times: int) -> list[Judgement]:
    return [judgement_of(bench, index, reply) for _ in range(times) for index, reply in calls]


def in_thread(bench: Bench, calls: Sequence[tuple[int, str]]) -> list[Judgement]:
    judgements: list[Judgement] = []
    thread = threading.Thread(target=lambda: judgements.extend(in_order(bench, calls, 1)))
    thread.start()
    thread.join()
    return judgements


def tomorrow(bench: Bench, calls: Sequence[tuple[int, str]]) -> list[Judgement]:
    """Judgements with the accessible clocks advanced. The worker's own clocks are not affected."""
    real = time.time, time.time_ns, time.monotonic
    time.time = lambda: real[0]() + DAY + 0.37
    time.time_ns = lambda: real[1]() + int((DAY + 0.37) * 1e9)
    time.monotonic = lambda: real[2]() + DAY + 0.37
    try:
        return in_order(bench, calls, 1)
    finally:
        time.time, time.time_ns, time.monotonic = real


def tasks_there(case: Case, workers: VerifierWorkers, world: str) -> Iterator[Finding]:
    """Test whether another process makes the same tasks."""
    env = case.subject.env
    if env is None:
        return
    count = min(50, len(case.tasks))
    outcome = workers.ask(digests, "train", count)
    if isinstance(outcome, Raised):
        yield case.finding("determinism.tasks", Severity.BLOCKING, f"tasks cannot be made {world}: {outcome.error}")
    elif isinstance(outcome, Returned):
        changes = [i for i in range(count) if outcome.value[i] != digest(case.tasks[i])]
        if changes:
            yield case.finding(
                "determinism.tasks", Severity.BLOCKING,
                f"{len(changes)} of {count} tasks differ in a process with {world}",
                where=f"train task {changes[0]}",
                why="a run cannot be repeated or resumed, and its workers have different tasks",
            )  # fmt: skip


def digests(bench: Bench, split: str, count: int) -> list[bytes]:
    assert bench.env is not None
    tasks = bench.env.tasks(split)
    return [digest(tasks[index]) for index in reversed(range(count))][::-1]


def digest(task: Task) -> bytes:
    content = (task.id, task.messages, task.answer, task.info)
    return blake2b(canonical(content).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def canonical(value: Any) -> str:
    """A text that is equal for equal values in any process. Sets and mappings are sorted by text."""
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{canonical(k)}:{canonical(v)}" for k, v in value.items())) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(map(canonical, value))) + "}"
    if isinstance(value, list | tuple):
        return "(" + ",".join(map(canonical, value)) + ")"
    if is_dataclass(value) and not isinstance(value, type):
        return canonical([getattr(value, field.name) for field in fields(value)])
    quoted = repr(value)
    return type(value).__qualname__ if quoted.startswith("<") else quoted


def content(task: Task) -> str:
    """The content that identifies a problem, without its id."""
    return canonical((task.messages, task.info if task.answer is None else task.answer))


def problem(env: Any) -> Callable[[Task], str]:
    """The key of a problem. In a game, all openings may be equal, so the deal is part of the key."""
    return content if env.max_turns == 1 else lambda task: task.id


def first_tasks(env: Any, split: str, count: int) -> list[Task]:
    tasks = env.tasks(split)
    return [tasks[index] for index in range(min(count, len(tasks)))]


def splits(case: Case) -> Iterator[Finding]:
    env = case.subject.env
    if env is None:
        case.skipped["determinism, splits and seeds"] = "a verifier without an environment has no splits"
        return
    try:
        test = first_tasks(env, SPLITS[1], len(case.tasks))
    except Exception as error:
        yield case.finding("determinism.split_overlap", Severity.WARNING, f"there is no test split: {error}")
        return
    same = problem(env)
    train = {key for task in case.tasks for key in (task.id, same(task))}
    both = [task for task in test if task.id in train or same(task) in train]
    case.tables["test tasks among the train tasks"] = len(both) / max(1, len(test))
    if both:
        yield case.finding(
            "determinism.split_overlap", Severity.BLOCKING,
            f"{len(both)} of {len(test)} test tasks are also train tasks", where=f"test task {both[0].id}",
            why="held-out results on tasks from training do not measure generalisation",
            fix="assign each problem to a split by the hash of its content",
        )  # fmt: skip


def seeds(case: Case) -> Iterator[Finding]:
    """Test whether item i + 1 of a seed is item i of the next seed, as with seed plus index."""
    env = case.subject.env
    seed = getattr(env, "seed", None)
    if env is None or not is_dataclass(env) or isinstance(env, type) or not isinstance(seed, int):
        return
    with suppress(Exception):
        after = first_tasks(replace(env, seed=seed + 1), "train", 50)
        same = problem(env)
        mine = [same(task) for task in case.tasks[:51]]
        theirs = [same(task) for task in after]
        shifted = max(
            sum(a == b for a, b in zip(mine[step:], theirs, strict=False)) / max(1, len(theirs)) for step in (0, 1)
        )
        case.tables["tasks of the next seed"] = shifted
        if shifted > OVERLAP:
            yield case.finding(
                "determinism.seed_overlap", Severity.BLOCKING,
                f"{shifted:.0%} of the tasks of seed {seed} occur again in seed {seed + 1}, at most one place further",
                why="runs with different seeds are not independent",
                fix="use Key(seed).at(name, index=index), a separate random stream for every task",
            )  # fmt: skip


def shows_answers(case: Case) -> Iterator[Finding]:
    """Test whether the prompt contains the answer."""
    golds = [(i, gold) for i, gold in enumerate(case.golds) if gold and len(gold) > 1]
    answers = {gold for _, gold in golds}
    if len(answers) <= 10 and all(holds(prompt(case.tasks[0]), gold) for gold in answers):
        return  # The prompt lists the options.
    shown_in = [i for i, gold in golds if holds(prompt(case.tasks[i]), gold)]
    if golds and len(golds) > 0.5 * len(case.tasks) and len(shown_in) > 0.9 * len(golds):
        yield case.finding(
            "determinism.answer_in_prompt", Severity.WARNING,
            f"{len(shown_in)} of {len(golds)} prompts contain the answer", where=f"task {case.tasks[shown_in[0]].id}",
            why="the policy can copy the answer, unless the prompt lists several answers to choose from",
        )  # fmt: skip


def holds(text: str, answer: str) -> bool:
    """Whether the text contains the answer as a separate word."""
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) is not None
