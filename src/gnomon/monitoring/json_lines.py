"""Metrics of a run as lines of JSON, for any program that can follow a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnomon.store import EvaluationRecord, RunStatus, StepRecord

__all__ = ["JsonLines"]


class JsonLines:
    """An observer that appends a line to a file at the start, after every step and evaluation, and at the end.

    A resumed run goes on in the same file. Steps after its checkpoint are written again, and the last line of a step
    counts.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(os.path.expanduser(path))

    def start(self, manifest: Mapping[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._write({"event": "start", **{name: manifest[name] for name in ("run", "uuid", "step", "settings")}})

    def step(self, record: StepRecord) -> None:
        facts = {"step": record.step, "seconds": round(record.seconds, 3), "metrics": record.metrics}
        self._write({"event": "step", **facts})

    def evaluation(self, record: EvaluationRecord) -> None:
        set_name = {"set": record.set} if record.set else {}
        self._write({"event": "evaluation", **set_name, "step": record.step, **record.result})

    def finish(self, status: RunStatus) -> None:
        self._write({"event": "finish", "status": status.value})

    def _write(self, facts: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(facts, default=dict) + "\n")
