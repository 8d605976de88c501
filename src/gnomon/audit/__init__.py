"""The audit of a verifier: what a policy that is paid by it will find, found before it is paid."""

from gnomon.audit.finding import AXES, Axis, Evidence, Finding, Report, Severity
from gnomon.audit.judging import Ruling
from gnomon.audit.run import audit, preflight
from gnomon.audit.subject import Played, Subject, read_tasks, subject_of

__all__ = [
    "AXES",
    "Axis",
    "Evidence",
    "Finding",
    "Played",
    "Report",
    "Ruling",
    "Severity",
    "Subject",
    "audit",
    "preflight",
    "read_tasks",
    "subject_of",
]
