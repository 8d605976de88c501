"""The first and the last answer of every reply of a run: what the policy does with an answer that it already wrote."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

from gnomon.config import RunConfig, recorded_recipe, resolve
from gnomon.envs import Env
from gnomon.errors import RunError
from gnomon.rejudge.again import JudgeSpec, build_judge
from gnomon.rejudge.parts import parts, recorded_rollouts
from gnomon.rejudge.replay import judge_spec
from gnomon.rejudge.stored import reading
from gnomon.run.trust import require_trusted
from gnomon.stats import Interval, difference_interval
from gnomon.store import RunReader
from gnomon.store.layout import RECIPE
from gnomon.types import Status, Task, Verdict
from gnomon.verifiers import Strictness, settle, settle_all
from gnomon.workers import Pool
from gnomon_lab.probes.kinds import none_judged

__all__ = ["Answers", "Matrix", "Read", "answers", "answers_text", "judge_of", "share_corrected"]


class Read(StrEnum):
    """An answer, as the environment reads it."""

    RIGHT = "right"
    WRONG = "wrong"
    NONE = "none"
    """The reply has no answer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The first and the last answer of a rollout of one player."""

    step: int
    task: str
    first: Read
    last: Read
    several: bool
    """Whether these are two answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The replies of a step or of a whole run, by their first and their last answer."""

    step: int | None
    """None for all steps. Held-out replies of a step were sampled before it."""
    replies: int
    none: int
    """Without an answer."""
    one_right: int
    one_wrong: int
    """With one answer."""
    kept: int
    """Two or more answers, the first and the last right."""
    spoiled: int
    """The first right, the last wrong."""
    corrected: int
    """The first wrong, the last right."""
    failed: int
    """The first and the last wrong."""

    @property
    def several(self) -> int:
        """Replies with two or more answers."""
        return self.kept + self.spoiled + self.corrected + self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a run's replies show."""

    whole: Matrix
    steps: tuple[Matrix, ...]
    gain: Interval
    """Fraction of replies whose last answer is right less that of replies whose first is, over different tasks."""
    broken: int
    """Rollouts that are not counted, because the verifier failed on one of their answers."""

    def body(self) -> dict[str, Any]:
        """As JSON values."""
        facts = {"whole": asdict(self.whole), "gain": asdict(self.gain), "broken": self.broken}
        return {**facts, "steps": list(map(asdict, self.steps))}


def answers(reader: RunReader, kind: str = "rollout", *, trust: bool = False) -> Answers:
    """The first-to-last matrix of the stored replies of a run. Needs no torch.

    The environment's own verifier reads every reply twice, with the strictness `first` and `last`. In a rollout of
    several turns, the first answer is that of the first turn that has one, and the last that of the last such turn.

    Args: kind: `rollout` or `held_out`; trust: as in `gnomon.rejudge.replay.replay`.
    Raises: RunError E435 for an environment that cannot judge one answer by itself; E436 for a run without judged
        rollouts of this kind; ConfigError E052 for code that is not trusted; RunError E142 for tasks that have changed.
    """
    if reader.import_format:
        raise no_judge(reader.folder, f"the run was imported from {reader.import_format}, without its environment")
    config, _ = resolve([recorded_recipe(reader.folder / RECIPE)])
    require_trusted(reader, config, trust)
    found = list(read(reader, config, judge_spec(config, "", {}), kind))
    replies = [reply for reply in found if reply is not None]
    if not replies:
        raise none_judged(reader, kind)
    tasks: dict[str, list[float]] = {}
    for reply in replies:
        change = (reply.last is Read.RIGHT) - (reply.first is Read.RIGHT)
        tasks.setdefault(reply.task, []).append(float(change))
    return Answers(
        whole=matrix(replies, None),
        steps=tuple(matrix(list(some), step) for step, some in groupby(replies, lambda reply: reply.step)),
        gain=difference_interval([statistics.fmean(each) for each in tasks.values()]),
        broken=len(found) - len(replies),
    )


def share_corrected(kind: str = "rollout", *, trust: bool = False) -> Callable[[RunReader], float]:
    """A measure of a study: the share of all replies whose first answer is wrong and whose last is right."""

    def measure(reader: RunReader) -> float:
        whole = answers(reader, kind, trust=trust).whole
        return whole.corrected / whole.replies

    return measure


def judge_of(env: Env) -> Any:
    """What judges one answer by itself: the environment, or the one that it wraps. None where neither does."""
    for each in (env, getattr(env, "env", None)):
        if hasattr(each, "strictness") and hasattr(each, "verify"):
            return each
    return None


@dataclass(frozen=True, slots=True)
class Judge:
    """The verifier of an environment under another strictness: light to send to a worker."""

    env: JudgeSpec
    strictness: Strictness

    def verify(self, task: Task, reply: str) -> Verdict:
        verdict: Verdict = strict(self).verify(task, reply)
        return verdict


@cache
def strict(judge: Judge) -> Any:
    return replace(judge_of(build_judge(judge.env)), strictness=judge.strictness)


def read(reader: RunReader, config: RunConfig, named: JudgeSpec, kind: str) -> Iterator[Reply | None]:
    """Every judged rollout of a kind, with its first and last answer; None where the verifier fails on one of them."""
    part = next(each for each in parts(config, named, {}, other=False) if kind in each.splits)
    texts_of, named = reading(config, part.env.max_turns), part.spec
    if judge_of(build_judge(named)) is None:
        why = f"{type(part.env).__name__} judges only whole episodes, so there is no first answer that could be right"
        raise no_judge(reader.folder, why)
    rollouts = [
        (record.step or 0, rollout.task, texts_of(rollout))
        for record, rollout in recorded_rollouts(reader, part)
        if record.kind == kind and rollout.verdict.status not in (Status.FAILED, Status.UNJUDGED)
    ]
    each = {(task.id, text): (task, text) for _, task, texts in rollouts for text in texts}
    first, last = (verdicts(Judge(named, which), each, config) for which in (Strictness.FIRST, Strictness.LAST))
    for step, task, texts in rollouts:
        yield reply_of(step, task.id, [(first[task.id, text], last[task.id, text]) for text in texts])


def reply_of(step: int, task: str, turns: Sequence[tuple[Verdict, Verdict]]) -> Reply | None:
    """A rollout by the verdicts on the first and the last answer of each of its turns."""
    if any(verdict.status is Status.FAILED for pair in turns for verdict in pair):
        return None
    answered = [pair for pair in turns if read_of(pair[0]) is not Read.NONE]
    if not answered:
        return Reply(step, task, Read.NONE, Read.NONE, several=False)
    opening, ending = answered[0][0], answered[-1][1]
    several = len(answered) > 1 or (opening.span, opening.status) != (ending.span, ending.status)
    return Reply(step, task, read_of(opening), read_of(ending), several=several)


def verdicts(
    judge: Judge, replies: Mapping[tuple[str, str], tuple[Task, str]], config: RunConfig
) -> dict[tuple[str, str], Verdict]:
    """The verdict on every reply, from a worker that can be killed, by id of the task and text."""
    workers = config.workers
    memory = workers.memory_mib * 2**20
    with Pool(judge.verify, 1, seconds=workers.seconds, memory=memory, retries=0) as pool:
        found = settle_all(pool, replies.values(), partial(settle, reward_range=strict(judge).reward_range))
        return dict(zip(replies, found, strict=True))


def read_of(verdict: Verdict) -> Read:
    """An answer that cannot be read or breaks a rule is wrong."""
    if verdict.correct:
        return Read.RIGHT
    return Read.NONE if verdict.status is Status.NO_ANSWER else Read.WRONG


def matrix(replies: Sequence[Reply], step: int | None) -> Matrix:
    count = Counter((reply.several, reply.first, reply.last) for reply in replies)
    right, wrong, none = Read.RIGHT, Read.WRONG, Read.NONE
    return Matrix(
        step=step,
        replies=len(replies),
        none=count[False, none, none],
        one_right=count[False, right, right],
        one_wrong=count[False, wrong, wrong],
        kept=count[True, right, right],
        spoiled=count[True, right, wrong],
        corrected=count[True, wrong, right],
        failed=count[True, wrong, wrong],
    )


def no_judge(folder: Path, why: str) -> RunError:
    return RunError("E435", "the answers of this run cannot be judged one by one", where=str(folder), why=why)


def answers_text(found: Answers) -> str:
    """For a terminal."""
    whole, gain = found.whole, found.gain
    shares = {name: f"{getattr(whole, name) / whole.replies:.1%}" for name in ("none", "one_right", "one_wrong")}
    return "\n".join(
        [
            f"{whole.replies} replies: {shares['none']} without an answer, {shares['one_right']} with one right "
            f"answer, {shares['one_wrong']} with one wrong answer",
            f"{whole.several} replies with several answers:",
            f"{'':<14}{'last right':>11}{'last wrong':>12}",
            f"{'first right':<14}{whole.kept:>11}{whole.spoiled:>12}",
            f"{'first wrong':<14}{whole.corrected:>11}{whole.failed:>12}",
            f"the last answer is right {gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}] more often than the first "
            f"({gain.n} different tasks)",
            *([f"left out: {found.broken} replies, on which the verifier failed"] if found.broken else []),
        ]
    )
