"""What the alarms see of a step: levels of a few series with their noise, the behaviour that paid, rollouts to read."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from gnomon.monitoring.endings import Ending, ending
from gnomon.monitoring.programs import FAULTS, faults
from gnomon.reasoning import open_marker
from gnomon.store import Record
from gnomon.store.codec import verdict_of
from gnomon.types import Kind, Status, Stop, Task, Verdict
from gnomon.verifiers.judging import OVER_TIME
from gnomon.verifiers.prices import RIGHT, payments
from gnomon.verifiers.slot import Verifier

__all__ = ["Level", "Played", "StepSummary", "failed_addresses", "judged_rollouts", "summary"]

SIZES = (8, 16, 32)
"""Lengths of the pieces of a reply, in characters, that count as behaviour; and every word is one."""
TEXT = 2000
"""Characters of a reply that are looked at: the last ones."""
READ = 64
"""Rollouts whose behaviour is looked at in a step, at most."""
OPEN = "<answer>"
"""How an answer slot begins."""
RARE = 0.05
"""Behaviour in fewer of the rewarded rollouts than this share is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A judged rollout as the alarms see it."""

    address: str
    """`STEP:TASK:SAMPLE`, as `gnomon show` takes it."""
    task: int
    reply: str
    verdict: Verdict
    canary: bool = False
    """Whether its task cannot be solved."""
    ending: Ending = Ending.ANSWERED
    without_room: bool = False
    """Whether its prompt fills the context, so that it has no reply."""
    unasked: bool = False
    """Whether its answer was read from a slot that no message of its task shows."""
    slot_shown: bool = False
    """Whether a message of its task shows the answer slot."""
    faults: frozenset[str] | None = None
    """Of its program, by their names in `FAULTS`; None without a program."""
    other: bool | None = None
    """Whether the sentinel calls it right; None where none was asked, or where it broke."""
    broke: str = ""
    """What the sentinel raised."""

    @property
    def free(self) -> float:
        """What it was paid by parts that do not ask for a right answer."""
        gates = {part.name: part.gate for part in self.verdict.parts}
        earned = payments(self.verdict.parts).items()
        return math.fsum(value for name, value in earned if name != RIGHT and gates[name] != RIGHT)

    @property
    def price(self) -> float:
        """What its verifier pays for being right; 0 where no part is named so."""
        return next((part.weight for part in self.verdict.parts if part.name == RIGHT), 0.0)


@dataclass(frozen=True, slots=True)
class Level:
    """A mean and the variance of it, from the scatter between groups: rollouts of one task go together."""

    mean: float
    variance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """One step."""

    step: int
    levels: Mapping[str, Level]
    """`reward`; `right` and `unparsable`, shares of rollouts; `free`, paid by parts that do not ask for a right
    answer; `stuck`, share of groups with equal rewards that are not all right; `alike`, of the groups that are not
    all right, the share whose replies are all the same; `truncated` and `unreadable`, shares of rollouts without an
    answer by their ending; `endless`, share of rollouts that go on after their answer until the token limit;
    `unasked`, share of rollouts whose answer stood in a slot that the prompt does not show; `disagrees`, share of
    rollouts that the sentinel judges otherwise; and the names of `FAULTS`, shares of programs. Series that a step
    cannot have are left out."""
    sizes: Mapping[str, int]
    """By series, how many rollouts or groups its level is taken over."""
    price: float
    """What being right pays."""
    examples: Mapping[str, tuple[str, ...]]
    """Addresses worth reading, by series, the worst first."""
    rewarded: int = 0
    """Rollouts that earned more than the mean of their group."""
    behaviour: Mapping[str, tuple[int, str, str]] = field(default_factory=dict)
    """Of rewarded rollouts that are not right, by feature: how many have it, the address of one, its text there."""
    canaries: tuple[str, ...] = ()
    """Addresses of unsolvable tasks that were paid like solved ones."""
    broke: tuple[str, str] | None = None
    """Where the sentinel first broke, and what it raised."""
    slot_shown: bool = False
    """Whether the prompts show the answer slot."""
    without_room: tuple[str, ...] = ()
    """Addresses of rollouts whose prompt fills the context, so that they have no reply."""
    over_time: tuple[str, ...] = ()
    """Addresses of rollouts whose judging used up the limit of time."""
    failed: tuple[str, ...] = ()
    """Addresses of rollouts on which the verifier or the environment failed. They are in no other field."""


def judged_rollouts(
    records: Sequence[Record], tasks: Callable[[int], Task] | None = None, sentinel: Verifier | None = None
) -> list[Played]:
    """The judged rollouts among the records of a step."""
    tasks_of_step = {r.task: r.body for r in records if r.kind == "task" and r.body["of"] == "rollout"}
    canaries = {task for task, body in tasks_of_step.items() if body.get("canary")}
    shows_slot = {
        task: any(OPEN in m["content"] for m in body.get("messages", ())) for task, body in tasks_of_step.items()
    }
    # A prompt that is recorded as text may have opened reasoning, which is then a part of the reply.
    prefixes = {
        task: open_marker(body["messages"][-1]["content"]) for task, body in tasks_of_step.items() if body["messages"]
    }
    rollouts = []
    for record in records:
        if record.kind != "rollout":
            continue
        verdict = verdict_of(record)
        if verdict.status.kind in (Kind.UNJUDGED, Kind.FAILED):
            continue
        assert record.task is not None
        other, broke = None, ""
        if sentinel is not None and tasks is not None:
            try:
                reply = prefixes.get(record.task, "") + record.body["reply"]
                other = sentinel.verify(tasks(record.task), reply).correct
            except Exception as error:  # A run does not hang on its second opinion.
                broke = f"{type(error).__name__}: {error}"[:200]
        rollouts.append(
            Played(
                address=f"{record.step}:{record.task}:{record.sample}",
                task=record.task,
                reply=record.body["reply"],
                verdict=verdict,
                canary=record.task in canaries,
                ending=ending(record.body.get("stop"), verdict),
                without_room=record.body.get("stop") == Stop.CONTEXT and not record.body["reply"],
                slot_shown=shows_slot.get(record.task, False),
                unasked=not shows_slot.get(record.task, True) and from_slot(record.body),
                faults=faults(record.body) if record.body.get("end") else None,
                other=other,
                broke=broke,
            )
        )
    return rollouts


def summary(step: int, rollouts: Sequence[Played]) -> StepSummary | None:
    """What the alarms see of a step's rollouts; None where none was judged."""
    if not rollouts:
        return None
    groups = [list(group) for _, group in groupby(rollouts, key=lambda rollout: rollout.task)]
    series = {
        "reward": [[r.verdict.reward for r in group] for group in groups],
        "right": [[float(r.verdict.correct) for r in group] for group in groups],
        "free": [[r.free for r in group] for group in groups],
        "unparsable": [[float(unparsable(r)) for r in group] for group in groups],
        **{
            name: [[float(r.ending is kind) for r in group] for group in groups]
            for name, kind in (
                ("truncated", Ending.TRUNCATED),
                ("unreadable", Ending.UNREADABLE),
                ("endless", Ending.ENDLESS),
            )
        },
        "unasked": [[float(r.unasked) for r in group] for group in groups],
        "stuck": [[float(stuck(group))] for group in groups if len(group) > 1],
        "alike": [[float(len({r.reply for r in group}) == 1)] for group in groups if len(group) > 1 and missed(group)],
        "disagrees": [
            [float(r.other is not r.verdict.correct) for r in group if r.other is not None] for group in groups
        ],
        **{
            name: [[float(name in r.faults) for r in group if r.faults is not None] for group in groups]
            for name in FAULTS
        },
    }
    price = max(r.price for r in rollouts)
    rewarded = [r for group in groups for r in above(group)]
    wrong = sorted((r for r in rollouts if not r.verdict.correct), key=lambda r: -r.verdict.reward)
    disagreeing = [r for r in rollouts if r.other not in (None, r.verdict.correct)]
    mute = [r for r in rollouts if unparsable(r)]
    cut = [r for r in rollouts if r.ending in (Ending.TRUNCATED, Ending.ENDLESS)]
    names = {"wrong": wrong, "unparsable": mute, "disagrees": disagreeing, "truncated": cut, "any": rollouts}
    names |= {name: [r for r in rollouts if name in (r.faults or ())] for name in FAULTS}
    return StepSummary(
        step=step,
        levels={name: level for name, values in series.items() if (level := level_of(values)) is not None},
        sizes={name: sum(map(len, values)) for name, values in series.items()},
        price=price,
        examples={name: tuple(r.address for r in examples[:3]) for name, examples in names.items()},
        rewarded=len(rewarded),
        behaviour=behaviour([r for r in rewarded if not r.verdict.correct], len(rewarded)),
        canaries=tuple(r.address for r in rollouts if r.canary and solved(r))[:3],
        broke=next(((r.address, r.broke) for r in rollouts if r.broke), None),
        slot_shown=all(r.slot_shown for r in rollouts),
        without_room=tuple(r.address for r in rollouts if r.without_room),
        over_time=tuple(r.address for r in rollouts if over_time(r.verdict)),
    )


def failed_addresses(records: Sequence[Record]) -> tuple[str, ...]:
    """Addresses of the rollouts on which the verifier or the environment failed."""
    rollouts = [record for record in records if record.kind == "rollout"]
    return tuple(
        f"{record.step}:{record.task}:{record.sample}"
        for record in rollouts
        if verdict_of(record).status is Status.FAILED
    )


def over_time(verdict: Verdict) -> bool:
    return verdict.status is Status.EXCEEDED and OVER_TIME in verdict.detail


def level_of(groups: Sequence[Sequence[float]]) -> Level | None:
    """Mean over groups, and the variance of that mean; None for no groups, infinite variance for a single one."""
    means = [math.fsum(group) / len(group) for group in groups if group]
    if not means:
        return None
    mean, size = math.fsum(means) / len(means), len(means)
    if size == 1:
        return Level(mean, math.inf)
    return Level(mean, math.fsum((m - mean) ** 2 for m in means) / (size - 1) / size)


def missed(group: Sequence[Played]) -> bool:
    """Whether not every rollout of a group is right."""
    return not all(r.verdict.correct for r in group)


def from_slot(body: Mapping[str, Any]) -> bool:
    """Whether the judged answer of a stored rollout stood in an answer slot."""
    start = body["span"][0] if body.get("span") else 0
    return bool(body.get("extracted")) and body["reply"][:start].rstrip().endswith(OPEN)


def unparsable(rollout: Played) -> bool:
    return rollout.verdict.status.kind is Kind.UNPARSABLE


def stuck(group: Sequence[Played]) -> bool:
    """Whether a group has nothing to teach and is not solved."""
    return len({r.verdict.reward for r in group}) == 1 and missed(group)


def solved(rollout: Played) -> bool:
    """Whether a rollout is paid for being right, or as much as for that."""
    verdict = rollout.verdict
    return verdict.reward > 0 and (verdict.correct or verdict.reward >= rollout.price)


def above(group: Sequence[Played]) -> list[Played]:
    mean = math.fsum(r.verdict.reward for r in group) / len(group)
    return [r for r in group if r.verdict.reward > mean + 1e-9]


def behaviour(rollouts: Sequence[Played], rewarded: int) -> dict[str, tuple[int, str, str]]:
    """The features of rollouts that were rewarded without being right, where they are not rare among the rewarded.

    Of more than `READ` rollouts, that many are looked at, evenly spaced, and counts are scaled up.
    """
    stride = max(1, math.ceil(len(rollouts) / READ))
    sample = rollouts[::stride]
    counts: Counter[str] = Counter()
    first: dict[str, tuple[str, str]] = {}
    for rollout in sample:
        for feature, text in features(rollout.reply).items():
            counts[feature] += 1
            first.setdefault(feature, (rollout.address, text))
    scale = len(rollouts) / len(sample) if sample else 1.0
    return {
        name: (round(count * scale), *first[name]) for name, count in counts.items() if count * scale >= RARE * rewarded
    }


def features(reply: str) -> dict[str, str]:
    """Pieces of a reply by their shape, in which every letter is `a` and every digit `0`; and words as they stand."""
    text = reply[-TEXT:]
    shape = re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "0", text))
    pieces = {shape[i : i + n]: text[i : i + n] for n in SIZES for i in range(len(shape) - n, -1, -1)}
    return pieces | {f"word {word}": word for word in words(text)}


def words(text: str) -> Iterator[str]:
    """Words of two letters or more, and tags."""
    return (match[0][:40] for match in re.finditer(r"</?\w+>|[^\W\d_]{2,}", text))
