"""Decoding with a model's own cache: rows that begin together stay together, in a batch of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from gnomon.engines.decoder import Row, next_tokens
from gnomon.engines.endings import Endings
from gnomon.engines.noise import Noise
from gnomon.models.cached import Caching, Running, caching_of
from gnomon.models.policy import Policy
from gnomon.types import Completion, Request

__all__ = ["Cohorts"]


class Cohorts:
    """Decodes with one policy, one token of every row at a time, by transformers' own forward.

    A row that joins begins at the next step if nothing is decoded, or if as many rows wait as are decoded; so there are
    few batches, and no row waits for long. Every draw is keyed, so a completion depends on its request and on the
    weights, up to rounding.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.rows: dict[int, Row] = {}
        """By the number that `admit` gave."""
        self._waiting: list[int] = []
        self._cohorts: list[tuple[Running, list[int | None]]] = []
        """What is decoded together, and the number of every row; None for one that has ended."""
        self._admitted, self._endings = 0, Endings(policy.tokenizer)
        self._caching = caching_of(policy)

    def admit(self, request: Request, version: int = 0) -> int:
        """A row for a request. Args: version: of the policy's weights. Returns: the row's number."""
        number, self._admitted = self._admitted, self._admitted + 1
        self.rows[number] = Row(request, version, Noise(request.key, self.policy.vocabulary))
        self._waiting.append(number)
        return number

    def renew(self, version: int) -> None:
        """The policy has other weights from now on. Rows go on with the keys and values that they have."""
        for row in self.rows.values():
            row.renew(version)

    def drop(self, number: int) -> None:
        """Nobody waits for this row any more; it leaves after the next step."""
        self.rows.pop(number, None)

    @torch.inference_mode()
    def step(self) -> list[tuple[int, Completion]]:
        """Sample a token of every row that has begun. Returns: the rows that ended by it, by number."""
        self._waiting = [number for number in self._waiting if number in self.rows]
        if 2 * len(self._waiting) >= len(self.rows):
            self._cohorts += self._begin()
            self._waiting = []
        ended: list[tuple[int, Completion]] = []
        for index, (running, numbers) in enumerate(self._cohorts):
            tokens = self._sample(running, numbers, ended)
            remaining = running.grow(tokens)
            self._cohorts[index] = running, [numbers[row] if tokens[row] is not None else None for row in remaining]
        self._cohorts = [cohort for cohort in self._cohorts if any(number is not None for number in cohort[1])]
        return ended

    def _begin(self) -> Iterator[tuple[Running, list[int | None]]]:
        """The rows that wait, in batches that the model can decode."""
        apart: dict[int, list[int | None]] = {}
        for number in self._waiting:
            length = len(self.rows[number].request.prompt_ids)
            apart.setdefault(length if self._caching is Caching.EQUAL else 0, []).append(number)
        for numbers in apart.values():
            prompts = [self.rows[number].request.prompt_ids for number in numbers if number is not None]
            yield Running(self.policy, prompts, self._caching), numbers

    def _sample(
        self, running: Running, numbers: Sequence[int | None], ended: list[tuple[int, Completion]]
    ) -> list[int | None]:
        """The next token of every row; None where a row has ended."""
        live = [(index, number) for index, number in enumerate(numbers) if number in self.rows]
        tokens: list[int | None] = [None] * len(numbers)
        if not live:
            return tokens
        logits = self.policy.logits(running.hidden())
        rows = [self.rows[number] for _, number in live if number is not None]
        draws = next_tokens(logits, [index for index, _ in live], rows)
        for (index, number), row, draw in zip(live, rows, draws, strict=True):
            assert number is not None
            row.grow(*draw)
            if (finish := self._endings.finish(row.ids, row.request.sampling)) is None:
                tokens[index] = row.ids[-1]
            else:
                ended.append((number, self.rows.pop(number).completion(finish, self.policy.tokenizer)))
        return tokens
