"""The parts of a run that lie in a Ray cluster, from the package gnomon_ray, which is imported for such a run only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnomon.config import RunConfig
from gnomon.envs.base import Env
from gnomon.learners.base import Learner
from gnomon.objectives import Objective

if TYPE_CHECKING:
    from gnomon_ray.fleet import RayFleet

__all__ = ["make_cluster_learner", "make_fleet"]


def make_fleet(config: RunConfig, env: Env, tasks: Env) -> RayFleet:
    """The samplers. Raises: as `RayFleet`."""
    from gnomon_ray.fleet import RayFleet

    return RayFleet(config, env, tasks)


def make_cluster_learner(config: RunConfig, row: Objective) -> Learner:
    """Raises: ResourceError E505 without Ray."""
    from gnomon_ray.fleet import require_ray

    require_ray()
    from gnomon_ray.learner import RayLearner

    return RayLearner(config, row)
