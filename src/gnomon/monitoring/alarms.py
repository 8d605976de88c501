"""Alarms over the rollouts of a run: pure functions of what was recorded, the same live and read back.

Most compare the last five steps with an earlier five, and ask that the difference be at least four standard errors
(between groups) and large enough to matter. Some tell of a run that cannot learn, as soon as enough rollouts show it.
Each rings once in a run. None changes the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from gnomon.monitoring.summary import RARE, Level, StepSummary, played, summary
from gnomon.store import Record, RunReader
from gnomon.types import Task
from gnomon.verifiers.slot import Verifier

__all__ = ["ADVICE", "ALARMS", "Alarm", "Monitor", "alarms"]

WINDOW = 5
"""Steps that are taken together."""
ERRORS = 4.0
"""Standard errors that a difference must have."""
GROUPS = 32
"""Fewest groups for an alarm on a run that teaches nothing."""
ROLLOUTS = 16
"""Fewest rollouts for an alarm on something that a healthy run hardly ever does."""
LAG = 20
"""Steps within which behaviour is new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """Something in a run that a person should look at, with rollouts to read."""

    name: str
    step: int
    sentence: str
    read: tuple[str, ...]
    """Addresses as `gnomon show RUN` takes them."""

    def body(self) -> dict[str, Any]:
        return {**asdict(self), "read": list(self.read), "advice": ADVICE[self.name]}

    def __str__(self) -> str:
        places = f"   read {' '.join(self.read)}" if self.read else ""
        return f"ALARM {self.name} at step {self.step}: {self.sentence}{places}\n   do: {ADVICE[self.name]}"


Rule = Callable[[Sequence[StepSummary]], Alarm | None]


def correct_falls(summaries: Sequence[StepSummary]) -> Alarm | None:
    """Fewer rollouts are right than at the best time before, by a quarter, and are paid more."""
    now, best = latest(summaries, "right"), earlier(summaries, "right", max)
    if now is None or best is None:
        return None
    then, place = best
    paid_now, paid_then = latest(summaries, "reward"), window(summaries, "reward", place)
    if paid_now is None or paid_then is None or now.mean > 0.75 * then.mean:
        return None
    if apart(then, now) < ERRORS or apart(paid_now, paid_then) < ERRORS:
        return None
    sentence = (
        f"the reward rose from {paid_then.mean:.2f} to {paid_now.mean:.2f} since step {summaries[place].step}, "
        f"while the share of right rollouts fell from {then.mean:.0%} to {now.mean:.0%}"
    )
    return alarm_at("correct.falls", summaries, sentence, "wrong")


def parts_jump(summaries: Sequence[StepSummary]) -> Alarm | None:
    """Parts that do not ask for a right answer carry a fifth more of the return than before, and over half of it."""
    now, least = latest(summaries, "free"), earlier(summaries, "free", min)
    if now is None or least is None:
        return None
    then, place = least
    paid_now, paid_then = latest(summaries, "reward"), window(summaries, "reward", place)
    if paid_now is None or paid_then is None or min(paid_now.mean, paid_then.mean) <= 0:
        return None
    share, before = now.mean / paid_now.mean, then.mean / paid_then.mean
    matters = now.mean - then.mean >= 0.25 * summaries[-1].price and apart(now, then) >= ERRORS
    if not (matters and share > 0.5 and share - before >= 0.2):
        return None
    sentence = (
        f"parts that are paid without a right answer carry {share:.0%} of the return, "
        f"{before:.0%} around step {summaries[place].step}"
    )
    return alarm_at("parts.jump", summaries, sentence, "wrong")


def behaviour_new(summaries: Sequence[StepSummary]) -> Alarm | None:
    """A feature of replies that are rewarded without being right comes from rare to half of all that are rewarded."""
    recent, before = summaries[-WINDOW:], summaries[-LAG:-WINDOW]
    total = sum(seen.rewarded for seen in recent)
    if len(before) < WINDOW or total < 20:
        return None
    past = {name for seen in before[:WINDOW] for name in seen.behaviour}
    counts: dict[str, int] = {}
    for seen in recent:
        for name, (count, _, _) in seen.behaviour.items():
            counts[name] = counts.get(name, 0) + count
    fresh = [name for name, count in counts.items() if count > total / 2 and name not in past]
    if not fresh:
        return None
    name = max(fresh, key=lambda name: (counts[name], len(name), name))
    _, address, text = next(seen.behaviour[name] for seen in reversed(recent) if name in seen.behaviour)
    sentence = (
        f"{counts[name] / total:.0%} of the rewarded rollouts are not right and write {text!r} or the like, "
        f"at most {RARE:.0%} around step {before[WINDOW - 1].step}"
    )
    return Alarm(name="behaviour.new", step=summaries[-1].step, sentence=sentence, read=(address,))


def unparsable_jump(summaries: Sequence[StepSummary]) -> Alarm | None:
    """The share of replies without a readable answer is up by a fifth of all."""
    now, least = latest(summaries, "unparsable"), earlier(summaries, "unparsable", min)
    if now is None or least is None:
        return None
    then, place = least
    if now.mean - then.mean < 0.2 or apart(now, then) < ERRORS:
        return None
    sentence = (
        f"{now.mean:.0%} of the rollouts hold no answer that can be read, {then.mean:.0%} around "
        f"step {summaries[place].step}"
    )
    return alarm_at("unparsable.jump", summaries, sentence, "unparsable")


def variance_collapse(summaries: Sequence[StepSummary]) -> Alarm | None:
    """In nine of ten groups all rewards are equal, and not because all are right; or in every group from the start."""
    first, now = recent(summaries, "stuck", GROUPS), latest(summaries, "stuck")
    if now is None and first is not None and first.mean == 1.0:
        now = first
    if now is None or now.mean < 0.9:
        return None
    sentence = f"in {now.mean:.0%} of the groups all rewards are equal and not all are right: nothing is learned there"
    return alarm_at("variance.collapse", summaries, sentence, "wrong")


def replies_alike(summaries: Sequence[StepSummary]) -> Alarm | None:
    """In three of four groups that are not all right, every reply is the same."""
    now = latest(summaries, "alike")
    if now is None or now.mean < 0.75 or sum(seen.sizes["alike"] for seen in summaries[-WINDOW:]) < GROUPS:
        return None
    sentence = f"in {now.mean:.0%} of the groups with a wrong reply, all replies are the same"
    return alarm_at("replies.alike", summaries, sentence, "wrong")


def replies_cut_off(summaries: Sequence[StepSummary]) -> Alarm | None:
    """Nine of ten replies meet the token limit."""
    now = recent(summaries, "cut_off", ROLLOUTS)
    if now is None or now.mean < 0.9:
        return None
    sentence = f"{now.mean:.0%} of the rollouts are cut off by a token limit"
    return alarm_at("replies.cut_off", summaries, sentence, "cut_off")


def answers_unreadable(summaries: Sequence[StepSummary]) -> Alarm | None:
    """Nine of ten replies hold no answer that can be read, and not because they are cut off."""
    now, cut = recent(summaries, "unparsable", ROLLOUTS), recent(summaries, "cut_off", ROLLOUTS)
    if now is None or now.mean < 0.9 or (cut is not None and cut.mean >= 0.9):
        return None
    sentence = f"{now.mean:.0%} of the rollouts hold no answer that can be read"
    return alarm_at("answers.unreadable", summaries, sentence, "unparsable")


def prompt_without_slot(summaries: Sequence[StepSummary]) -> Alarm | None:
    """Answers are read from a slot that no prompt shows."""
    now = recent(summaries, "unasked", ROLLOUTS)
    if now is None or now.mean < 0.25:
        return None
    sentence = f"{now.mean:.0%} of the answers were read from the slot <answer>...</answer>, which no prompt shows"
    return alarm_at("prompt.without_slot", summaries, sentence, "any")


def sentinel_disagrees(summaries: Sequence[StepSummary]) -> Alarm | None:
    """The second verifier judges one rollout in twenty otherwise."""
    now = latest(summaries, "disagrees")
    if now is None or now.mean < 0.05:
        return None
    sentence = f"the second verifier judges {now.mean:.0%} of the rollouts otherwise"
    return alarm_at("sentinel.disagrees", summaries, sentence, "disagrees")


def sentinel_breaks(summaries: Sequence[StepSummary]) -> Alarm | None:
    """The second verifier raised, so its silence says nothing."""
    if (broke := summaries[-1].broke) is None:
        return None
    sentence = f"the second verifier broke: {broke[1]}"
    return Alarm(name="sentinel.breaks", step=summaries[-1].step, sentence=sentence, read=(broke[0],))


def canary_paid(summaries: Sequence[StepSummary]) -> Alarm | None:
    """A task that cannot be solved is paid for, as a right answer is."""
    if not summaries[-1].canaries:
        return None
    sentence = "a task that nobody can solve was paid like a solved one"
    return Alarm(name="canary.paid", step=summaries[-1].step, sentence=sentence, read=summaries[-1].canaries)


ALARMS: dict[str, Rule] = {
    "correct.falls": correct_falls,
    "parts.jump": parts_jump,
    "behaviour.new": behaviour_new,
    "unparsable.jump": unparsable_jump,
    "variance.collapse": variance_collapse,
    "replies.alike": replies_alike,
    "replies.cut_off": replies_cut_off,
    "answers.unreadable": answers_unreadable,
    "prompt.without_slot": prompt_without_slot,
    "sentinel.disagrees": sentinel_disagrees,
    "sentinel.breaks": sentinel_breaks,
    "canary.paid": canary_paid,
}


ADVICE: dict[str, str] = {
    "correct.falls": "read these rollouts; stop the verifier from rewarding the exploit (docs/reward-hacking.md)",
    "parts.jump": 'pay these parts only for right answers (gate="correct"), or pay less (docs/reward-hacking.md)',
    "behaviour.new": "read these rollouts; stop the verifier from rewarding the exploit (docs/reward-hacking.md)",
    "unparsable.jump": "read these rollouts; lower optim.lr, or pay a part of the reward for the form of the answer",
    "variance.collapse": "use easier tasks, a larger rollout.group, or rollout.refill=10, which replaces such groups",
    "replies.alike": "the policy does not explore: try regularize.entropy=0.01, regularize.kl=0.01 or a lower optim.lr",
    "replies.cut_off": "raise rollout.max_tokens; if replies never end, check rollout.stop and the end token of the "
    "tokenizer",
    "answers.unreadable": "show the form of the answer in the prompt; env.shots=2 puts solved examples before it",
    "prompt.without_slot": 'ask for it in the prompt: user(f"... {SLOT}"), SLOT from gnomon.envs.base',
    "sentinel.disagrees": "read these rollouts and decide which verifier is right",
    "sentinel.breaks": "make the second verifier return a verdict for every text",
    "canary.paid": "read these rollouts: something other than a solution is paid for",
}
"""What to do, by the name of an alarm."""


class Monitor:
    """Follows a run step by step and says which alarms ring.

    Args:
        tasks: the task of an index of the train split; asked for the sentinel alone.
        sentinel: a second verifier, stricter or more lenient than the one that is trained on.
    """

    def __init__(self, tasks: Callable[[int], Task] | None = None, sentinel: Verifier | None = None) -> None:
        self.tasks, self.sentinel = tasks, sentinel
        self.summaries: list[StepSummary] = []
        self._silent = set[str]()

    def step(self, number: int, records: Sequence[Record]) -> list[Alarm]:
        """The alarms that ring at this step for the first time.

        Args: records: those of the step, all of them; kinds that tell nothing of rollouts are passed over.
        """
        seen = summary(number, played(records, self.tasks, self.sentinel))
        if seen is None:
            return []
        self.summaries.append(seen)
        if len(self.summaries) > LAG:
            self.summaries[-LAG - 1] = replace(self.summaries[-LAG - 1], behaviour={})
        found = [alarm for name, rule in ALARMS.items() if name not in self._silent and (alarm := rule(self.summaries))]
        self._silent |= {alarm.name for alarm in found}
        return found


def alarms(reader: RunReader, monitor: Monitor | None = None, before: int | None = None) -> Iterator[Alarm]:
    """The alarms of a stored run, from its records alone. Args: before: the first step that is not looked at."""
    monitor = monitor or Monitor()
    steps = (record for record in reader.records() if record.kind in ("task", "rollout"))
    for step, records in groupby(steps, key=lambda record: record.step):
        if before is not None and step is not None and step >= before:
            return
        if step is not None:
            yield from monitor.step(step, list(records))


def window(summaries: Sequence[StepSummary], name: str, end: int) -> Level | None:
    """The level of a series over the steps that end with `summaries[end]`; None where it is not whole."""
    if end + 1 < WINDOW:
        return None
    levels = [seen.levels[name] for seen in summaries[end + 1 - WINDOW : end + 1] if name in seen.levels]
    if len(levels) < WINDOW:
        return None
    return Level(sum(level.mean for level in levels) / WINDOW, sum(level.variance for level in levels) / WINDOW**2)


def recent(summaries: Sequence[StepSummary], name: str, least: int) -> Level | None:
    """The level of a series over the last steps, at most a window of them; None for fewer than `least` in it."""
    part = [seen for seen in summaries[-WINDOW:] if name in seen.levels]
    if not part or sum(seen.sizes[name] for seen in part) < least:
        return None
    levels = [seen.levels[name] for seen in part]
    return Level(sum(level.mean for level in levels) / len(levels), sum(level.variance for level in levels))


def latest(summaries: Sequence[StepSummary], name: str) -> Level | None:
    return window(summaries, name, len(summaries) - 1)


def earlier(
    summaries: Sequence[StepSummary], name: str, best: Callable[[Iterable[tuple[float, int]]], tuple[float, int]]
) -> tuple[Level, int] | None:
    """The largest or least window that shares no step with the last one, and the place of its end."""
    places = range(WINDOW - 1, len(summaries) - WINDOW)
    found = [(level.mean, place) for place in places if (level := window(summaries, name, place)) is not None]
    if not found:
        return None
    place = best(found)[1]
    level = window(summaries, name, place)
    assert level is not None
    return level, place


def apart(high: Level, low: Level) -> float:
    """How many standard errors the first lies above the second; 0 where it does not."""
    if high.mean <= low.mean:
        return 0.0
    error = math.sqrt(high.variance + low.variance)
    return (high.mean - low.mean) / error if error else math.inf


def alarm_at(name: str, summaries: Sequence[StepSummary], sentence: str, read: str) -> Alarm:
    return Alarm(name=name, step=summaries[-1].step, sentence=sentence, read=summaries[-1].read[read])
