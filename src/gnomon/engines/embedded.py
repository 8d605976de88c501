"""An engine inside this process, for any causal LM of transformers: one decode loop over flat tokens."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.engines.base import Tier
from gnomon.engines.cohorts import Cohorts
from gnomon.engines.decoder import Decoder
from gnomon.engines.lanes import Lanes
from gnomon.engines.receipt import Receipts
from gnomon.errors import NumericsError
from gnomon.models.cached import Caching, caching_of
from gnomon.models.policy import Policy
from gnomon.models.scoring import score
from gnomon.models.threads import Threads
from gnomon.models.weights import PROBE, WeightsRef, require_loadable
from gnomon.stats import Stats
from gnomon.types import Completion, Request, Sampling

__all__ = ["Embedded"]

ROWS = 512
"""Most rows decoded together."""
LONG = 376
"""Tokens of the long prompt that an engine is measured with; its completions cross a multiple of `SPAN`."""
GLANCE = 8
"""Longest completion of the first comparison, which may already show that the engine is not exact."""
JOINING = 4
"""Requests that join before each token while an engine is measured."""

GROUPING = {
    Caching.PADDED: "",
    Caching.EQUAL: "Sampling: only prompts of equal lengths are decoded together, because padding changes the model.",
    Caching.NONE: "Sampling: the model has no cache that continues a text, so each token is computed from all before.",
}
"""How a model decodes by its own forward, for the reader of a run."""

Answer = asyncio.Future[Completion]
Batch = Decoder | Lanes | Cohorts


class Embedded:
    """Samples with a policy of its own. `tier` is exact until `compare_with_learner` says otherwise, before a run.

    Requests that wait are gathered between two tokens and join the batch that is running; the event loop goes on there
    too. A completion depends on its request and on the weights alone, whatever arrives when.

    Args:
        rounding: weights are rounded to this dtype after each load, and computed with in their own.
        bound: largest difference of the probe's log-probabilities after a load, where the engine is not exact.
        rounds: whether it computes in a coarser dtype than the learner.
        threads: that decode on a CPU, each some of the rows.

    Weights are loaded while nothing is decoded, unless `in_flight` is set: then the batch that is running goes on with
    the new weights from its next token on, and keeps the keys and values of the tokens before.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        rounding: torch.dtype | None = None,
        bound: float = 1e-3,
        rounds: bool = False,
        threads: int = 1,
    ) -> None:
        self.policy, self.version, self.tier = policy, 0, Tier.EXACT
        self.rounding, self.bound, self.in_flight = rounding, bound, False
        if rounding:
            policy.round(rounding)
        self._receipts, self._threads = Receipts(rounds=rounds), Threads(threads)
        self._waiting: deque[tuple[Request, Answer]] = deque()
        self._answers: dict[int, Answer] = {}
        """Of the rows that are being decoded, by number."""
        self._decoding: asyncio.Task[None] | None = None
        self._decoder: Batch | None = None
        """Of the batch that is running."""

    async def sample(self, request: Request) -> Completion:
        loop = asyncio.get_running_loop()
        answer: Answer = loop.create_future()
        self._waiting.append((request, answer))
        if self._decoding is None or self._decoding.done():
            self._decoding = loop.create_task(self._decode())
        return await answer

    async def _decode(self) -> None:
        """Decode until nobody waits."""
        decoder = self._decoder = decoder_of(self.policy, self._threads)
        answers = self._answers
        try:
            while self._waiting or answers:
                while self._waiting and len(answers) < ROWS:
                    request, answer = self._waiting.popleft()
                    if not answer.cancelled():
                        answers[decoder.admit(request, self.version)] = answer
                for number, completion in decoder.step():
                    if not (answer := answers.pop(number)).done():
                        answer.set_result(completion)
                await asyncio.sleep(0)
                for number in [number for number, answer in answers.items() if answer.cancelled()]:
                    decoder.drop(number)
                    del answers[number]
        except Exception as error:  # Whoever waits is told, and whoever asks next begins anew.
            for answer in self._take_waiting():
                answer.set_exception(error)
        finally:
            self._decoder = None
            for answer in self._take_waiting():
                answer.cancel()

    def _take_waiting(self) -> list[Answer]:
        """Take away all that wait."""
        answers = [*self._answers.values(), *(answer for _, answer in self._waiting)]
        self._waiting.clear()
        self._answers.clear()
        return [answer for answer in answers if not answer.done()]

    def load(self, weights: WeightsRef) -> None:
        waiting = [*self._answers.values(), *(answer for _, answer in self._waiting)]
        if not self.in_flight and not all(answer.done() for answer in waiting):
            raise RuntimeError("the engine is decoding; weights are loaded between two batches")
        adapter = self.policy.adapter
        require_loadable(weights, self.policy.base, adapter.adapter.rank if adapter else 0)
        self.policy.update(weights.read())
        if self.rounding:
            self.policy.round(self.rounding)
        logps = score(self.policy, [weights.probe[:1]], [(0, weights.probe[1:])]).cpu()
        gap = float((logps - torch.tensor(weights.probe_logp, device="cpu"))[: PROBE - 1].abs().max())
        if not gap <= (0.0 if self.tier is Tier.EXACT else self.bound):
            raise NumericsError(
                "E201",
                f"the engine's weights differ from the learner's: log-probabilities of a probe differ by {gap:.2g}",
                where=f"version {weights.version}",
                why="samples from other weights give a wrong gradient",
                fix="report this with the model's name; no setting changes it",
            )
        if self.tier is not Tier.EXACT:
            self._receipts.check(weights, logps.tolist())
        self.version = weights.version
        if self._decoder is not None:
            self._decoder.renew(self.version)

    def counts(self) -> Stats:
        """What the loads since the last call have proved; nothing where the engine is exact."""
        return self._receipts.stats()

    def twin(self, number: int) -> Embedded:
        """As in `Twinned`; it shares the frozen weights."""
        rounds, threads = self._receipts.rounds, self._threads.count
        engine = Embedded(self.policy.twin(), rounding=self.rounding, bound=self.bound, rounds=rounds, threads=threads)
        engine.tier = self.tier
        return engine

    @property
    def grouping(self) -> str:
        """As in `Grouping`."""
        return "" if self.policy.packs else GROUPING[caching_of(self.policy)]

    @property
    def mixes(self) -> bool:
        """As in `Mixing`."""
        return not self.policy.packs

    def close(self) -> None:
        """Nothing outlives the object."""

    def measure(
        self, prompts: Sequence[tuple[int, ...]], rows: int = 2, tokens: int = 72, reach: int = LONG + 72
    ) -> float:
        """Largest difference between a decoded token's log-probability and the same token scored whole.

        Completions of every length up to `tokens` are decoded together, beside a prompt of many, and scored prompt
        by prompt, so that growing caches, shrinking batches, small passes and long sums all occur. If the first few
        tokens differ, the engine is not exact, and the rest is not decoded.

        Args: reach: most tokens of a prompt and its completion in the run.
        """
        shortest, longest = min(prompts, key=len), max(prompts, key=len)
        most = min(reach, getattr(self.policy.model.config, "max_position_embeddings", reach)) - tokens
        distinct = list(dict.fromkeys([*prompts, (longest * LONG)[: max(min(LONG, most), len(longest))]]))
        return self._measure_gap([shortest], rows, min(GLANCE, tokens)) or self._measure_gap(distinct, rows, tokens)

    def _measure_gap(self, prompts: Sequence[tuple[int, ...]], rows: int, tokens: int) -> float:
        """`measure` of some completions of each prompt."""
        requests = [
            Request(
                prompt_ids=prompt,
                key=bytes([index % 256, row]) * 8,
                sampling=Sampling(max_tokens=1 + (29 * (index * rows + row)) % tokens),
            )
            for index, prompt in enumerate(prompts)
            for row in range(rows)
        ]
        completions = decode(decoder_of(self.policy, self._threads), requests)
        gaps = [
            (score(self.policy, [prompt], [(0, c.token_ids) for c in mine]).cpu() - reported_logps(mine)).abs().max()
            for prompt, mine in zip(prompts, batches(completions, rows), strict=True)
        ]
        return float(torch.stack(gaps).max())


def decoder_of(policy: Policy, threads: Threads) -> Batch:
    """What decodes with a policy: flat tokens that share what they can, or the model's own forward and cache."""
    if not policy.packs:
        return Cohorts(policy)
    return Lanes(policy, threads) if threads.count > 1 and policy.device.type == "cpu" else Decoder(policy)


def decode(decoder: Batch, requests: Sequence[Request]) -> list[Completion]:
    """The completions of requests that join a running batch, a few before each token."""
    waiting, completions = deque(requests), dict[int, Completion]()
    while waiting or decoder.rows:
        for _ in range(min(JOINING, len(waiting))):
            decoder.admit(waiting.popleft())
        completions.update(decoder.step())
    return [completions[number] for number in sorted(completions)]


def reported_logps(completions: Sequence[Completion]) -> Tensor:
    """The reported log-probabilities, one completion after the other."""
    return torch.tensor([logp for completion in completions for logp in completion.logprobs], device="cpu")


def batches(completions: Sequence[Completion], size: int) -> list[Sequence[Completion]]:
    return [completions[start : start + size] for start in range(0, len(completions), size)]
