"""The strategy that a policy plays at Kuhn poker, read off its log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from gnomon.envs.base import user
from gnomon.envs.kuhn_poker import observation
from gnomon.envs.kuhn_value import STATES, exploitability
from gnomon.models.policy import Policy
from gnomon.models.scoring import score
from gnomon.rendering import Renderer, Transcript, choose

__all__ = ["REPLIES", "Strategy", "prompts", "read"]

State = tuple[str, str]
REPLIES = {"p": "<answer>pass</answer>", "b": "<answer>bet</answer>"}
"""The shortest reply that makes each move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How a policy plays."""

    bets: Mapping[State, float]
    """The probability of a bet in each state, among the two shortest replies."""
    legal: Mapping[State, float]
    """The total probability of these two replies. The rest of the probability is on other replies."""

    @property
    def exploitability(self) -> float:
        """Chips per hand by which a best response beats it, if it moves as `bets` says whenever it moves."""
        return exploitability(self.bets)

    @property
    def least_legal(self) -> float:
        return min(self.legal.values())


def prompts(policy: Policy, renderer: Renderer | None = None) -> dict[State, tuple[int, ...]]:
    """What the policy is asked in every state: after a pass of its own, its shortest words for it stand before."""
    family = renderer or choose(policy.tokenizer, turns=2)
    found = {}
    for card, line in STATES:
        if line != "pb":
            found[card, line] = Transcript.begin(family, user(observation(card, line))).token_ids
            continue
        talk = Transcript.begin(family, user(observation(card, "")))
        found[card, line] = (
            talk.with_completion(policy.tokenizer.encode(REPLIES["p"])).observe(user("They bet.")).token_ids
        )
    return found


def read(policy: Policy, renderer: Renderer | None = None, temperature: float = 1.0) -> Strategy:
    """The policy's strategy, exact for these replies: no hand is played."""
    asked = prompts(policy, renderer)
    replies = [policy.tokenizer.encode(text) for text in REPLIES.values()]
    rows = [(place, reply) for place in range(len(asked)) for reply in replies]
    logp = score(policy, list(asked.values()), rows, temperature)
    sums = [float(part.double().sum()) for part in torch.split(logp, [len(reply) for _, reply in rows])]
    bets, legal = {}, {}
    for state, (passed, bet) in zip(asked, pairs(sums), strict=True):
        bets[state] = 1 / (1 + math.exp(min(passed - bet, 700.0)))
        legal[state] = math.exp(passed) + math.exp(bet)
    return Strategy(bets=bets, legal=legal)


def pairs(values: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip(values[::2], values[1::2], strict=True))
