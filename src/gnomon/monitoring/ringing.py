"""The alarms of a run while it runs, as an observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gnomon.monitoring.alarms import Alarm, Monitor, alarms
from gnomon.store import EvaluationRecord, RunReader, RunStatus, StepRecord

__all__ = ["Alarms"]


class Alarms:
    """Tells each alarm when it is raised, and notes it beside the chain.

    Args:
        tell: takes a sentence for a person.
        note: keeps an event of the run; takes its kind and body.
    """

    def __init__(
        self, monitor: Monitor, tell: Callable[[str], None], note: Callable[[str, Mapping[str, Any]], None]
    ) -> None:
        self.monitor, self.tell, self.note = monitor, tell, note
        self.run = Path()

    def start(self, manifest: Mapping[str, Any]) -> None:
        """A resumed run does not raise the alarms of the steps before its checkpoint again."""
        self.run = Path(manifest["run"])
        with RunReader(self.run) as reader:
            for _ in alarms(reader, self.monitor, before=manifest["step"]):
                pass

    def step(self, record: StepRecord) -> None:
        for alarm in self.monitor.step(record.step, record.records):
            self.tell(str(alarm))
            if not self._noted(alarm):
                self.note("alarm", alarm.body())

    def evaluation(self, record: EvaluationRecord) -> None: ...

    def finish(self, status: RunStatus) -> None: ...

    def _noted(self, alarm: Alarm) -> bool:
        """Whether the run already holds the alarm: a resumed run repeats steps."""
        with RunReader(self.run) as reader:
            return any((event["name"], event["step"]) == (alarm.name, alarm.step) for event in reader.alarms())
