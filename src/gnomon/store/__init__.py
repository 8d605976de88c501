"""The run store: one folder per run, with its records and checkpoints."""

from gnomon.store.attempts import Attempt, Source
from gnomon.store.audit import VerifyReport, verify
from gnomon.store.checkpoints import Checkpoint
from gnomon.store.codec import decode, encode, logprobs_of
from gnomon.store.compare import ABSENT, Difference, Parting, diff
from gnomon.store.failpoint import failpoint
from gnomon.store.groups import RecordedGroups
from gnomon.store.layout import FORMAT, Record, RunStatus, canonical
from gnomon.store.observers import EvaluationRecord, Observer, Observers, StepRecord
from gnomon.store.reader import RolloutRow, RunReader
from gnomon.store.unfinished import Recorded
from gnomon.store.writer import Run, require_free

__all__ = [
    "ABSENT",
    "FORMAT",
    "Attempt",
    "Checkpoint",
    "Difference",
    "EvaluationRecord",
    "Observer",
    "Observers",
    "Parting",
    "Record",
    "Recorded",
    "RecordedGroups",
    "RolloutRow",
    "Run",
    "RunReader",
    "RunStatus",
    "Source",
    "StepRecord",
    "VerifyReport",
    "canonical",
    "decode",
    "diff",
    "encode",
    "failpoint",
    "logprobs_of",
    "require_free",
    "verify",
]
