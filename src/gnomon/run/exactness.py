"""Whether a run is exact, so that a second run repeats every byte, and which differences a resume tolerates."""

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

__all__ = ["reasons", "tolerable_sources"]

TASKS = 2
"""Number of tasks whose replies are judged twice before a run."""
CODE = ("python", "versions", "env", "code_sha256")
"""Keys of the manifest that identify the code."""


def reasons(config: RunConfig, env: Env, tier: Tier) -> Iterator[str]:
    """Why a second run of the recipe may differ; none for an exact run."""
    if tier is Tier.MEASURED:
        yield "sampler and learner agree up to rounding (tier measured)"
    if config.rollout.in_flight:
        yield "rollout.in_flight loads weights between tokens that the clock decides"
    if math.isfinite(config.rollout.seconds):
        yield "rollout.seconds ends episodes by the clock"
    if not offers.reproducible(env):
        yield f"{config.env.type} declares reproducible = False"
    elif accepted := [rule for rule in config.audit.acknowledge if rule.partition(".")[0] == "determinism"]:
        yield f"audit.acknowledge accepts {', '.join(accepted)}"
    elif difference := verdicts_differ(env):
        yield difference


def verdicts_differ(env: Env) -> str:
    """Two different verdicts on the same reply, as text; empty if they agree or cannot be compared."""
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
                        f"the verifier is not deterministic: the reply {reply[-60:]!r} got "
                        f"{first.status.value}, {first.reward:g} and then {second.status.value}, {second.reward:g}"
                    )
    except Exception:  # The run itself reports a failing verifier, with the reply and the place.
        return ""
    return ""


def tolerable_sources(
    reader: RunReader, config: RunConfig, env: Env, now: Mapping[str, Any], accept: bool
) -> frozenset[Source]:
    """The sources of differences for which a resumed run discards its records.

    If the run's code is unchanged, another verdict on the same reply shows that the verifier is not deterministic.
    Other samples show another machine, which only the user can accept.

    Args: now: the manifest of the resuming process; accept: whether the user accepts any difference.
    """
    before = reader.manifest
    if accept or reader.varies or before.get("tier") == Tier.MEASURED.value:
        return frozenset(Source)
    if any(reasons(config, env, Tier.EXACT)):
        return frozenset(Source)
    same = all(before.get(name) == now.get(name) for name in CODE)
    return frozenset({Source.JUDGE, Source.ENVIRONMENT} if same else ())
