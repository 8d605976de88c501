"""What is wrong with a run: all findings, the first cause before its consequences, and the rollouts by cause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from gnomon.config import recorded_recipe, resolve
from gnomon.doctor import advantage, data, judge, program, rollout, update
from gnomon.doctor.causes import causes
from gnomon.doctor.evidence import Evidence, evidence_of
from gnomon.doctor.finding import Finding, in_order
from gnomon.errors import GnomonError
from gnomon.monitoring.failures import Failures, failures
from gnomon.run.find import make_env
from gnomon.run.trust import require_trusted
from gnomon.stats import mean_interval
from gnomon.store import RunReader
from gnomon.store.layout import RECIPE

__all__ = ["Change", "Diagnosis", "diagnose", "examine"]

SHOWN = 1.96 + 0.84
"""Standard errors of a difference that is significant at 95 % with a probability of 80 %."""
SMALL = 0.02
"""The smallest gain for which the doctor counts held-out tasks."""
TASKS = 4096
"""Train tasks that held-out ones are compared with, beyond those that were drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Held-out pass@1 before and after, over the same tasks."""

    before: float
    after: float
    error: float
    """Standard error of the difference, over different tasks."""
    tasks: int
    """Tasks of both evaluations."""
    steps: int
    """Steps between them."""

    @property
    def gain(self) -> float:
        return self.after - self.before

    @property
    def flat(self) -> bool:
        """Whether an increase is not shown (95 %)."""
        return self.gain <= 1.96 * self.error

    @property
    def tasks_to_tell(self) -> int:
        """Tasks with which this gain, or `SMALL` if it is larger, is significant with a probability of 80 %."""
        return math.ceil(self.tasks * (SHOWN * self.error / max(self.gain, SMALL)) ** 2)

    @property
    def steps_to_tell(self) -> int | None:
        """Steps after which the gain is significant with a probability of 80 %; None if it does not grow.

        Assumes the same growth per step and the same standard error.
        """
        return math.ceil(self.steps * SHOWN * self.error / self.gain) if self.gain > 0 and self.error else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything that was found."""

    run: str
    status: str
    steps: int
    rollouts: int
    """Rollouts that were read."""
    findings: tuple[Finding, ...]
    """The first cause first."""
    change: Change | None
    causes: Mapping[str, float]
    failures: Failures | None = None
    """Of the whole run."""

    def body(self) -> dict[str, Any]:
        change = self.change
        held_out = None if change is None else {
            "before": change.before, "after": change.after, "error": change.error, "flat": change.flat,
            "tasks_to_tell": change.tasks_to_tell, "steps_to_tell": change.steps_to_tell,
        }  # fmt: skip
        return {
            "run": self.run,
            "status": self.status,
            "steps": self.steps,
            "rollouts": self.rollouts,
            "findings": [finding.body() for finding in self.findings],
            "held_out": held_out,
            "causes": dict(self.causes),
            "failures": None if self.failures is None else self.failures.body(),
        }


def examine(reader: RunReader, *, trust: bool = False) -> Diagnosis:
    """Read a run and say what is wrong with it.

    Args: trust: whether the environment that the run folder names may be made, to read its train tasks, although this
        user has not trained with it here. Where it may not, only recorded tasks are compared.
    """
    with reader.snapshot():
        diagnosis = diagnose(evidence_of(reader, train_tasks(reader, trust)))
        return replace(diagnosis, failures=failures(reader))


def diagnose(evidence: Evidence) -> Diagnosis:
    finders = (data.find, program.find, rollout.find, judge.find, advantage.find, update.find, error_end)
    findings = in_order(chain.from_iterable(find(evidence) for find in finders))
    return Diagnosis(
        run=evidence.run,
        status=evidence.status,
        steps=evidence.steps,
        rollouts=sum(map(len, evidence.groups)),
        findings=tuple(findings),
        change=change(evidence),
        causes=causes(evidence, {finding.name for finding in findings}),
    )


def error_end(evidence: Evidence) -> Iterator[Finding]:
    """A run that an error ended."""
    if evidence.status == "failed":
        first, *rest = [line.strip() for line in evidence.reason.splitlines()] or ["an unknown error"]
        fix = next((line.removeprefix("fix: ") for line in rest if line.startswith("fix: ")), "")
        yield Finding(
            name="run.stopped",
            sentence=f"the run stopped after {evidence.steps} steps: {first}",
            fix=fix or f"gnomon resume {evidence.run}",
            since=evidence.steps,
        )


def change(evidence: Evidence) -> Change | None:
    """Held-out results of the first and the last evaluation, task by task; None where there are not two."""
    steps = sorted({group[0].step for group in evidence.held_out})
    if len(steps) < 2:
        return None
    first, last = (
        {g[0].task: sum(one.right for one in g) / len(g) for g in evidence.held_out if g[0].step == step}
        for step in (steps[0], steps[-1])
    )
    tasks = [task for task in first if task in last]
    gains = [last[task] - first[task] for task in tasks]
    mean = math.fsum(gains) / max(1, len(gains))
    apart: dict[str, float] = {}
    for task, gain in zip(tasks, gains, strict=True):
        name = evidence.tasks["test", task]["id"]
        apart[name] = apart.get(name, 0.0) + gain - mean
    if len(apart) < 2:
        return None
    variance = math.fsum(own**2 for own in apart.values()) * len(apart) / (len(apart) - 1) / len(gains) ** 2
    before, after = (mean_interval([rates[task] for task in tasks]).value for rates in (first, last))
    return Change(
        before=before, after=after, error=math.sqrt(variance), tasks=len(tasks), steps=steps[-1] - steps[0]
    )  # fmt: skip


def train_tasks(reader: RunReader, trust: bool) -> Iterator[tuple[str, str]]:
    """Id and prompt of train tasks of the run's environment; none where it cannot be made."""
    try:
        config, _ = resolve([recorded_recipe(reader.folder / RECIPE)])
        require_trusted(reader, config, trust)
        tasks = make_env(config.env).tasks("train")
    except (GnomonError, OSError, TypeError, ValueError):
        return
    for index in range(min(TASKS, len(tasks))):
        yield tasks[index].id, " ".join(message.content for message in tasks[index].messages)
