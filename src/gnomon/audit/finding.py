"""What an audit says: findings, the tables behind them, and a receipt for the run that stands on them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any

__all__ = ["AXES", "Axis", "Evidence", "Finding", "Report", "Severity"]


class Axis(StrEnum):
    """The nine questions of an audit."""

    CORRECTNESS = "correctness"
    """Is a right answer accepted, however it is put, and a wrong one not?"""
    EXPLOIT = "exploit"
    """What does a policy earn that never looks at the task?"""
    AVAILABILITY = "availability"
    """Does every reply get a verdict, in time and within memory?"""
    CONFINEMENT = "confinement"
    """Does a reply stay a text: is nothing of it executed, and nothing around the verifier changed?"""
    DETERMINISM = "determinism"
    """Is a verdict a function of task and reply, and a task of its index; are the splits apart?"""
    FAILURE = "failure"
    """Is the judge's own fault told as that, and the policy's never?"""
    SEARCH = "search"
    """What does a search find that climbs the reward?"""
    INVARIANCE = "invariance"
    """Does a verdict change with what does not matter?"""
    SENTINELS = "sentinels"
    """What watches the reward while a run climbs it, and can the other parts outpay being right?"""


AXES = tuple(Axis)


class Severity(StrEnum):
    BLOCKING = "blocking"
    """A policy can use it, or a run cannot trust its rewards: no training until it is fixed or acknowledged."""
    WARNING = "warning"
    """Likely a fault; whether it is one depends on what the author means."""
    NOTE = "note"
    """True, and worth knowing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The call that shows it."""

    task: str = ""
    """Id of the task."""
    reply: str = ""
    index: int | None = None
    """Of the task among the subject's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, shown."""

    axis: Axis
    rule: str
    """Short and lasting, `axis.what`: how it is acknowledged by name."""
    severity: Severity
    what: str
    """One sentence: what was seen, with its numbers."""
    where: str = ""
    """The place in the subject's code, or the tasks it concerns."""
    why: str = ""
    """What it does to a run."""
    fix: str = ""
    evidence: Evidence = Evidence()
    repro: str = ""
    """A script that replays it and exits 1 while the fault is there."""
    count: int = 1
    """How many calls showed it."""
    acknowledged: bool = False

    @property
    def blocks(self) -> bool:
        return self.severity is Severity.BLOCKING and not self.acknowledged


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Every finding about one subject, the worst first, and what was measured on the way."""

    subject: str
    source: str
    findings: tuple[Finding, ...]
    tables: Mapping[str, Any] = field(default_factory=dict)
    """Plain values by name: error rates, lazy policies, what each part of the reward pays, the verifier's card."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Axes, or probes of one, that do not concern the subject, and why."""
    seed: int = 0
    tasks: int = 0
    seconds: float = 0.0

    @property
    def blocking(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.blocks)

    @property
    def passed(self) -> bool:
        return not self.blocking

    def body(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "subject": self.subject,
            "source": self.source,
            "passed": self.passed,
            "seed": self.seed,
            "tasks": self.tasks,
            "seconds": round(self.seconds, 3),
            "hash": self.hash,
            "findings": [asdict(finding) for finding in self.findings],
            "tables": dict(self.tables),
            "skipped": dict(self.skipped),
        }

    @property
    def hash(self) -> str:
        """SHA-256 over what was found; the same for the same subject and seed, whatever the clock said."""
        told = [
            (finding.rule, finding.severity.value, finding.evidence.task, finding.acknowledged)
            for finding in self.findings
        ]
        return sha256(json.dumps([self.subject, self.seed, self.tasks, told]).encode()).hexdigest()

    def receipt(self) -> dict[str, Any]:
        """What a run's manifest keeps of it."""
        counts = {kind.value: sum(f.severity is kind for f in self.findings) for kind in Severity}
        acknowledged = sorted({finding.rule for finding in self.findings if finding.acknowledged})
        rules = sorted({finding.rule for finding in self.findings})
        return {"hash": self.hash, **counts, "acknowledged": acknowledged, "rules": rules, "tasks": self.tasks}

    def acknowledging(self, rules: Collection[str]) -> Report:
        """The same report with findings of these rules (or of an axis, by its name) acknowledged."""
        found = tuple(
            replace(finding, acknowledged=finding.rule in rules or finding.axis.value in rules)
            for finding in self.findings
        )
        return replace(self, findings=found)
