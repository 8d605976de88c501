"""A report as text, the most severe finding first, each with what, where, why and a fix; and as SARIF 2.1.0, which code
hosts and editors display."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gnomon.audit.finding import Finding, Report, Severity

__all__ = ["report_text", "sarif"]

POLICIES = 5
"""Number of lazy policies that are shown; `--json` has all."""


def report_text(report: Report) -> str:
    paragraphs = [line for finding in report.findings for line in paragraph(finding)]
    return "\n".join([headline(report), *paragraphs, *repair_text(report), *tables(report)])


def headline(report: Report) -> str:
    acknowledged = sum(finding.acknowledged for finding in report.findings)
    counts = [
        (sum(f.severity is kind and not f.acknowledged for f in report.findings), kind.value) for kind in Severity
    ]
    summary = ", ".join(f"{count} {kind}" for count, kind in counts)
    summary += f", {acknowledged} acknowledged" if acknowledged else ""
    return f"audit {report.subject}: {summary} · {report.tasks} tasks, seed {report.seed}, {report.seconds:.1f} s"


def paragraph(finding: Finding) -> Iterator[str]:
    mark = "acknowledged" if finding.acknowledged else finding.severity.value
    if finding.severity is Severity.NOTE:
        yield f"{mark}  {finding.rule}  {finding.what}"
        return
    yield f"\n{mark.upper() if finding.blocks else mark}  {finding.rule}  {finding.what}"
    if finding.where:
        yield f"   at {finding.where}"
    if finding.evidence.task:
        yield f"   task {finding.evidence.task}, seen in {finding.count} call{'s' if finding.count > 1 else ''}"
    if finding.why:
        yield f"   why: {finding.why}"
    if finding.fix:
        yield f"   fix: {finding.fix}"


def repair_text(report: Report) -> Iterator[str]:
    """The proposed reward, if there is one."""
    if report.repair:
        yield "\na reward for these tasks without these faults:\n"
        yield from (f"    {line}".rstrip() for line in report.repair.splitlines())
        yield ""


def tables(report: Report) -> Iterator[str]:
    tables = report.tables
    for name, rate in tables.get("errors", {}).items():
        if isinstance(rate, Mapping):
            low, high = rate["low"], rate["high"]
            yield f"{name:<26} {rate['value']:.3f}  95 % [{low:.3f}, {high:.3f}]  of {rate['n']}"
    if rows := tables.get("lazy"):
        yield f"lazy policies (a correct answer gets {tables['least reward of a right answer']:g}):"
        yield from (
            f"   {row['reward']:6.3f}  correct {row['correct']:6.1%}  {row['policy']}" for row in rows[:POLICIES]
        )
    if card := tables.get("card"):
        yield f"card: {card_text(card)}"
    yield from (f"not tried: {what}: {why}" for what, why in report.skipped.items())


def card_text(card: Mapping[str, Any]) -> str:
    median, slowest = card["milliseconds per verdict, median"], card["milliseconds per verdict, slowest of 100"]
    cost = "cost unknown" if median is None else f"{median:.3g} ms per verdict (slowest of 100: {slowest:.3g} ms)"
    return (
        f"{cost}, "
        f"{card['agreement on hostile texts']:.1%} of hostile texts rejected, "
        f"{card['share of rewards between lowest and highest']:.1%} of rewards are partial{solving_text(card)}"
    )


def solving_text(card: Mapping[str, Any]) -> str:
    """What a right reply of a policy costs, if that was measured."""
    if "policy" not in card:
        return ""
    of = f"of {card['policy']} ({card['right replies']} of {card['replies']} are right)"
    if card["seconds per right reply"] is None:
        return f"; no reply {of}"
    ratio = card["solve-to-verify ratio"]
    verdicts = "" if ratio is None else f", as much as {ratio:.3g} verdicts"
    return f"; a right reply {of} takes {1000 * card['seconds per right reply']:.3g} ms of sampling{verdicts}"


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVEL = {Severity.BLOCKING: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif(report: Report) -> dict[str, Any]:
    """One run with a rule for every rule found, and a result for every finding."""
    rules = sorted({finding.rule for finding in report.findings})
    driver = {
        "name": "gnomon audit",
        "version": version("gnomon"),
        "rules": [{"id": rule, "shortDescription": {"text": describe(report, rule)}} for rule in rules],
    }
    results = [result(finding, rules.index(finding.rule), report.source) for finding in report.findings]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def describe(report: Report, rule: str) -> str:
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
