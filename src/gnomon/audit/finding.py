"""The results of an audit: findings, tables, and a receipt for the run's manifest."""

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
    """Are correct answers accepted in every form, and wrong answers rejected?"""
    EXPLOIT = "exploit"
    """What reward does a policy get that ignores the task?"""
    AVAILABILITY = "availability"
    """Does every reply get a verdict within the time and memory limits?"""
    CONFINEMENT = "confinement"
    """Is no text of a reply executed, and is nothing outside the verifier changed?"""
    DETERMINISM = "determinism"
    """Do task and reply determine the verdict, and the index the task? Are the splits disjoint?"""
    FAILURE = "failure"
    """Are faults of the verifier reported as such, and faults of a reply not?"""
    SEARCH = "search"
    """Which replies does a search for high rewards find?"""
    INVARIANCE = "invariance"
    """Do irrelevant changes of a reply or task change the verdict?"""
    SENTINELS = "sentinels"
    """Which checks monitor the reward during a run, and can the other reward parts exceed that of a correct answer?"""


AXES = tuple(Axis)
BRIEF = 2000
"""Characters of a reply that a receipt keeps."""


class Severity(StrEnum):
    BLOCKING = "blocking"
    """A policy can exploit it, or rewards are unreliable. Training starts only when it is fixed or acknowledged."""
    WARNING = "warning"
    """Probably a fault; this depends on the author's intention."""
    NOTE = "note"
    """For information."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The call that shows a fault."""

    task: str = ""
    """Id of the task."""
    reply: str = ""
    index: int | None = None
    """Index of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, with evidence."""

    axis: Axis
    rule: str
    """A stable name, `axis.what`, used to acknowledge it."""
    severity: Severity
    what: str
    """One sentence: the observation, with its numbers."""
    where: str = ""
    """The place in the code, or the tasks."""
    why: str = ""
    """The consequence for a run."""
    fix: str = ""
    evidence: Evidence = Evidence()
    repro: str = ""
    """A script that reproduces it; exit code 1 while the fault exists."""
    count: int = 1
    """Number of calls that showed it."""
    acknowledged: bool = False

    def brief(self) -> dict[str, Any]:
        """The finding in plain values, without its script and with at most so much of its reply."""
        names = ("axis", "rule", "severity", "what", "where", "why", "fix", "count", "acknowledged")
        evidence = {"task": self.evidence.task, "index": self.evidence.index, "reply": self.evidence.reply[:BRIEF]}
        return {**{name: value for name, value in asdict(self).items() if name in names}, "evidence": evidence}

    @property
    def blocks(self) -> bool:
        return self.severity is Severity.BLOCKING and not self.acknowledged


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings about one subject, the most severe first, and the measurements."""

    subject: str
    source: str
    findings: tuple[Finding, ...]
    tables: Mapping[str, Any] = field(default_factory=dict)
    """JSON values by name: error rates, lazy policies, the reward of each part, the verifier's card."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Axes or probes that were skipped, with the reason."""
    seed: int = 0
    tasks: int = 0
    seconds: float = 0.0
    repair: str = ""
    """Code of a reward that does not have the blocking faults; empty where none can be proposed."""

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
            "repair": self.repair,
        }

    @property
    def hash(self) -> str:
        """SHA-256 over the findings. It does not depend on timings."""
        facts = [
            (finding.rule, finding.severity.value, finding.evidence.task, finding.acknowledged)
            for finding in self.findings
        ]
        return sha256(json.dumps([self.subject, self.seed, self.tasks, facts]).encode()).hexdigest()

    def receipt(self) -> dict[str, Any]:
        """The entry in a run's manifest."""
        counts = {kind.value: sum(f.severity is kind for f in self.findings) for kind in Severity}
        acknowledged = sorted({finding.rule for finding in self.findings if finding.acknowledged})
        rules = sorted({finding.rule for finding in self.findings})
        return {
            **{"hash": self.hash, **counts, "acknowledged": acknowledged, "rules": rules, "tasks": self.tasks},
            "findings": [finding.brief() for finding in self.findings],
            "skipped": dict(self.skipped),
        }

    def acknowledging(self, rules: Collection[str]) -> Report:
        """The same report with findings of these rules (or of an axis, by its name) acknowledged."""
        findings = tuple(
            replace(finding, acknowledged=finding.rule in rules or finding.axis.value in rules)
            for finding in self.findings
        )
        return replace(self, findings=findings)
