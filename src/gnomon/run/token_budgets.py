"""What an objective with a reward at every token budget needs of the environment and of the limits of a run."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.envs import offers
from gnomon.envs.base import Env
from gnomon.errors import ConfigError
from gnomon.objectives import Need, Objective

__all__ = ["require_token_budgets"]


def require_token_budgets(config: RunConfig, env: Env, row: Objective) -> None:
    """Check that every rollout is judged at each budget, and that no other limit ends a reply before its budget.

    Raises: ConfigError E119.
    """
    if Need.BUDGETS not in row.asks:
        return
    offered, rollout = offers.token_budgets(env), config.rollout
    if offered is None:
        raise refusal(
            f"{row.name} needs a reward at every token budget, and the environment has no budgets",
            type(env).__name__,
            "the environment does not have `token_budgets`",
            "env=anytime, or objective=rloo",
        )
    budgets, largest = offered
    for unfit, what, why, fix in (
        (
            offers.players(env) > 1,
            f"{row.name} cannot train a game of several players",
            "the budgets of one player are the turns of one conversation",
            "objective=rloo",
        ),
        (
            0 < rollout.turns < budgets,
            f"rollout.turns = {rollout.turns} ends an episode before the last of {budgets} budgets",
            "a reply is judged at every budget",
            f"rollout.turns={budgets}, or env.budgets={rollout.turns}",
        ),
        (
            rollout.max_tokens < largest,
            f"rollout.max_tokens = {rollout.max_tokens} is below the largest budget of {largest} tokens",
            "a reply could end at that limit, before its budget",
            f"rollout.max_tokens={largest}, or env.largest={rollout.max_tokens}",
        ),
        (
            rollout.failure_prefix > 0,
            f"{row.name} cannot be combined with rollout.failure_prefix",
            "the prefix would take up tokens of the first budget that this policy did not write",
            "rollout.failure_prefix=0",
        ),
    ):
        if unfit:
            raise refusal(what, "rollout" if fix.startswith("rollout") else "objective.type", why, fix)


def refusal(what: str, where: str, why: str, fix: str) -> ConfigError:
    return ConfigError("E119", what, where=where, why=why, fix=fix)
