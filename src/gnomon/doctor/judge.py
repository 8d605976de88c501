"""Faults of the verifier: it fails, contradicts itself, pays everything alike, or pays for something else."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from gnomon.doctor.data import contradictory, real_groups
from gnomon.doctor.evidence import END, Evidence, RecordedRollout
from gnomon.doctor.finding import Finding
from gnomon.doctor.rates import exceeds, level, percent, pick, share
from gnomon.monitoring.alarms import ADVICE
from gnomon.verifiers.breakdown import lines
from gnomon.verifiers.prices import RIGHT, payments

__all__ = ["find"]

FAILS = 0.05
"""Share of rollouts on which a verifier may fail. prime-rl calls a sustained rate "a smell"."""
CONFLICTS = 0.01
"""Share of repeated replies that may get different verdicts."""
FEW = 3
"""Conflicts below which none is reported."""
ELSEWHERE = 0.5
"""Share of the within-group variance, and of the price of a right answer, that other parts may pay."""
HACKED = ("canary.paid", "correct.falls", "behaviour.new", "sentinel.disagrees")
"""Alarms that show a reward without a right answer."""


def find(evidence: Evidence) -> Iterator[Finding]:
    for check in (fails, random, constant, paid_elsewhere, exploitation, no_slot):
        if finding := check(evidence):
            yield finding


def fails(evidence: Evidence) -> Finding | None:
    """The verifier or the environment fails on its own."""
    groups = (*evidence.groups, *evidence.held_out)
    rate = share(groups, lambda rollout: rollout.failed)
    if rate is None or not exceeds(rate, FAILS):
        return None
    failures = [rollout for group in groups for rollout in group if rollout.failed]
    return Finding(
        name="judge.fails",
        sentence=f"the verifier or environment failed on {percent(rate.mean)} of the rollouts, such as: "
        f"{last_line(failures[0].verdict.detail)}; groups with such a rollout are not trained on",
        fix=f"correct the verifier, then judge the stored rollouts again: gnomon replay {evidence.run}",
        read=pick(groups, lambda rollout: rollout.failed),
    )


def last_line(detail: str) -> str:
    """What a traceback ends with."""
    return (detail.strip().splitlines() or ["no detail was recorded"])[-1][:200]


def random(evidence: Evidence) -> Finding | None:
    """One reply to one task gets different verdicts."""
    verdicts: dict[tuple[str, str], list[RecordedRollout]] = defaultdict(list)
    for split, groups in (("train", evidence.groups), ("test", evidence.held_out)):
        for rollout in (rollout for group in groups for rollout in group):
            if rollout.judged and rollout.turns == 1 and not rollout.cut:
                name = evidence.tasks.get((split, rollout.task), {}).get("id", f"{split} {rollout.task}")
                verdicts[name, rollout.reply].append(rollout)
    repeated = [rollouts for rollouts in verdicts.values() if len(rollouts) > 1]
    conflicts = [rollouts for rollouts in repeated if len({rollout.verdict.status for rollout in rollouts}) > 1]
    if len(conflicts) < FEW or len(conflicts) <= CONFLICTS * len(repeated):
        return None
    pairs = [(one, next(r for r in rest if r.verdict.status != one.verdict.status)) for one, *rest in conflicts[:2]]
    return Finding(
        name="judge.random",
        sentence=f"{len(conflicts)} of {len(repeated)} replies that occurred several times got different verdicts",
        fix="remove clocks, random draws and shared state from the verifier; gnomon check ENV tests it",
        read=tuple(rollout.address for pair in pairs for rollout in pair),
    )


def constant(evidence: Evidence) -> Finding | None:
    """All rewards are equal although answers or verdicts differ."""
    groups = real_groups(evidence)
    rollouts = [rollout for group in groups for rollout in group]
    if len(groups) < 16 or len({rollout.reward for rollout in rollouts}) > 1:
        return None
    statuses = {rollout.verdict.status for rollout in rollouts}
    differ = contradictory(groups)
    if len({rollout.right for rollout in rollouts}) == 1 and differ <= 0.1:
        return None
    what = f"verdicts differ ({', '.join(sorted(statuses))})" if len(statuses) > 1 else (
        f"in {percent(differ)} of the groups different answers to one task are all judged right"
    )  # fmt: skip
    return Finding(
        name="judge.constant",
        sentence=f"all {len(rollouts)} rollouts have the reward {rollouts[0].reward:g}, although {what}",
        fix=f"gnomon audit {evidence.recipe.get('env.type', 'ENV')}   # searches for wrong answers that are accepted",
        read=pick(groups, lambda rollout: True),
    )


def paid_elsewhere(evidence: Evidence) -> Finding | None:
    """Parts that need no right answer make most of the difference within groups, and pay as much as being right."""
    groups = evidence.end or evidence.groups
    free = level(groups, unearned_reward)
    price = max((part.weight for g in groups for s in g for part in s.verdict.parts if part.name == RIGHT), default=0.0)
    steps = [metrics for step, metrics in evidence.metrics if step in set(evidence.read[-END:])]
    if free is None or price <= 0 or free.mean < ELSEWHERE * price or not steps:
        return None
    gates = {part.name: part.gate for g in groups for s in g for part in s.verdict.parts}
    loose = [line for line in lines(steps) if line.part != RIGHT and gates.get(line.part) != RIGHT]
    variance = math.fsum(line.variance_share or 0.0 for line in loose)
    if variance <= ELSEWHERE:
        return None
    names = ", ".join(line.part for line in loose if line.paid > 0)
    start = level(evidence.start, unearned_reward)
    early = start is not None and start.mean >= ELSEWHERE * price
    return Finding(
        name="judge.paid_elsewhere",
        sentence=f"the part {names} needs no right answer; it pays {free.mean:.2f} per rollout, where a right answer "
        f"pays {price:g}, and makes {percent(variance)} of the reward difference within groups",
        fix=ADVICE["parts.jump"],
        since=0 if early else max(1, evidence.read[-END] if evidence.end else 1),
        read=pick(groups, lambda rollout: not rollout.right and unearned_reward(rollout) > 0),
    )


def unearned_reward(rollout: RecordedRollout) -> float:
    """What parts paid that do not need a right answer."""
    gates = {part.name: part.gate for part in rollout.verdict.parts}
    return math.fsum(
        value for name, value in payments(rollout.verdict.parts).items() if name != RIGHT and gates[name] != RIGHT
    )


def exploitation(evidence: Evidence) -> Finding | None:
    """An alarm showed rewards without right answers."""
    alarm = next((alarm for alarm in evidence.alarms if alarm.name in HACKED), None)
    if alarm is None:
        return None
    return Finding(
        name="judge.exploited",
        sentence=f"alarm {alarm.name} at step {alarm.step}: {alarm.sentence}",
        fix=ADVICE[alarm.name],
        since=alarm.step,
        read=alarm.read,
    )


def no_slot(evidence: Evidence) -> Finding | None:
    """Answers are parsed from a slot that no prompt mentions."""
    alarm = next((alarm for alarm in evidence.alarms if alarm.name == "prompt.without_slot"), None)
    if alarm is None:
        return None
    return Finding(name="judge.no_slot", sentence=alarm.sentence, fix=ADVICE[alarm.name], read=alarm.read)
