"""Rewards that settings ask for, and that an objective or another setting does not allow."""

from __future__ import annotations

from collections.abc import Iterator

from gnomon.config.sections import RunConfig
from gnomon.errors import ConfigError
from gnomon.objectives.declaration import Data, Need, Rewards

__all__ = ["judged_by"]


def judged_by(config: RunConfig) -> Iterator[ConfigError]:
    """Rewards without the verifier, where something else reads its verdicts or nothing reads the rewards."""
    by, row = config.rollout.judged_by, config.objective.declaration
    if config.rollout.judgements > 1 and by != "policy":
        yield ConfigError(
            "E118",
            f"rollout.judgements cannot be used with rollout.judged_by={by}",
            where="rollout.judgements",
            why="only the policy judges a rollout several times",
            fix="rollout.judged_by=policy, or rollout.judgements=1",
        )
    if by == "verifier":
        return
    for unfit, why, fix in (
        (
            row.data is not Data.SAMPLED,
            f"{row.name} trains on replies that were not sampled for a reward",
            "objective=rloo",
        ),
        (row.rewards is Rewards.NONE, f"{row.name} uses no reward", "objective=rloo"),
        (Need.BUDGETS in row.needs, f"{row.name} has a reward at every token budget", "objective=rloo"),
        (config.rollout.refill > 0, "rollout.refill selects groups by the verifier's verdicts", "rollout.refill=0"),
        (
            by == "majority" and config.rollout.group < 3,
            f"in a group of {config.rollout.group}, the first answer always is a most frequent one",
            "rollout.group=8",
        ),
    ):
        if unfit:
            yield ConfigError(
                "E117",
                f"rollout.judged_by={by} cannot be used here",
                where="rollout.judged_by",
                why=why,
                fix=f"{fix}, or rollout.judged_by=verifier",
            )
