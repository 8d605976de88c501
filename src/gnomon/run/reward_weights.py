"""The arithmetic of weights before a run: being right must not be the poorer choice."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.audit import LIMITS, Judgement, VerdictLimits
from gnomon.envs import Env, offers
from gnomon.errors import ConfigError
from gnomon.run.trial import trial
from gnomon.types import Verdict
from gnomon.verifiers.prices import Price, pay, undeclared_parts

__all__ = ["RULE", "weigh"]

RULE = "reward.weights"
"""What `audit.acknowledge` names when a run shall be started all the same."""


def weigh(env: Env, acknowledged: Sequence[str] = (), limits: VerdictLimits = LIMITS) -> str:
    """One line: what the environment pays for being right, and what without. Empty for a reward function.

    Raises: ConfigError E140, when all else pays as much as being right and that is not acknowledged; E141, when
        a verdict holds a part that the prices do not; VerifierError E105, E107 or E109 for code that does not judge.
    """
    judgements = trial(env, limits)
    prices = offers.prices(env)
    if prices is None:
        if offers.spec(env):
            return ""
        name = type(env).__name__
        return f"Reward: how much a reply without a correct answer can get is unknown: {name} has no `prices`."
    undeclared_parts = problems(judgements, prices)
    if undeclared_parts:
        raise ConfigError(
            "E141",
            undeclared_parts[0],
            where=type(env).__name__,
            why="the reward that is possible without a correct answer is computed from `prices`",
            fix="list every part of a verdict in the property `prices`, with its weight, most and gate",
        )
    payment = pay(prices)
    if payment is None:
        return f"Reward: {type(env).__name__} has no part named correct, so the reward of a correct answer is unknown."
    if payment.overpaid and RULE not in acknowledged:
        first = max(payment.sources, key=lambda price: price.total, default=None)
        advice = f'set gate="correct" on the part {first.name!r}, or ' if first else ""
        raise ConfigError(
            "E140",
            f"{payment}: the reward can be high without a correct answer",
            where=type(env).__name__,
            why="the policy will learn what pays more, and its answers will be wrong",
            fix=f"{advice}lower its weight; to accept it: 'audit.acknowledge=[\"{RULE}\"]'",
        )
    return f"Reward: {payment}.{' Acknowledged.' if payment.overpaid else ''}"


def problems(judgements: Sequence[Judgement], prices: Sequence[Price]) -> list[str]:
    """What the verdicts on a right, a wrong and an empty reply pay and the prices do not name."""
    verdicts = [
        Verdict(status=judgement.status, parts=judgement.parts)
        for judgement in judgements
        if judgement.status is not None
    ]
    return [sentence for verdict in verdicts for sentence in undeclared_parts(prices, verdict)]
