"""What the doctor found, as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from gnomon.doctor.finding import Finding
from gnomon.doctor.run import SMALL, Change, Diagnosis
from gnomon.terminal import one_line

__all__ = ["diagnosis_text", "findings_text"]


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """The first cause, its consequences, the change on held-out tasks, and the rollouts by cause."""
    size = f"{diagnosis.steps} steps, {diagnosis.rollouts} training rollouts read"
    lines = [f"{one_line(diagnosis.run)}   {diagnosis.status}, {size}"]
    for i, finding in enumerate(diagnosis.findings):
        if i == 1:
            lines.append("further findings, which the first cause may explain:")
        lines += list(finding_lines(finding, "first cause: " if i == 0 else "", diagnosis.run))
    if not diagnosis.findings:
        lines.append(without_findings(diagnosis))
    if change := diagnosis.change:
        gain = f"{change.gain:+.3f}, standard error {change.error:.3f}{', flat' if change.flat else ''}"
        lines.append(f"held-out pass@1  {change.before:.3f} to {change.after:.3f} ({gain})")
        if change.flat:
            lines.append(f"to find out      {to_tell(change)}")
    if diagnosis.causes:
        shares = "   ".join(f"{one_line(name)} {share:.0%}" for name, share in diagnosis.causes.items())
        lines.append(f"rollouts         {shares}")
    if diagnosis.failures is not None:
        lines += [f"{'' if i else 'failures':<16} {line}" for i, line in enumerate(diagnosis.failures.sentences)]
    return "\n".join(lines)


def without_findings(diagnosis: Diagnosis) -> str:
    if not diagnosis.rollouts:
        return "there is nothing to examine: the run has no training rollouts"
    if diagnosis.change is None:
        return "nothing wrong was found; whether the policy improves is unknown without two evaluations (eval.every)"
    if diagnosis.change.flat:
        return "nothing wrong was found; it is too early to tell whether the policy improves"
    return "nothing wrong was found, and the policy improves"


def to_tell(change: Change) -> str:
    """How many tasks or steps would show whether a flat curve rises."""
    if not change.error:
        return (
            f"every held-out task has the same result as before training: use other tasks, or more than {change.tasks}"
        )
    gain = change.gain if change.gain > SMALL else SMALL
    more = f"about {change.tasks_to_tell} held-out tasks (eval.tasks) would show a gain of {gain:.3f}"
    if change.steps_to_tell is None:
        return more
    return f"{more}; about {change.steps_to_tell} steps in total would show it if it keeps growing at this rate"


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


def findings_text(title: str, findings: Sequence[Finding]) -> str:
    """Findings about a machine or a recipe."""
    lines = [line for finding in findings for line in finding_lines(finding, "")]
    return "\n".join([title, *(lines or ["nothing wrong was found"])])
