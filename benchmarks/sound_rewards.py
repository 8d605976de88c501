"""How the audit judges rewards of other libraries: sound ones that pass, planted faults that it finds, and its time.

    python benchmarks/sound_rewards.py            # every axis, some 25 tasks a reward
    python benchmarks/sound_rewards.py gsm8k      # those with the word in their name

The rewards stand in tests/audit/sound_rewards.py and tests/audit/planted/foreign.py. Seconds are those of the clock and
grow with the load.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from audit.planted.foreign import FOREIGN
from audit.sound_rewards import SOUND_REWARDS
from gnomon.audit import Report, Severity, audit, subject_of

TASKS = 24


def row(name: str, report: Report, good: bool) -> str:
    warnings = sum(finding.severity is Severity.WARNING for finding in report.findings)
    blocking = ", ".join(finding.rule for finding in report.blocking)
    return (
        f"{'as it should' if good else 'WRONG':<13} {report.seconds:6.1f} s  {warnings:>2} warnings  {name}  {blocking}"
    )


def main(words: list[str]) -> int:
    passed, found, seconds = list[bool](), list[bool](), 0.0
    for name, (make, tasks) in SOUND_REWARDS.items():
        if not words or any(word in name for word in words):
            report = audit(subject_of(make(), tasks(TASKS), name=name))
            passed.append(report.passed)
            seconds += report.seconds
            print(row(name, report, report.passed), flush=True)
    for name, (make, tasks, rule) in FOREIGN.items():
        if not words or any(word in name for word in words):
            report = audit(subject_of(make(), tasks(TASKS), name=name))
            found.append(rule in {finding.rule for finding in report.blocking})
            seconds += report.seconds
            print(row(name, report, found[-1]), flush=True)
    print(f"sound rewards passed: {sum(passed)} of {len(passed)}; planted faults found: {sum(found)} of {len(found)}")
    print(f"{seconds / max(1, len(passed) + len(found)):.1f} s an audit")
    return 0 if all(passed) and all(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
