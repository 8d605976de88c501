"""Signs of life: a process that is stopped or hung gives none, whatever it was doing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from threading import Thread

__all__ = ["Pulse", "give_signs"]


class Pulse:
    """Asks processes for signs of life.

    Args: channels: to each process, which called `give_signs`; limit: seconds without a sign after which one hangs.
    """

    def __init__(self, channels: Sequence[Connection], limit: float) -> None:
        self.limit = limit
        self._channels = list(channels)
        self._silent: dict[int, float] = {}
        """Seconds since those were asked that have not answered."""

    def hung(self, places: Iterable[int], seconds: float, least: float = 0.0) -> int | None:
        """One of these processes that has been silent for too long.

        Args: seconds: that this process has waited since the last call. Time in which it was stopped itself does not
            count; least: seconds of silence that are allowed even if the limit is lower.
        Raises: EOFError, OSError where a process has ended.
        """
        for rank in places:
            channel = self._channels[rank]
            if rank in self._silent and channel.poll():
                channel.recv_bytes()
                del self._silent[rank]
            if rank not in self._silent:
                channel.send_bytes(b"?")
                self._silent[rank] = 0.0
                continue
            self._silent[rank] += seconds
            if self._silent[rank] > max(self.limit, least):
                return rank
        return None

    def close(self) -> None:
        for channel in self._channels:
            channel.close()
        self._channels = []


def give_signs(channel: Connection) -> None:
    """Answer a `Pulse` from a thread of its own, until the channel closes."""

    def answering() -> None:
        try:
            while True:
                channel.send_bytes(channel.recv_bytes())
        except (EOFError, OSError):
            return

    Thread(target=answering, name="gnomon-pulse", daemon=True).start()
