"""The metrics of a run's steps, kept in memory between requests."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from gnomon.store import RunReader
from gnomon.store.layout import bodies

__all__ = ["History", "Steps"]

Steps = list[tuple[int, Mapping[str, float]]]
"""Number of each finished step, with its metrics."""


class History:
    """Reads only what the run added since it was last asked. Several threads may ask."""

    def __init__(self) -> None:
        self._lock, self._records, self._head = Lock(), 0, ""
        self._steps: Steps = []

    def steps(self, reader: RunReader) -> Steps:
        """All finished steps, in order."""
        with self._lock:
            if self._head != reader.head(self._records):  # Another chain than before.
                self._records, self._steps = 0, []
            rows = list(reader.rows(self._records, "step"))
            for row, body in zip(rows, bodies(rows), strict=True):
                self._steps.append((row[2] or 0, body["metrics"]))
                self._records = row[0] + 1
            self._head = reader.head(self._records) or ""
            return list(self._steps)
