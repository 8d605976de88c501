"""A few replies, judged before anything else: code that breaks is reported at its own line."""

from __future__ import annotations

import math
import pickle
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gnomon.audit import LIMITS, Judgement, VerdictLimits, subject_of
from gnomon.audit.judging import Unopened, VerifierWorkers
from gnomon.config.sections import Workers
from gnomon.envs import Env, SingleTurn
from gnomon.envs.base import SPLITS, check_isolation
from gnomon.envs.blame import blamed_line, describe, quote
from gnomon.envs.episodes import replies
from gnomon.errors import GnomonError, VerifierError
from gnomon.integrations.rewarded import Rewarded
from gnomon.integrations.rewards.base import outward
from gnomon.types import Task

__all__ = ["definition_place", "limits_of", "trial"]

TASKS = 4
"""Train tasks whose replies are judged."""
BUDGET = 2.0
"""Seconds in which a reward function of the user is called for other rows. A slow one judges the few that fit."""


def limits_of(workers: Workers) -> VerdictLimits:
    """The limits of a verdict in a run with these settings."""
    return VerdictLimits(seconds=workers.seconds, memory=workers.memory_mib * 2**20)


def trial(env: Env, limits: VerdictLimits = LIMITS) -> list[Judgement]:
    """What an environment says to a right, a wrong and an empty reply to each of some tasks, in processes of its own.

    A reward function of the user is then called once for every row, with its answer as the reply, for at most `BUDGET`.

    Replies that use up their time are left to the audit.

    Raises: VerifierError E105 for a score that is none, E107 for code that raises or has too little memory, E109 for an
        environment that does not reach another process.
    """
    check_isolation(env)
    rows, subject = places(env), subject_of(env, count=TASKS, limits=limits)
    tried = len(subject.tasks)
    subject = replace(subject, tasks=subject.tasks + tuple(task for _, task in rows))
    try:
        workers = VerifierWorkers(subject, workers=1)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise VerifierError(
            "E109", f"{subject.name} cannot be sent to another process: {describe(error)}", where=definition_place(env),
            why="verifiers run in worker processes",
            fix="open files, locks and connections inside the function that uses them, not in a field",
        ) from error  # fmt: skip
    judgements: list[Judgement] = []
    with workers:
        for index, reply in replies_of(env, tried):
            try:
                (judgement,) = workers.judge([(index, reply)])
            except ImportError as error:
                raise VerifierError(
                    "E109",
                    f"{subject.name} cannot be imported in another process",
                    where=definition_place(env),
                    why=str(error),
                ) from error
            if judgement.resource == "memory":
                raise too_large(env, judgement, limits)
            if judgement.outcome in ("raised", "invalid") and not math.isfinite(judgement.reward):
                raise judging_error(env, judgement)
            judgements.append(judgement)
        judgements += every_row(env, workers, rows, tried)
    if outside := next((each for each in judgements if each.outcome in ("raised", "invalid")), None):
        raise out_of_range(env, outside, [each.reward for each in judgements if math.isfinite(each.reward)])
    return judgements


def places(env: Env) -> list[tuple[str, Task]]:
    """Every row of a reward function, with its place. A data set has its verifier read every answer by itself."""
    if not isinstance(env, Rewarded):
        return []
    return [pair for split in SPLITS for pair in zip(env.rows[split], env.tasks(split), strict=True)]


def every_row(env: Env, workers: VerifierWorkers, rows: Sequence[tuple[str, Task]], first: int) -> list[Judgement]:
    """The verdict on the answer of every row, within the budget. Args: first: index of the first row in the workers.

    Raises: VerifierError E105 or E107, with the rows, for those that get none.
    """
    judgements, size, due = list[Judgement](), 1, time.monotonic() + BUDGET
    while len(judgements) < len(rows) and time.monotonic() < due:
        chunk = range(len(judgements), min(len(judgements) + size, len(rows)))
        judgements += workers.judge((first + offset, str(rows[offset][1].answer)) for offset in chunk)
        size = min(2 * size, 256)
    bad = [each for each in judgements if each.outcome in ("raised", "invalid") and not math.isfinite(each.reward)]
    if bad:
        error, names = judging_error(env, bad[0]), [rows[each.index - first][0] for each in bad]
        answer = rows[bad[0].index - first][1].answer
        more = f"; {len(names)} rows have no verdict: {', '.join(names[:10])}{' …' * (len(names) > 10)}"
        raise VerifierError(
            error.code, error.what, where=error.where,
            why=f"it was judging the reply {bad[0].reply!r:.60} to {names[0]}, whose answer is {answer!r:.60}"
            + more * (len(names) > 1),
            fix=f"correct or remove {names[0]}, or return a score for such an answer",
        )  # fmt: skip
    return judgements


def replies_of(env: Env, count: int) -> Iterator[tuple[int, str]]:
    """Pairs of a task's index and a reply. Raises: VerifierError E107 where the author's `solution` raises."""
    split = env.tasks("train")
    tasks = [split[index] for index in range(count)]
    for index, task in enumerate(tasks):
        try:
            sampled_replies = replies(env, tasks, index)
        except GnomonError:
            raise
        except Exception as error:
            raise VerifierError(
                "E107", f"the solution raised {describe(error)}", where=quote(blamed_line(error, env)),
                why=f"it was called for train task {index}", fix="correct this line and start again",
            ) from error  # fmt: skip
        stated = () if isinstance(env, SingleTurn) else (str(task.answer),)
        for reply in (*stated, *sampled_replies):
            yield index, reply


def judging_error(env: Env, judgement: Judgement) -> VerifierError:
    """The error for code that gives no verdict, at the author's line."""
    kind, _, message = judgement.detail.partition(": ")
    if kind == Unopened.__name__:
        what = f"{type(env).__name__} cannot be imported in another process: {message}"
        return VerifierError("E109", what, where=definition_place(env), why="verifiers run in worker processes")
    where = quote(judgement.place) or definition_place(env)
    why = f"it was judging the reply {judgement.reply!r:.80} to train task {judgement.index}"
    if own := judgement.error:
        return VerifierError(
            own.code, own.what, where=own.where or where, why="; ".join(filter(None, (own.why, why))), fix=own.fix
        )
    fix = correction(where, judgement.detail) or "correct this line and start again; nothing was started"
    if kind == "NoScore":
        return VerifierError("E105", message, where=where, why=why, fix=fix)
    if judgement.outcome == "invalid":
        return VerifierError("E105", f"the verifier returned {judgement.detail}", where=where, why=why, fix=fix)
    return VerifierError("E107", f"the verifier raised {judgement.detail}", where=where, why=why, fix=fix)


def too_large(env: Env, judgement: Judgement, limits: VerdictLimits) -> VerifierError:
    """The error for a verifier that does not fit into the memory of a worker."""
    return VerifierError(
        "E107", f"the verifier needs {judgement.detail}", where=definition_place(env),
        why=f"it was judging the reply {judgement.reply!r:.80} to train task {judgement.index}, as workers do in a run",
        fix=limits.more_memory,
    )  # fmt: skip


def out_of_range(env: Env, first: Judgement, rewards: Sequence[float]) -> VerifierError:
    """The error for rewards outside the range, with a range that holds all rewards that are known."""
    low, top = outward(min(*rewards, env.reward_range[0]), max(*rewards, env.reward_range[1]))
    what = first.detail.removeprefix("NoScore: ").partition(";")[0]
    return VerifierError(
        "E105", what if first.outcome == "raised" else f"the verifier returned {what}",
        where=quote(first.place) or definition_place(env),
        why=f"the replies that were tried earn from {min(rewards):g} to {max(rewards):g}",
        fix=f"reward_range=({low:g}, {top:g}), where a correct reply earns {top:g}",
    )  # fmt: skip


MISSPELLED = re.compile(r"(?:no attribute|name) '(\w+)'.* Did you mean: '(\w+)'")


def correction(where: str, detail: str) -> str:
    """The author's line with the name that was meant; the empty text where Python suggests none.

    Args: where: `file.py:3, in check: line`; detail: what the line raised.
    """
    match, line = MISSPELLED.search(detail), where.partition(": ")[2]
    return re.sub(rf"\b{match[1]}\b", match[2], line) if match else ""


def definition_place(env: Env) -> str:
    """Where the author's judging function begins."""
    return quote(blamed_line(RuntimeError(), env)) or type(env).__name__
