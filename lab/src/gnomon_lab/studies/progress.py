"""What is done of a study while it runs, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from gnomon.errors import RunError
from gnomon.reading.lines import say
from gnomon.store import RunReader
from gnomon.store.layout import JOURNAL
from gnomon_lab.studies.folder import Cell, StudyFolder

__all__ = ["Progress", "duration"]

QUIET = 10.0
"""Seconds between two lines about steps."""


class Progress:
    """Says when a run has ended, and between these lines how many steps the runs have made."""

    def __init__(self, folder: StudyFolder, cells: Sequence[Cell]) -> None:
        self.folder, self.cells = folder, cells
        self.left = {cell: 1 - self.share(cell) for cell in cells if not folder.done(cell)}
        self.all, self.began, self.said = sum(self.left.values()), monotonic(), -QUIET

    def on_end(self, cell: Cell, seconds: float) -> None:
        """A run that has ended."""
        self.left.pop(cell, None)
        how = "crashed" if self.folder.crash(cell).exists() else "done"
        say(f"{len(self.cells) - len(self.left)}/{len(self.cells)} {cell} {how} in {seconds:.0f} s{self.rest()}")
        self.said = monotonic()

    def running(self, cells: Sequence[Cell]) -> None:
        """Called each second with the runs in progress."""
        shares = {cell: self.share(cell) for cell in cells}
        if monotonic() - self.said < QUIET or all(1 - share == self.left.get(cell) for cell, share in shares.items()):
            return
        self.left |= {cell: 1 - share for cell, share in shares.items()}
        say(", ".join(f"{cell} {100 * share:.0f} %" for cell, share in shares.items()) + self.rest())
        self.said = monotonic()

    def rest(self) -> str:
        """How long the rest may take, at the speed since the start."""
        left = sum(self.left.values())
        if not 0 < left < self.all:
            return ""
        return f", about {duration((monotonic() - self.began) * left / (self.all - left))} left"

    def share(self, cell: Cell) -> float:
        """The share of a run's steps that are done; 0 for a function, which does not tell."""
        if not (self.folder.run(cell) / JOURNAL).exists():
            return 0.0
        try:
            with RunReader(self.folder.run(cell)) as reader:
                return reader.steps / int(reader.genesis["config"]["budget"]["steps"])
        except (RunError, StopIteration):  # The run is writing its first record.
            return 0.0


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
