"""What the doctor found, as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from gnomon.doctor.finding import Finding
from gnomon.doctor.run import Diagnosis
from gnomon.terminal import one_line

__all__ = ["diagnosis_text", "findings_text"]


def diagnosis_text(found: Diagnosis) -> str:
    """The first cause, its consequences, the change on held-out tasks, and where the rollouts went."""
    lines = [f"{one_line(found.run)}   {found.status}, {found.steps} steps, {found.rollouts} rollouts of training read"]
    for place, finding in enumerate(found.findings):
        if place == 1:
            lines.append("found too; the first cause may explain it")
        lines += list(finding_lines(finding, "first cause: " if place == 0 else "", found.run))
    if not found.findings:
        lines.append("nothing wrong was found" if found.rollouts else "nothing to examine: no rollouts of training")
    if change := found.change:
        flat = ", flat" if change.flat else ""
        gain = f"{change.after - change.before:+.3f}, standard error {change.error:.3f}{flat}"
        lines.append(f"held-out pass@1  {change.before:.3f} to {change.after:.3f} ({gain})")
    if found.causes:
        shares = "   ".join(f"{one_line(name)} {share:.0%}" for name, share in found.causes.items())
        lines.append(f"rollouts         {shares}")
    return "\n".join(lines)


def finding_lines(finding: Finding, before: str, run: str = "") -> Iterator[str]:
    """One finding: its name and sentence, rollouts to read, a fix."""
    since = f" (from step {finding.since})" if finding.since else ""
    yield f"{before}{finding.name}{since}"
    yield f"   {one_line(finding.sentence)}"
    if finding.read:
        more = f"   and {', '.join(finding.read[1:])}" if finding.read[1:] else ""
        yield f"   read: gnomon show {shlex.quote(run)} {finding.read[0]}{more}"
    if finding.fix:
        yield f"   fix: {one_line(finding.fix)}"


def findings_text(title: str, found: Sequence[Finding]) -> str:
    """Findings about a machine or a recipe."""
    lines = [line for finding in found for line in finding_lines(finding, "")]
    return "\n".join([title, *(lines or ["nothing wrong was found"])])
