"""What passes through the process of a run: messages, calls that wait, and processor time of others."""

from __future__ import annotations

from collections.abc import Callable

from gnomon_lab.simulation.gauge import Gauge
from gnomon_lab.simulation.stopwatch import Stopwatch

__all__ = ["Head"]


class Head:
    """Args: now: virtual seconds; aside: counts what is computed in the place of other machines."""

    def __init__(self, now: Callable[[], float], aside: Stopwatch | None = None) -> None:
        self.sent = 0
        """Requests or episodes that were sent, also those that were sent again."""
        self.answers = 0
        """Those that came back."""
        self.failed = 0
        """Those whose process died before it answered, each of which is reported."""
        self.weights = 0
        """How often weights were handed to a process."""
        self.watch = 0
        """Starts of processes, questions whether they are alive, and the answers to both."""
        self.queue = Gauge(now)
        """Requests that wait for a row, or episodes that wait for a sampler."""
        self.aside = aside or Stopwatch()

    @property
    def messages(self) -> int:
        """All that were sent and received."""
        return self.sent + self.answers + self.failed + self.weights + self.watch
