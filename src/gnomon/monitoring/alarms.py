"""Alarms on the rollouts of a run: pure functions of its records, so live and stored runs give the same alarms.

Most alarms compare the last five steps with five earlier ones. The difference must be at least four standard errors
(between groups) and must exceed a threshold. Some alarms report a run that cannot learn. Each alarm is raised at most
once in a run and does not change the run.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from gnomon.monitoring.endings import longer, mostly_truncated
from gnomon.monitoring.programs import FAULTS, Fault
from gnomon.monitoring.summary import RARE, Level, StepSummary, failed_addresses, judged_rollouts, summary
from gnomon.store import Record, RunReader
from gnomon.types import Task
from gnomon.verifiers.slot import Verifier

__all__ = ["ADVICE", "ALARMS", "Alarm", "Monitor", "alarms"]

WINDOW = 5
"""Steps in one window."""
ERRORS = 4.0
"""Minimum difference, in standard errors."""
GROUPS = 32
"""Minimum number of groups for an alarm on equal replies."""
TIED = 16
"""Minimum number of groups for alarms on groups without gradient."""
EARLY = 3
"""Steps in which a run that cannot learn shows it."""
ROLLOUTS = 16
"""Minimum number of rollouts for alarms on events that are rare in a healthy run."""
LAG = 20
"""A feature is new if it appeared within this number of steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A sign of reward hacking or failed training, with rollouts to read."""

    name: str
    step: int
    sentence: str
    read: tuple[str, ...]
    """Addresses as `gnomon show RUN` takes them."""
    advice: str = ""
    """What to do. Empty: the advice of `ADVICE`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "advice", self.advice or ADVICE[self.name])

    def body(self) -> dict[str, Any]:
        return {**asdict(self), "read": list(self.read)}

    def __str__(self) -> str:
        places = f"   read {' '.join(self.read)}" if self.read else ""
        return f"ALARM {self.name} at step {self.step}: {self.sentence}{places}\n   do: {self.advice}"


Rule = Callable[[Sequence[StepSummary]], Alarm | None]


def correct_falls(summaries: Sequence[StepSummary]) -> Alarm | None:
    """The fraction of correct rollouts is a quarter below its earlier maximum, while the reward increased."""
    now, best = latest(summaries, "right"), earlier(summaries, "right", max)
    if now is None or best is None:
        return None
    then, end = best
    paid_now, paid_then = latest(summaries, "reward"), window(summaries, "reward", end)
    if paid_now is None or paid_then is None or now.mean > 0.75 * then.mean:
        return None
    if apart(then, now) < ERRORS or apart(paid_now, paid_then) < ERRORS:
        return None
    sentence = (
        f"since step {summaries[end].step} the reward increased from {paid_then.mean:.2f} to {paid_now.mean:.2f}, "
        f"while the fraction of correct rollouts decreased from {then.mean:.0%} to {now.mean:.0%}"
    )
    return alarm_at("correct.falls", summaries, sentence, "wrong")


def parts_jump(summaries: Sequence[StepSummary]) -> Alarm | None:
    """Reward parts that need no correct answer give over half of the return, and 20 points more than before."""
    now, least = latest(summaries, "free"), earlier(summaries, "free", min)
    if now is None or least is None:
        return None
    then, end = least
    paid_now, paid_then = latest(summaries, "reward"), window(summaries, "reward", end)
    if paid_now is None or paid_then is None or min(paid_now.mean, paid_then.mean) <= 0:
        return None
    share, before = now.mean / paid_now.mean, then.mean / paid_then.mean
    matters = now.mean - then.mean >= 0.25 * summaries[-1].price and apart(now, then) >= ERRORS
    if not (matters and share > 0.5 and share - before >= 0.2):
        return None
    sentence = (
        f"reward parts that need no correct answer give {share:.0%} of the return, "
        f"up from {before:.0%} around step {summaries[end].step}"
    )
    return alarm_at("parts.jump", summaries, sentence, "wrong")


def behaviour_new(summaries: Sequence[StepSummary]) -> Alarm | None:
    """A feature of rewarded but incorrect replies was rare and is now in half of all rewarded replies."""
    recent, before = summaries[-WINDOW:], summaries[-LAG:-WINDOW]
    total = sum(step.rewarded for step in recent)
    if len(before) < WINDOW or total < 20:
        return None
    past = {name for step in before[:WINDOW] for name in step.behaviour}
    counts: dict[str, int] = {}
    for step in recent:
        for name, (count, _, _) in step.behaviour.items():
            counts[name] = counts.get(name, 0) + count
    fresh = [name for name, count in counts.items() if count > total / 2 and name not in past]
    if not fresh:
        return None
    name = max(fresh, key=lambda name: (counts[name], len(name), name))
    _, address, text = next(step.behaviour[name] for step in reversed(recent) if name in step.behaviour)
    sentence = (
        f"{counts[name] / total:.0%} of the rewarded rollouts are incorrect and contain text such as {text!r}, "
        f"up from at most {RARE:.0%} around step {before[WINDOW - 1].step}"
    )
    return alarm_on("behaviour.new", summaries, sentence, (address,))


def unparsable_jump(summaries: Sequence[StepSummary]) -> Alarm | None:
    """The fraction of replies without a parsable answer has increased by 20 points."""
    now, least = latest(summaries, "unparsable"), earlier(summaries, "unparsable", min)
    if now is None or least is None:
        return None
    then, end = least
    if now.mean - then.mean < 0.2 or apart(now, then) < ERRORS:
        return None
    sentence = (
        f"{now.mean:.0%} of the rollouts have no answer that can be parsed, "
        f"up from {then.mean:.0%} around step {summaries[end].step}"
    )
    return alarm_at("unparsable.jump", summaries, sentence, "unparsable")


def variance_collapse(summaries: Sequence[StepSummary]) -> Alarm | None:
    """In 90% of the groups all rewards are equal although not all replies are correct."""
    first, now = recent(summaries, "stuck", TIED), latest(summaries, "stuck")
    if now is None and first is not None and first.mean == 1.0:
        now = first
    if now is None or now.mean < 0.9 or mute(summaries):
        return None
    alarm = alarm_at(
        "variance.collapse",
        summaries,
        f"in {now.mean:.0%} of the groups all rewards are equal although not all replies are correct; "
        "these groups have no gradient",
        "wrong",
    )
    paid = [step.levels["reward"] for step in summaries]
    if now.mean < 1 or {level.mean for level in paid} != {paid[0].mean} or any(level.variance for level in paid):
        return alarm
    sentence = f"all rewards since the first step are {paid[0].mean:g}, so there is no gradient"
    return replace(alarm, sentence=sentence, advice=CONSTANT)


def tasks_solved(summaries: Sequence[StepSummary]) -> Alarm | None:
    """All replies are right from the first step on."""
    right = recent(summaries, "right", ROLLOUTS)
    groups = sum(step.sizes["stuck"] for step in summaries)
    if len(summaries) > EARLY or right is None or right.mean < 1 or groups < TIED:
        return None
    return alarm_at("tasks.solved", summaries, "all replies since the first step are right: no gradient", "any")


def replies_alike(summaries: Sequence[StepSummary]) -> Alarm | None:
    """In 75% of the groups with a wrong reply, all replies are identical."""
    now = latest(summaries, "alike")
    if (
        now is None
        or now.mean < 0.75
        or mute(summaries)
        or sum(step.sizes["alike"] for step in summaries[-WINDOW:]) < GROUPS
    ):
        return None
    sentence = f"in {now.mean:.0%} of the groups with a wrong reply, all replies are identical"
    return alarm_at("replies.alike", summaries, sentence, "wrong")


def replies_truncated(summaries: Sequence[StepSummary]) -> Alarm | None:
    """90% of the replies are truncated by a token limit, or have no answer mostly for this reason."""
    truncated = part_of(summaries, "truncated", "endless")
    if truncated is None or not (truncated >= 0.9 or (mute(summaries) and not unreadable(summaries))):
        return None
    sentence = f"{truncated:.0%} of the rollouts are truncated by a token limit"
    return alarm_at("replies.truncated", summaries, sentence, "truncated")


def answers_unreadable(summaries: Sequence[StepSummary]) -> Alarm | None:
    """90% of the replies have no answer that can be parsed, and most of them are not truncated."""
    if not mute(summaries) or not unreadable(summaries) or unplayed(summaries):
        return None
    sentence = f"{part_of(summaries, 'unreadable'):.0%} of the rollouts have no answer that can be parsed"
    alarm = alarm_at("answers.unreadable", summaries, sentence, "unparsable")
    return replace(alarm, advice=SHOTS) if summaries[-1].slot_shown else alarm


def mute(summaries: Sequence[StepSummary]) -> bool:
    """Whether 90% of the rollouts have no answer. Their groups tie for this reason, which has an alarm of its own."""
    return (part_of(summaries, "truncated", "unreadable") or 0.0) >= 0.9


def unreadable(summaries: Sequence[StepSummary]) -> bool:
    """Whether answers are missing because of their form and not because of the token limit."""
    return not mostly_truncated(part_of(summaries, "truncated") or 0.0, part_of(summaries, "unreadable") or 0.0)


def unplayed(summaries: Sequence[StepSummary]) -> bool:
    """Whether most programs received no reply or failed. Their answers are missing for this reason."""
    return any(program_rule(name, FAULTS[name])(summaries) for name in ("program.silent", "program.failed"))


def part_of(summaries: Sequence[StepSummary], *names: str) -> float | None:
    """The sum of shares of rollouts over the last window; None for too few rollouts."""
    levels = [level for name in names if (level := recent(summaries, name, ROLLOUTS)) is not None]
    return math.fsum(level.mean for level in levels) if levels else None


def prompt_without_slot(summaries: Sequence[StepSummary]) -> Alarm | None:
    """Answers are parsed from a slot that the prompt does not mention."""
    now = recent(summaries, "unasked", ROLLOUTS)
    if now is None or now.mean < 0.25:
        return None
    sentence = f"{now.mean:.0%} of the answers are in the slot <answer>...</answer>, which the prompt does not mention"
    return alarm_at("prompt.without_slot", summaries, sentence, "any")


def sentinel_disagrees(summaries: Sequence[StepSummary]) -> Alarm | None:
    """The second verifier disagrees on 5% of the rollouts."""
    now = latest(summaries, "disagrees")
    if now is None or now.mean < 0.05:
        return None
    sentence = f"the second verifier disagrees on {now.mean:.0%} of the rollouts"
    return alarm_at("sentinel.disagrees", summaries, sentence, "disagrees")


def sentinel_breaks(summaries: Sequence[StepSummary]) -> Alarm | None:
    """The second verifier raised an exception."""
    if (broke := summaries[-1].broke) is None:
        return None
    sentence = f"the second verifier failed: {broke[1]}"
    return alarm_on("sentinel.breaks", summaries, sentence, (broke[0],))


def canary_paid(summaries: Sequence[StepSummary]) -> Alarm | None:
    """A task that cannot be solved got the reward of a correct answer."""
    if not summaries[-1].canaries:
        return None
    sentence = "a task without a solution got the reward of a correct answer"
    return alarm_on("canary.paid", summaries, sentence, summaries[-1].canaries)


def verifier_fails(summaries: Sequence[StepSummary]) -> Alarm | None:
    """The verifier or the environment failed on a rollout."""
    if not (failures := summaries[-1].failed):
        return None
    sentence = (
        f"the verifier or the environment failed on {count_text(failures)}: the groups of such rollouts are not "
        "trained on, and such tasks are left out of pass@k"
    )
    return alarm_on("verifier.fails", summaries, sentence, failures[:3])


def verifier_over_time(summaries: Sequence[StepSummary]) -> Alarm | None:
    """Judging a rollout used up the limit of time."""
    if not (late := summaries[-1].over_time):
        return None
    every = len(late) == summaries[-1].sizes["reward"]
    sentence = (
        f"judging {'every rollout' if every else count_text(late)} reached the time limit and gave the lowest reward; "
        "on a faster or less busy machine the verdict may differ"
    )
    return alarm_on("verifier.over_time", summaries, sentence, late[:3])


def prompt_without_room(summaries: Sequence[StepSummary]) -> Alarm | None:
    """A prompt fills the context."""
    if not (full := summaries[-1].without_room):
        return None
    return alarm_on(
        "prompt.without_room",
        summaries,
        f"the prompts of {count_text(full)} fill rollout.context, so they have no reply",
        full[:3],
    )


def program_rule(name: str, fault: Fault) -> Rule:
    """The rule of a fault of programs."""

    def rule(summaries: Sequence[StepSummary]) -> Alarm | None:
        now = recent(summaries, name, ROLLOUTS)
        if now is None or now.mean < fault.share:
            return None
        return alarm_at(name, summaries, f"{now.mean:.0%} of the programs {fault.sentence}", name)

    return rule


def count_text(rollouts: Sequence[str]) -> str:
    return f"{len(rollouts)} rollout{'s' if len(rollouts) != 1 else ''}"


ALARMS: dict[str, Rule] = {
    "correct.falls": correct_falls,
    "parts.jump": parts_jump,
    "behaviour.new": behaviour_new,
    "unparsable.jump": unparsable_jump,
    "variance.collapse": variance_collapse,
    "tasks.solved": tasks_solved,
    "replies.alike": replies_alike,
    "replies.truncated": replies_truncated,
    "answers.unreadable": answers_unreadable,
    "prompt.without_slot": prompt_without_slot,
    "prompt.without_room": prompt_without_room,
    "sentinel.disagrees": sentinel_disagrees,
    "sentinel.breaks": sentinel_breaks,
    "canary.paid": canary_paid,
    "verifier.fails": verifier_fails,
    "verifier.over_time": verifier_over_time,
    **{name: program_rule(name, fault) for name, fault in FAULTS.items()},
}


ADVICE: dict[str, str] = {
    "correct.falls": "read these rollouts; stop the verifier from rewarding the exploit (docs/reward-hacking.md)",
    "parts.jump": 'reward these parts only with a correct answer (gate="correct"), or lower their weight '
    "(docs/reward-hacking.md)",
    "behaviour.new": "read these rollouts; stop the verifier from rewarding the exploit (docs/reward-hacking.md)",
    "unparsable.jump": "read these rollouts; lower optim.lr, or add a reward part for the format of the answer",
    "variance.collapse": "use easier tasks or a larger rollout.group; rollout.refill=10 replaces such groups",
    "tasks.solved": "use harder tasks, or add rollout.refill=10, which replaces tasks that are always solved",
    "replies.alike": "the policy does not explore: try regularize.entropy=0.01, regularize.kl=0.01 or a lower optim.lr",
    "replies.truncated": "raise rollout.max_tokens; if replies never end, check rollout.stop and the end token of the "
    "tokenizer",
    "answers.unreadable": "show the answer format in the prompt; env.shots=2 adds two solved examples",
    "prompt.without_slot": 'mention it in the prompt: user(f"... {SLOT}"), with SLOT from gnomon.envs.base',
    "prompt.without_room": "raise rollout.context, or remove these tasks",
    "sentinel.disagrees": "read these rollouts and decide which verifier is correct",
    "sentinel.breaks": "fix the second verifier: it must return a verdict for every text",
    "canary.paid": "read these rollouts; the verifier rewards something other than a solution",
    "verifier.fails": "read these rollouts, mend what their detail names, then: gnomon check ENV",
    "verifier.over_time": "raise workers.seconds or make the verifier faster, unless these replies never terminate; "
    "load models at the top of the module and not in the first call",
    **{name: fault.advice for name, fault in FAULTS.items()},
}
"""What to do, by the name of an alarm."""
CONSTANT = "read these replies: if one of them is right, correct the reward function; otherwise use easier tasks"
SHOTS = "add solved examples to the prompts, which show the answer format already: env.shots=2"


class Monitor:
    """Follows a run step by step and raises alarms.

    Args:
        tasks: maps an index of the train split to its task; used only with a sentinel.
        sentinel: a second verifier, stricter or more lenient than the one used in training.
        limit: the `rollout.max_tokens` of the run; `alarms` reads it in the recipe.
    """

    def __init__(
        self, tasks: Callable[[int], Task] | None = None, sentinel: Verifier | None = None, limit: int = 0
    ) -> None:
        self.tasks, self.sentinel, self.limit = tasks, sentinel, limit
        self.summaries: list[StepSummary] = []
        self._silent = set[str]()

    def step(self, number: int, records: Sequence[Record]) -> list[Alarm]:
        """The alarms raised at this step for the first time.

        Args: records: all records of the step; only tasks and rollouts are used.
        """
        current = summary(number, judged_rollouts(records, self.tasks, self.sentinel))
        if current is None:
            return []
        current = replace(current, failed=failed_addresses(records))
        self.summaries.append(current)
        if len(self.summaries) > LAG:
            self.summaries[-LAG - 1] = replace(self.summaries[-LAG - 1], behaviour={})
        fresh = [alarm for name, rule in ALARMS.items() if name not in self._silent and (alarm := rule(self.summaries))]
        self._silent |= {alarm.name for alarm in fresh}
        return [self._advise(alarm) for alarm in fresh]

    def _advise(self, alarm: Alarm) -> Alarm:
        """The alarm, where a longer limit may mend what it reports with this limit."""
        if alarm.name != "replies.truncated" or not self.limit:
            return alarm
        change = f"set rollout.max_tokens={longer(self.limit)} (now {self.limit})"
        return replace(alarm, advice=alarm.advice.replace("raise rollout.max_tokens", change))


def alarms(reader: RunReader, monitor: Monitor | None = None, before: int | None = None) -> Iterator[Alarm]:
    """The alarms of a stored run. Args: before: stop at this step."""
    monitor = monitor or Monitor()
    monitor.limit = monitor.limit or tomllib.loads(reader.recipe).get("rollout", {}).get("max_tokens", 0)
    steps = (record for record in reader.records() if record.kind in ("task", "rollout"))
    for step, records in groupby(steps, key=lambda record: record.step):
        if before is not None and step is not None and step >= before:
            return
        if step is not None:
            yield from monitor.step(step, list(records))


def window(summaries: Sequence[StepSummary], name: str, end: int) -> Level | None:
    """The level of a series over the window that ends with `summaries[end]`; None for an incomplete window."""
    if end + 1 < WINDOW:
        return None
    levels = [step.levels[name] for step in summaries[end + 1 - WINDOW : end + 1] if name in step.levels]
    if len(levels) < WINDOW:
        return None
    return Level(sum(level.mean for level in levels) / WINDOW, sum(level.variance for level in levels) / WINDOW**2)


def recent(summaries: Sequence[StepSummary], name: str, least: int) -> Level | None:
    """The level of a series over the last window; None if it has fewer than `least` values."""
    part = [step for step in summaries[-WINDOW:] if name in step.levels]
    if not part or sum(step.sizes[name] for step in part) < least:
        return None
    levels = [step.levels[name] for step in part]
    return Level(sum(level.mean for level in levels) / len(levels), sum(level.variance for level in levels))


def latest(summaries: Sequence[StepSummary], name: str) -> Level | None:
    return window(summaries, name, len(summaries) - 1)


def earlier(
    summaries: Sequence[StepSummary], name: str, best: Callable[[Iterable[tuple[float, int]]], tuple[float, int]]
) -> tuple[Level, int] | None:
    """The largest or smallest window before the last one, and the index of its end."""
    ends = range(WINDOW - 1, len(summaries) - WINDOW)
    windows = [(level.mean, end) for end in ends if (level := window(summaries, name, end)) is not None]
    if not windows:
        return None
    end = best(windows)[1]
    level = window(summaries, name, end)
    assert level is not None
    return level, end


def apart(high: Level, low: Level) -> float:
    """By how many standard errors the first level exceeds the second; 0 if it does not."""
    if high.mean <= low.mean:
        return 0.0
    error = math.sqrt(high.variance + low.variance)
    return (high.mean - low.mean) / error if error else math.inf


def alarm_at(name: str, summaries: Sequence[StepSummary], sentence: str, examples: str) -> Alarm:
    """An alarm of the last step. Args: examples: the rollouts to read, as `StepSummary.examples` calls them."""
    return alarm_on(name, summaries, sentence, summaries[-1].examples[examples])


def alarm_on(name: str, summaries: Sequence[StepSummary], sentence: str, addresses: tuple[str, ...]) -> Alarm:
    """An alarm of the last step. Args: addresses: of rollouts to read."""
    return Alarm(name=name, step=summaries[-1].step, sentence=sentence, read=addresses)
