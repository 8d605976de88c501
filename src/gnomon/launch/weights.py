"""The arithmetic of weights before a run: being right must not be the poorer choice."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.envs import Env, SingleTurn
from gnomon.envs.episodes import replies
from gnomon.errors import ConfigError
from gnomon.verifiers.prices import Price, pay, undeclared

__all__ = ["RULE", "weigh"]

RULE = "reward.weights"
"""What `audit.acknowledge` names when a run shall be started all the same."""
TASKS = 4
"""Tasks whose verdicts are compared with the prices."""


def weigh(env: Env, acknowledged: Sequence[str] = ()) -> str:
    """One line: what the environment pays for being right, and what without.

    Raises: ConfigError E140, when all else pays as much as being right and that is not acknowledged; E141, when
        a verdict holds a part that the prices do not.
    """
    prices: tuple[Price, ...] | None = getattr(env, "prices", None)
    if prices is None:
        return f"Reward: {type(env).__name__} declares no prices, so what it pays without being right is not known."
    try:
        undeclared_parts = problems(env, prices)
    except Exception as error:  # A judge that breaks is told by the run itself, with the reply and the place.
        return f"Reward: not weighed, since the judge of {type(env).__name__} raised {type(error).__name__}."
    if undeclared_parts:
        raise ConfigError(
            "E141",
            undeclared_parts[0],
            where=type(env).__name__,
            why="what a reward can pay without a right answer is told from its prices",
            fix="let the property `prices` name every part of a verdict, with its weight, most and gate",
        )
    found = pay(prices)
    if found is None:
        return f"Reward: {type(env).__name__} has no part named correct, so nothing says what being right pays."
    if found.overpaid and RULE not in acknowledged:
        first = max(found.sources, key=lambda price: price.total, default=None)
        advice = f' let the part {first.name!r} count only under gate="correct", or' if first else ""
        raise ConfigError(
            "E140",
            f"{found}: a policy can leave being right out",
            where=type(env).__name__,
            why="it will climb what pays more, and its answers will be wrong",
            fix=f"{advice} pay less for it, or, if this is meant: 'audit.acknowledge=[\"{RULE}\"]'".strip(),
        )
    return f"Reward: {found}.{' Acknowledged.' if found.overpaid else ''}"


def problems(env: Env, prices: Sequence[Price]) -> list[str]:
    """What the verdicts on a right, a wrong and an empty reply pay and the prices do not name."""
    if not isinstance(env, SingleTurn):
        return []
    split = env.tasks("train")
    tasks = [split[index] for index in range(min(TASKS, len(split)))]
    return [
        sentence
        for index, task in enumerate(tasks)
        for reply in replies(env, tasks, index)
        for sentence in undeclared(prices, env.verify(task, reply))
    ]
