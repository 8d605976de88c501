"""A running batch that several threads decode, each some of the rows."""

from __future__ import annotations

from gnomon.engines.decoder import Decoder
from gnomon.models.policy import Policy
from gnomon.models.threads import Threads
from gnomon.types import Completion, Request

__all__ = ["Lanes"]

AHEAD = 16
"""Rows that a lane may have more than another before rows of its prompts join the other one too."""


class Lanes:
    """Decodes with one policy in several threads, one token of every row at a time.

    A row joins the lane where its prompt is already, as long as that is not much fuller than the others. A
    completion depends on its request and the weights alone, so the lanes change no bit.
    """

    def __init__(self, policy: Policy, threads: Threads) -> None:
        self._threads, self._lanes = threads, [Decoder(policy) for _ in range(threads.count)]
        self._of: dict[tuple[int, ...], int] = {}
        """The lane that the last row of a prompt has joined."""
        self.rows: dict[int, tuple[int, int]] = {}
        """The lane of every row and its number there, by the number that `admit` gave."""
        self._numbers: dict[tuple[int, int], int] = {}
        """The inverse of `rows`."""
        self._admitted = 0

    def admit(self, request: Request, version: int = 0) -> int:
        """As `Decoder.admit`."""
        sizes = [len(decoder.rows) for decoder in self._lanes]
        emptiest = sizes.index(min(sizes))
        lane = self._of.get(request.prompt_ids, emptiest)
        if sizes[lane] - sizes[emptiest] >= AHEAD:
            lane = emptiest
        self._of[request.prompt_ids] = lane
        number, self._admitted = self._admitted, self._admitted + 1
        self.rows[number] = lane, self._lanes[lane].admit(request, version)
        self._numbers[self.rows[number]] = number
        return number

    def renew(self, version: int) -> None:
        """As `Decoder.renew`."""
        for decoder in self._lanes:
            decoder.renew(version)

    def drop(self, number: int) -> None:
        """As `Decoder.drop`."""
        if number in self.rows:
            lane, own = self.rows.pop(number)
            del self._numbers[lane, own]
            self._lanes[lane].drop(own)

    def step(self) -> list[tuple[int, Completion]]:
        """As `Decoder.step`. Every lane takes its step before any row can join."""
        busy = [lane for lane, decoder in enumerate(self._lanes) if decoder.rows]
        ended = []
        steps = self._threads.results(lambda lane: self._lanes[lane].step(), busy)
        for lane, completions in zip(busy, steps, strict=True):
            for own, completion in completions:
                number = self._numbers.pop((lane, own))
                del self.rows[number]
                ended.append((number, completion))
        return ended
