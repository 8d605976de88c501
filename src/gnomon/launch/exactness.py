"""Whether a run is exact: whether a second run of its recipe must repeat every byte, and what a resume does if not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gnomon.config import RunConfig
from gnomon.engines.base import Tier
from gnomon.envs import offers
from gnomon.envs.base import Env, SingleTurn
from gnomon.envs.episodes import replies
from gnomon.store import RunReader, Source

__all__ = ["reasons", "tolerated"]

TASKS = 2
"""Tasks on which a judge is asked twice before a run."""
CODE = ("python", "versions", "env", "code_sha256")
"""What of a manifest says which code ran."""


def reasons(config: RunConfig, env: Env, tier: Tier) -> Iterator[str]:
    """Why a second run of the recipe may differ; none for an exact run."""
    if tier is Tier.MEASURED:
        yield "sampler and learner agree up to rounding (tier measured)"
    if math.isfinite(config.rollout.seconds):
        yield "rollout.seconds ends episodes by the clock"
    if not offers.reproducible(env):
        yield f"{config.env.type} declares reproducible = False"
    elif accepted := [rule for rule in config.audit.acknowledge if rule.partition(".")[0] == "determinism"]:
        yield f"audit.acknowledge accepts {', '.join(accepted)}"
    elif parted := asked_twice(env):
        yield parted


def asked_twice(env: Env) -> str:
    """How the judge contradicts itself on a few replies; empty where it does not, breaks, or needs several turns."""
    if not isinstance(env, SingleTurn):
        return ""
    try:
        split = env.tasks("train")
        tasks = [split[index] for index in range(min(TASKS, len(split)))]
        for index, task in enumerate(tasks):
            for reply in replies(env, tasks, index):
                first, second = env.verify(task, reply), env.verify(task, reply)
                if first != second:
                    return (
                        f"the judge is not deterministic: the reply {reply[-60:]!r} got "
                        f"{first.status.value}, {first.reward:g} and then {second.status.value}, {second.reward:g}"
                    )
    except Exception:  # A judge that breaks is told by the run itself, with the reply and the place.
        return ""
    return ""


def tolerated(
    reader: RunReader, config: RunConfig, env: Env, now: Mapping[str, Any], accept: bool
) -> frozenset[Source]:
    """For which sources of a difference a resumed run gives up what it recorded.

    With the code of the run unchanged, another verdict on the same reply shows that the judge varies: the run was
    exact only by its declaration. Another sample shows another machine, and that is for a person to decide.

    Args: now: the manifest of the process that resumes; accept: whether the user takes any difference.
    """
    before = reader.manifest
    if accept or reader.varies or before.get("tier") == Tier.MEASURED.value:
        return frozenset(Source)
    if any(reasons(config, env, Tier.EXACT)):
        return frozenset(Source)
    same = all(before.get(name) == now.get(name) for name in CODE)
    return frozenset({Source.JUDGE, Source.ENVIRONMENT} if same else ())
