"""A report as SARIF 2.1.0, which code hosts and editors display."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gnomon.audit.finding import Finding, Report, Severity

__all__ = ["sarif"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVEL = {Severity.BLOCKING: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif(report: Report) -> dict[str, Any]:
    """One run with a rule for every rule found, and a result for every finding."""
    rules = sorted({finding.rule for finding in report.findings})
    driver = {
        "name": "gnomon audit",
        "version": version("gnomon"),
        "rules": [{"id": rule, "shortDescription": {"text": described(report, rule)}} for rule in rules],
    }
    results = [result(finding, rules.index(finding.rule), report.source) for finding in report.findings]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def described(report: Report, rule: str) -> str:
    why = next((finding.why for finding in report.findings if finding.rule == rule), "")
    return why or rule


def result(finding: Finding, index: int, source: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": LEVEL[finding.severity],
        "message": {"text": finding.what + (f" Fix: {finding.fix}" if finding.fix else "")},
        "properties": {"axis": finding.axis.value, "task": finding.evidence.task, "calls": finding.count},
    }
    if places := location(finding.where, source):
        entry["locations"] = [places]
    if finding.acknowledged:
        entry["suppressions"] = [{"kind": "external", "justification": "acknowledged by name"}]
    return entry


def location(where: str, source: str) -> dict[str, Any] | None:
    """The place of a finding in a file; else the file of the subject, if it has one."""
    if match := re.match(r"(.+\.py):(\d+)", where):
        uri, line = match[1], int(match[2])
    elif ".py:" in source:
        uri, line = source.rpartition(":")[0], 1
    else:
        return None
    path = Path(uri)
    uri = path.as_uri() if path.is_absolute() else path.as_posix()
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}
