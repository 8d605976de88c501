"""The memory of a run: one folder that can be predicted, replayed, read and trusted."""

from gnomon.store.attempts import Attempt, Source
from gnomon.store.audit import VerifyReport, verify
from gnomon.store.checkpoints import Checkpoint
from gnomon.store.compare import ABSENT, Difference, Parting, diff
from gnomon.store.failpoint import failpoint
from gnomon.store.layout import FORMAT, Record, RunStatus, canonical
from gnomon.store.reader import RolloutRow, RunReader
from gnomon.store.writer import Run, require_free

__all__ = [
    "ABSENT",
    "FORMAT",
    "Attempt",
    "Checkpoint",
    "Difference",
    "Parting",
    "Record",
    "RolloutRow",
    "Run",
    "RunReader",
    "RunStatus",
    "Source",
    "VerifyReport",
    "canonical",
    "diff",
    "failpoint",
    "require_free",
    "verify",
]
