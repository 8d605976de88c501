"""The audit finds what was planted, where it was planted, and stops no run over what is sound."""

from __future__ import annotations

import pytest

from audit.planted.table import PLANTED, SOUND, UNREACHABLE
from gnomon.audit import Report, Severity, subject_of
from gnomon.audit.run import audit
from gnomon.audit.text import report_text
from gnomon.envs import ENVS
from gnomon.envs.offers import isolation

TASKS = 60
"""Enough for every axis to have two tasks with different answers, and few enough to be quick."""
SANDBOXED = 8
"""The same, where a verdict takes a hundred times as long."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted_defect_is_found(name):
    kind, axes = PLANTED[name]
    # The judge's own failures are read off what the other axes asked.
    asked = {*axes, "exploit", "availability"} if "failure" in axes else {*axes}
    report = audit(subject_of(kind(), count=SANDBOXED if isolation(kind()) else TASKS), axes=tuple(asked))
    found = [finding for finding in report.findings if finding.axis in axes and finding.severity is not Severity.NOTE]
    assert found, f"{name}: {[finding.rule for finding in report.findings]}, skipped {dict(report.skipped)}"


@pytest.mark.parametrize("name", UNREACHABLE)
def test_a_fault_that_no_policy_reaches_is_a_note(name):
    kind, rule = UNREACHABLE[name]
    report = audit(subject_of(kind(), count=TASKS), axes=("availability", "failure"))
    found = {finding.rule: finding for finding in report.findings}
    assert report.passed and found[rule].severity is Severity.NOTE


@pytest.mark.parametrize("name", SOUND)
def test_sound_verifier_is_not_stopped(name):
    sound = SOUND[name]()
    report = audit(subject_of(sound, count=SANDBOXED if isolation(sound) else TASKS))
    assert not report.blocking, [(finding.rule, finding.what) for finding in report.blocking]
    if name in ENVS:
        ships(report)


def ships(report: Report) -> None:
    assert report.passed and not any(f.severity is Severity.WARNING for f in report.findings), report_text(report)
    assert {f.rule for f in report.findings} <= {
        "exploit.format_paid",  # A tenth for an answer that can be read: a setting, `format`.
        "sentinels.parts_pay",
        "correctness.case_ignored",  # Scramble takes capital letters.
    }
    if "exploit" in report.skipped:  # A game of several players: one reply would play against itself.
        return
    if report.subject != "Maze":  # Its tasks have no answer.
        assert report.tables["errors"]["right answers refused"]["value"] == 0
    assert report.tables["card"]["agreement on hostile texts"] == 1
    assert len(report.tables["lazy"]) > 20 and "isomorphic" in str(report.skipped)


def test_there_is_enough_of_both():
    assert len({kind for kind, _ in PLANTED.values()}) == len(PLANTED) >= 30
    assert len(SOUND) >= 10
