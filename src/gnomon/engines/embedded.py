"""An engine inside this process, for any causal LM of transformers: one decode loop over flat tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from gnomon.engines.base import Tier
from gnomon.engines.branches import CROWD, Branches
from gnomon.engines.noise import Noise
from gnomon.errors import ModelError, NumericsError
from gnomon.models.attention import MIN_ROWS
from gnomon.models.policy import Policy
from gnomon.models.projection import logp_of
from gnomon.models.scoring import score
from gnomon.models.weights import Kind, WeightsRef
from gnomon.types import Completion, Finish, Request, Sampling

__all__ = ["Embedded", "Progress", "unseen"]

ROWS = 512
"""Most rows decoded together."""
LONG = 350
"""Tokens of the long prompt that an engine is measured with; its completions cross a multiple of `SPAN`."""


@dataclass(slots=True)
class Row:
    """One completion as it grows."""

    request: Request
    prompt: int
    ids: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)
    finish: Finish | None = None


Progress = Callable[[int, int], None]
"""Takes how many requests of a call are done, of how many."""


def unseen(done: int, total: int) -> None:
    """Shows no progress."""


class Embedded:
    """Samples with a policy of its own; `tier` is found by measuring, at the first load.

    What requests have in common is computed once, their prompt and what they began to say alike; rows that ended
    leave the batch, and every draw is keyed, so a completion depends on its request and on the weights alone.
    """

    def __init__(self, policy: Policy, progress: Progress = unseen) -> None:
        self.policy, self.version, self.tier = policy, 0, Tier.EXACT
        self.progress = progress
        self._pieces: dict[int, str] = {}

    async def sample(self, requests: Sequence[Request]) -> list[Completion]:
        done: list[Completion] = []
        for start in range(0, len(requests), ROWS):
            progress = partial(self._report, start, len(requests))
            done += self._decode(requests[start : start + ROWS], progress)
        return done

    def _report(self, before: int, total: int, ended: int) -> None:
        self.progress(before + ended, total)

    def load(self, weights: WeightsRef) -> None:
        require_loadable(weights, self.policy.base)
        self.policy.update(weights.read())
        found = score(self.policy, [weights.probe[:1]], [(0, weights.probe[1:])]).cpu()
        gap = float((found - torch.tensor(weights.probe_logp, device="cpu")).abs().max())
        if not gap <= (0.0 if self.tier is Tier.EXACT else 1e-3):
            raise NumericsError(
                "E201",
                f"the engine's weights differ from the learner's: log-probabilities of a probe differ by {gap:.2g}",
                where=f"version {weights.version}",
                why="samples from other weights give a wrong gradient",
                fix="report this with the model's name; no setting changes it",
            )
        self.version = weights.version

    def close(self) -> None:
        """Nothing outlives the object."""

    def measure(self, prompts: Sequence[tuple[int, ...]], rows: int = 4, tokens: int = 72) -> float:
        """Largest difference between a decoded token's log-probability and the same token scored whole.

        Completions of every length up to `tokens` are decoded together, beside a prompt of many, and scored prompt
        by prompt, so that growing caches, shrinking crowds, small passes and long sums are all met.
        """
        longest = max(prompts, key=len)
        most = getattr(self.policy.model.config, "max_position_embeddings", LONG + tokens) - tokens
        distinct = list(dict.fromkeys([*prompts, (longest * LONG)[: max(min(LONG, most), len(longest))]]))
        requests = [
            Request(
                prompt_ids=prompt,
                key=bytes([place % 256, row]) * 8,
                sampling=Sampling(max_tokens=1 + (29 * (place * rows + row)) % tokens),
            )
            for place, prompt in enumerate(distinct)
            for row in range(rows)
        ]
        found = self._decode(requests)
        gaps = [
            (score(self.policy, [prompt], [(0, c.token_ids) for c in mine]) - told(mine)).abs().max()
            for prompt, mine in zip(distinct, batched(found, rows), strict=True)
        ]
        return float(torch.stack(gaps).max())

    @torch.inference_mode()
    def _decode(
        self, requests: Sequence[Request], progress: Callable[[int], None] = lambda ended: None
    ) -> list[Completion]:
        prompts = list(dict.fromkeys(request.prompt_ids for request in requests))
        place = {prompt: i for i, prompt in enumerate(prompts)}
        rows = [Row(request, place[request.prompt_ids]) for request in requests]
        live = sorted(rows, key=lambda row: row.prompt)
        flat = [i for prompt in prompts for i in prompt[:-1]]
        spare = [0] * max(0, MIN_ROWS - len(flat)) if flat else []
        layout = self.policy.decode([*(len(prompt) - 1 for prompt in prompts), *([len(spare)] if spare else [])])
        flat += spare
        if flat:
            self.policy.hidden(self.policy.place(flat), layout)
        branches = Branches([row.prompt for row in live], [prompt[-1] for prompt in prompts])
        noise = Noise([row.request.key for row in live], self.policy.vocabulary)
        temperature = torch.tensor([row.request.sampling.temperature for row in live])
        parents: list[int] | None = None
        while live:
            layout.advance(self.policy.place(branches.prompt), None if parents is None else self.policy.place(parents))
            hidden = self.policy.hidden(self.policy.place(branches.token), layout)
            logits = self.policy.logits(hidden)[branches.of]
            tokens, logps = drawn(logits, temperature, noise)
            for row, token, logp in zip(live, tokens, logps, strict=True):
                self._grow(row, token, logp)
            going = [place for place, row in enumerate(live) if row.finish is None]
            progress(len(rows) - len(going))
            if not going:
                break
            parents = branches.grow(tokens, going)
            if len(going) <= CROWD * len(live):
                live, temperature = [live[place] for place in going], temperature[going]
                noise.keep(going)
                branches.keep(going)
        return [self._completion(row) for row in rows]

    def _grow(self, row: Row, token: int, logp: float) -> None:
        """Append a token to a live row and see whether it ends it."""
        if row.finish is not None:
            return
        row.ids.append(token)
        row.logps.append(logp)
        sampling = row.request.sampling
        if token in self.policy.tokenizer.eos or token in sampling.stop_ids:
            row.finish = Finish.EOS
        elif sampling.stop and self._stops(row.ids, sampling.stop):
            row.finish = Finish.STOP
        elif len(row.ids) == sampling.max_tokens:
            row.finish = Finish.LENGTH

    def _stops(self, ids: list[int], stop: tuple[str, ...]) -> bool:
        """Whether the last token completes a stop string; the tail is read only when its piece could."""
        piece = self._pieces.get(ids[-1])
        if piece is None:
            piece = self._pieces[ids[-1]] = self.policy.tokenizer.decode(ids[-1:])
        ends = [text for text in stop if text[-1] in piece]
        return bool(ends) and any(text in self.policy.tokenizer.decode(ids[-len(text) - 1 :]) for text in ends)

    def _completion(self, row: Row) -> Completion:
        assert row.finish is not None
        return Completion(
            token_ids=tuple(row.ids),
            logprobs=tuple(row.logps),
            text=self.policy.tokenizer.decode(row.ids),
            finish=row.finish,
            version=self.version,
        )


def require_loadable(weights: WeightsRef, base: str) -> None:
    """Raises: ModelError E323 for weights that are not all parameters of a model begun from this base."""
    if weights.kind is Kind.FULL and (weights.base == base or not (weights.base and base)):
        return
    problem = f"are of the kind {weights.kind.value}" if weights.kind is not Kind.FULL else "began from another model"
    raise ModelError(
        "E323",
        f"the engine cannot load these weights: they {problem}",
        where=f"version {weights.version}",
        why="this engine holds every parameter of the model that its own folder has",
        fix="give sampler and learner the same model folder",
    )


def told(completions: Sequence[Completion]) -> Tensor:
    """The reported log-probabilities, one completion after the other."""
    return torch.tensor([logp for completion in completions for logp in completion.logprobs])


def batched(completions: Sequence[Completion], size: int) -> list[Sequence[Completion]]:
    return [completions[start : start + size] for start in range(0, len(completions), size)]


def drawn(logits: Tensor, temperature: Tensor, noise: Noise) -> tuple[list[int], list[float]]:
    """The next token of every row and its log-probability under the distribution sampled."""
    logp = logp_of(logits, temperature[:, None].clamp_min(1e-6))
    cold = temperature == 0
    token = torch.where(cold, logp.argmax(-1), (logp + noise.next()).argmax(-1))
    chosen = logp.gather(1, token[:, None])[:, 0]
    return token.tolist(), torch.where(cold, 0.0, chosen).tolist()
