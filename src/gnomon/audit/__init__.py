"""The audit of a verifier: find its exploits and faults before training."""

from gnomon.audit.finding import AXES, Axis, Evidence, Finding, Report, Severity
from gnomon.audit.judging import Judgement
from gnomon.audit.run import audit, preflight
from gnomon.audit.subject import LIMITS, Played, Subject, VerdictLimits, read_tasks, subject_of

__all__ = [
    "AXES",
    "LIMITS",
    "Axis",
    "Evidence",
    "Finding",
    "Judgement",
    "Played",
    "Report",
    "Severity",
    "Subject",
    "VerdictLimits",
    "audit",
    "preflight",
    "read_tasks",
    "subject_of",
]
