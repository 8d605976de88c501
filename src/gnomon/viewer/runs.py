"""The runs that a viewer shows, and what it caches of them between requests."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from gnomon.doctor.evidence import evidence_of
from gnomon.doctor.run import Diagnosis, diagnose
from gnomon.errors import GnomonError
from gnomon.reading.folders import glance, pass_at_1, run_folders
from gnomon.store import RunReader
from gnomon.viewer.curves import charts
from gnomon.viewer.drawing import spark
from gnomon.viewer.history import History, Steps
from gnomon.viewer.index import Index
from gnomon.viewer.requests import NoRun

__all__ = ["Runs"]

POINTS = 40
"""Points of a sparkline."""


class Runs:
    """Args: places: run folders, and folders that hold run folders."""

    def __init__(self, places: Sequence[Path]) -> None:
        self.places = list(places)
        self.folders = run_folders(self.places)
        self._indexes: dict[Path, Index] = {}
        self._histories: dict[Path, History] = {}
        self._diagnoses: dict[Path, tuple[str, Diagnosis]] = {}
        self._examining = Lock()

    def again(self) -> dict[str, Path]:
        """The folders of the runs by name, listed again."""
        self.folders = run_folders(self.places)
        return self.folders

    def folder(self, name: str) -> Path:
        """The folder of a run. Raises: NoRun."""
        if name not in self.folders:
            self.again()  # A run may have begun since.
        if name not in self.folders:
            near = difflib.get_close_matches(name, self.folders, 5)
            raise NoRun(f"No run named {name!r} is shown here.", {each: f"/run/{quote(each)}/-/" for each in near})
        return self.folders[name]

    def index(self, folder: Path) -> Index:
        """The side index of a run. Raises: RunError."""
        return self._indexes.setdefault(folder, self._indexes.get(folder) or Index(folder))

    def steps(self, folder: Path, reader: RunReader) -> Steps:
        """The finished steps of a run with their metrics."""
        return self._histories.setdefault(folder, History()).steps(reader)

    def charts(self, folder: Path) -> dict[str, Any]:
        """Every curve of a run."""
        with RunReader(folder) as reader, reader.snapshot():
            return charts(reader, self.steps(folder, reader))

    def diagnosis(self, folder: Path) -> Diagnosis:
        """What the doctor finds in what a run recorded. No code that the run names is imported."""
        with self._examining, RunReader(folder) as reader, reader.snapshot():
            head, diagnosis = self._diagnoses.get(folder, ("", None))
            if diagnosis is None or head != f"{reader.fingerprint} {reader.status}":
                diagnosis = diagnose(evidence_of(reader))
                self._diagnoses[folder] = (f"{reader.fingerprint} {reader.status}", diagnosis)
            return diagnosis

    def last_record(self, name: str) -> tuple[float, str]:
        """When the last step of a run ended, in Unix seconds, and its name. Raises: NoRun."""
        return float(glance(name, self.folder(name)).get("at") or 0.0), name

    def rows(self) -> list[dict[str, Any]]:
        """A row of facts about every run, the last one first."""
        rows = [{**glance(name, folder), **curve(folder)} for name, folder in self.again().items()]
        return sorted(rows, key=lambda row: -(row.get("at") or 0.0))


def curve(folder: Path) -> dict[str, Any]:
    """The sparkline of a run: held-out pass@1 where it was measured three times or more, else the reward."""
    try:
        with RunReader(folder) as reader, reader.snapshot():
            rates = [rate["value"] for record in reader.evaluations() if (rate := pass_at_1(record.body))]
            if len(rates) > 2:
                return {"spark": spark(rates, "held-out pass@1")}
            steps = [record.body.get("metrics", {}).get("reward") for record in reader.spread("step", POINTS)]
            return {"spark": spark([value for value in steps if value is not None], "reward")}
    except GnomonError:
        return {"spark": ""}
