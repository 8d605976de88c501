"""A running batch: rows join and leave between two tokens, and none of them can tell."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan

import torch
from torch import Tensor

from gnomon.engines.branches import Branches
from gnomon.engines.endings import Endings
from gnomon.engines.noise import Noise, sample_tokens
from gnomon.engines.replay import Replay, capture_pass
from gnomon.models.policy import Policy
from gnomon.models.projection import Truncation, entropy_of, logp_of
from gnomon.models.tokenizer import Tokenizer
from gnomon.types import Completion, Finish, Request

__all__ = ["Decoder", "Row", "next_tokens"]

PROMPT_TOKENS = 2**13
"""Most tokens of new prompts in a pass, each as long as the longest, unless one prompt is longer. So many long prompts
at once take no more memory than this; prompts of a step in small models begin together."""


@dataclass(slots=True)
class Row:
    """One completion as it grows."""

    request: Request
    version: int
    noise: Noise
    changes: list[tuple[int, int]] = field(default_factory=list)
    """Where the weights changed, as in `Completion.changes`."""
    ids: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)

    def grow(self, token: int, logp: float, entropy: float) -> None:
        self.ids.append(token)
        self.logps.append(logp)
        self.entropies.append(entropy)

    def renew(self, version: int) -> None:
        """The tokens from here on are of other weights."""
        if not self.ids:
            self.version = version
        else:
            self.changes = [change for change in self.changes if change[0] < len(self.ids)]
            self.changes.append((len(self.ids), version))

    def completion(self, finish: Finish, tokenizer: Tokenizer) -> Completion:
        return Completion(
            token_ids=tuple(self.ids),
            logprobs=tuple(self.logps),
            text=tokenizer.decode(self.ids),
            finish=finish,
            version=self.version,
            changes=tuple(self.changes),
            entropies=tuple(self.entropies) if self.request.sampling.entropy else (),
        )


class Decoder:
    """Decodes with one policy, one token of every row at a time.

    What rows have in common is computed once, their prompt and what they begin with alike. Every draw is keyed, so a
    completion depends on its request and on the weights alone.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.rows: dict[int, Row] = {}
        """By the number that `admit` gave."""
        self._waiting: deque[int] = deque()
        """Rows that no pass has held yet, in order."""
        self._branches, self._layout = Branches(), policy.decode()
        self._replay = Replay(policy, self._layout, capture_pass) if on_current_device(policy) else None
        self._admitted, self._endings = 0, Endings(policy.tokenizer)

    def admit(self, request: Request, version: int = 0) -> int:
        """A row for a request. It begins at the next step that has room for its prompt, after those before it.

        Args: version: of the policy's weights.
        Returns: the row's number.
        """
        number, self._admitted = self._admitted, self._admitted + 1
        self.rows[number] = Row(request, version, Noise(request.key, self.policy.vocabulary))
        self._waiting.append(number)
        return number

    def _join(self) -> None:
        """Begin rows that wait: at least one new prompt, and as many as a pass has room for."""
        new, longest = 0, 0
        while self._waiting:
            number = self._waiting[0]
            if number in self.rows:
                request = self.rows[number].request
                if request.prompt_ids not in self._branches:
                    new, longest = new + 1, max(longest, len(request.prompt_ids))
                    if new > 1 and new * longest > PROMPT_TOKENS:
                        return
                self._branches.join(number, request.prompt_ids, request.sampling.max_tokens)
            self._waiting.popleft()

    def renew(self, version: int) -> None:
        """The policy has other weights from now on. Rows go on with the keys and values that they have."""
        self._branches.forget()
        for row in self.rows.values():
            row.renew(version)

    def drop(self, number: int) -> None:
        """Nobody waits for this row any more; it leaves after the next step."""
        self.rows.pop(number, None)

    @torch.inference_mode()
    def step(self) -> list[tuple[int, Completion]]:
        """Sample a token of every row that has begun. Returns: the rows that ended by it, by number."""
        self._join()
        ids, plan = self._branches.plan()
        self._layout.follow(plan)
        flat = self.policy.place(ids)
        hidden = self._replay.hidden(flat) if self._replay else self.policy.hidden(flat, self._layout)
        logits = self.policy.logits(hidden[-len(plan.group) :])
        live = [(branch.slot, number) for branch in self._branches for number in branch.rows if number in self.rows]
        rows = [self.rows[number] for _, number in live]
        draws = next_tokens(logits, [slot for slot, _ in live], rows) if live else []
        going: dict[int, dict[int, list[int]]] = {branch.slot: {} for branch in self._branches}
        ended = []
        for (slot, number), row, draw in zip(live, rows, draws, strict=True):
            row.grow(*draw)
            if (finish := self._endings.finish(row.ids, row.request.sampling)) is None:
                going[slot].setdefault(row.ids[-1], []).append(number)
            else:
                ended.append((number, self.rows.pop(number).completion(finish, self.policy.tokenizer)))
        self._branches.grow(list(going.values()))
        return ended


def on_current_device(policy: Policy) -> bool:
    """Whether passes of the policy can be captured: on the CUDA device that this thread uses."""
    return policy.device.type == "cuda" and policy.device.index in (None, torch.cuda.current_device())


def next_tokens(logits: Tensor, of: Sequence[int], rows: Sequence[Row]) -> list[tuple[int, float, float]]:
    """The next token of every row, its log-probability under the distribution sampled, and the entropy of that.

    Entropies are NaN where no row asks for them.
    Args: of: for each row, its place among the logits [slots, vocabulary].
    """
    temperature = logits.new_tensor([row.request.sampling.temperature for row in rows])
    scores, divisor = logits[torch.tensor(of, device=logits.device)], temperature[:, None].clamp_min(1e-6)
    truncations = [Truncation(row.request.sampling.top_p, row.request.sampling.top_k) for row in rows]
    logp = logp_of(scores, divisor, truncations[0])
    for truncation in set(truncations[1:]) - {truncations[0]}:
        own = torch.tensor([each == truncation for each in truncations], device=logits.device)
        logp[own] = logp_of(scores[own], divisor[own], truncation)
    noise = [row.noise for row in rows]
    cold = temperature == 0
    token = torch.where(cold, logp.argmax(-1), sample_tokens(logp, noise))
    token_logp = logp.gather(1, token[:, None])[:, 0]
    with_entropy = any(row.request.sampling.entropy for row in rows)
    entropy = torch.where(cold, 0.0, entropy_of(logp)) if with_entropy else token_logp.new_full(token_logp.shape, nan)
    return list(zip(token.tolist(), torch.where(cold, 0.0, token_logp).tolist(), entropy.tolist(), strict=True))
