"""The folder of a study: its file as registered, the runs, and what came out."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from gnomon.comparison.measures import Measure
from gnomon.errors import RunError
from gnomon.store import RunReader, RunStatus, verify
from gnomon.store.layout import JOURNAL
from gnomon_lab.studies.design import Study, load, sha256
from gnomon_lab.studies.moves import LIBRARY, is_registered, registered_sha256

__all__ = ["Cell", "StudyFolder"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm with one seed."""

    arm: str
    seed: int
    rate: float | None = None
    """The learning rate that is tried; None for a run that decides the study."""

    def __str__(self) -> str:
        return f"{self.arm}/{self.seed}" if self.rate is None else f"{self.arm} at {self.rate:g}/{self.seed}"

    @property
    def stem(self) -> str:
        """Of the names of its files."""
        return f"{self.arm}-{self.seed}" if self.rate is None else f"{self.arm}-{self.rate:g}-{self.seed}"


class StudyFolder:
    """Reads and writes one folder.

    Raises: RunError E425 for a folder that is not a study's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.file, self.registration = folder, folder / "study.py", folder / "registered.json"
        if not self.registration.exists():
            fix = "gnomon study FILE --folder FOLDER"
            raise RunError("E425", "the folder holds no study", where=str(folder), fix=fix)

    @classmethod
    def register(cls, folder: Path, source: Path) -> StudyFolder:
        """The folder of a study. The first call copies the study's file into it, and notes its SHA-256 and the time.

        Raises: RunError E426 where the file has changed since.
        """
        registration = folder / "registered.json"
        if not registration.exists():
            load(source)  # Its mistakes are reported before anything is written.
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / "study.py")
            sha = registered_sha256(source) if source.parent == LIBRARY else sha256(source)
            registered = {"sha256": sha, "at": time.time()}
            write_whole(registration, json.dumps(registered, indent=2) + "\n")
        found = cls(folder)
        found.require_unchanged(source)
        return found

    @cached_property
    def study(self) -> Study:
        """Raises: RunError E426 where the file is not the one that was registered."""
        self.require_unchanged()
        return load(self.file)

    @property
    def hash(self) -> str:
        """SHA-256 of the file as registered."""
        return str(json.loads(self.registration.read_text("utf-8"))["sha256"])

    def require_unchanged(self, source: Path | None = None) -> None:
        """Raises: RunError E426, where the folder's file, or `source`, is not the one that was registered."""
        for path in filter(None, (self.file, source)):
            if not path.is_file() or not is_registered(path, self.hash):
                raise RunError(
                    "E426",
                    "the study has changed since it was registered",
                    where=str(path),
                    why="its question, pass line and prediction are those from before the first run",
                    fix=f"gnomon study {shlex.quote(str(path))} --folder a new one",
                )

    def run(self, cell: Cell) -> Path:
        """The folder of a run."""
        if cell.rate is not None:
            return self.folder / "rates" / cell.arm / f"{cell.rate:g}" / str(cell.seed)
        return self.folder / "runs" / cell.arm / str(cell.seed)

    def numbers(self, cell: Cell) -> Path:
        """What the function of an arm returned, with the SHA-256 of the study."""
        return self.folder / "numbers" / f"{cell.stem}.json"

    def arm_folder(self, cell: Cell) -> Path:
        """The folder that the function of an arm may fill."""
        return self.folder / "kept" / cell.arm / str(cell.seed)

    def crash(self, cell: Cell) -> Path:
        """Why a run ended without a result, below a line with the SHA-256 of the study."""
        return self.folder / "crashes" / f"{cell.stem}.txt"

    def log(self, cell: Cell) -> Path:
        """What a run printed."""
        return self.folder / "logs" / f"{cell.stem}.txt"

    def done(self, cell: Cell) -> bool:
        """Whether there is nothing left to run."""
        if self.crash(cell).exists() or self.numbers(cell).exists():
            return True
        if not (self.run(cell) / JOURNAL).exists():
            return False
        with RunReader(self.run(cell)) as reader:
            return reader.status is RunStatus.FINISHED

    def measures_of(self, cell: Cell) -> dict[str, float] | None:
        """Every measure; None for a run that crashed.

        Raises: RunError E430 for numbers of another study, and what a measure raises.
        """
        if self.numbers(cell).exists():
            self.require_own(self.numbers(cell))
            return dict(json.loads(self.numbers(cell).read_text("utf-8"))["numbers"])
        if self.crash(cell).exists():
            self.require_own(self.crash(cell))
            return None
        return {name: self.read(cell, measure) for name, measure in self.study.measures.items()}

    def read(self, cell: Cell, measure: Measure) -> float:
        """One measure of a run. Raises: what the measure raises."""
        with RunReader(self.run(cell)) as reader:
            return float(measure(reader))

    def write_numbers(self, cell: Cell, numbers: Mapping[str, float]) -> None:
        """Record what the function of an arm returned."""
        text = json.dumps({"study": self.hash, "numbers": dict(numbers)}, indent=2, sort_keys=True)
        write_whole(self.numbers(cell), text + "\n")

    def write_crash(self, cell: Cell, text: str) -> None:
        """Record why a run ended without a result."""
        write_whole(self.crash(cell), f"study {self.hash}\n{text}\n")

    def require_own(self, path: Path) -> None:
        """Raises: RunError E430, where numbers or a crash were not recorded by the study as it is registered."""
        if (found := study_of(path)) != self.hash:
            raise RunError(
                "E430",
                f"{path.name} was not recorded by the study as it is registered",
                where=str(path),
                why=f"it holds the SHA-256 {found or '(none)'}, and the registered file has {self.hash}",
                fix=f"rm {shlex.quote(str(path))}, then the same `gnomon study` again",
            )

    def problems(self) -> Iterator[RunError]:
        """What was changed after the fact, in the registered file, the runs, or the result."""
        own = sorted([*self.folder.glob("numbers/*.json"), *self.folder.glob("crashes/*.txt")])
        requirements: list[Callable[[], None]] = [self.require_unchanged, *(partial(self.require_own, p) for p in own)]
        for require in requirements:
            try:
                require()
            except RunError as error:
                yield error
        for run in sorted([*(self.folder / "runs").glob("*/*/"), *(self.folder / "rates").glob("*/*/*/")]):
            yield from verify(run).problems
            with RunReader(run) as reader:
                if reader.genesis.get("study") != self.hash:
                    yield RunError(
                        "E426",
                        "the run was not started by the study as it is registered",
                        where=str(run),
                        why=f"its first record holds the SHA-256 {reader.genesis.get('study', '(none)')}",
                    )

    @property
    def result(self) -> dict[str, Any] | None:
        """What came out; None before the end."""
        path = self.folder / "result.json"
        return dict(json.loads(path.read_text("utf-8"))) if path.exists() else None


def study_of(path: Path) -> str:
    """The SHA-256 of the study in a file of numbers or of a crash; empty where there is none."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return text.partition("\n")[0].removeprefix("study ") if text.startswith("study ") else ""
    try:
        found = json.loads(text)
    except ValueError:
        return ""
    return str(found.get("study", "")) if isinstance(found, dict) else ""


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there as a whole or not at all, since a study may be killed while it writes."""
    part = path.with_suffix(".part")
    part.write_text(text, "utf-8")
    part.rename(path)
