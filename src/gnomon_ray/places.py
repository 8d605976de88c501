"""Places in a Ray cluster: what a process needs stays reserved while the process is replaced."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import Any

import ray
from ray.exceptions import ObjectLostError, OutOfMemoryError, RayActorError, RayTaskError
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from gnomon.errors import ResourceError

__all__ = ["FAILED", "GONE", "Place", "Places", "reason"]

GONE = (RayActorError, OutOfMemoryError, ObjectLostError)
"""What Ray raises where a process died before it answered, or its node died with the answer."""
FAILED = (*GONE, RayTaskError)
"""The same where a process starts. It may also have failed because one of its own processes was killed."""
AGE = 0.05
"""Seconds for which an answer about all places is used; ten times the seconds of the question, if that is longer."""
OPTIONS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
"""Resources for which Ray has an option of its own, by name."""
LEAST = 0.001
"""CPUs that are reserved for a process that needs nothing: a placement group cannot be empty."""


class Place:
    """A placement group for one process. Args: what: the process, for errors; needs: amounts, by resource."""

    def __init__(self, what: str, needs: Mapping[str, float]) -> None:
        self._what = what
        self._bundle = {name: amount for name, amount in needs.items() if amount} or {"CPU": LEAST}
        self._group = placement_group([self._bundle])

    @property
    def placed(self) -> bool:
        """Whether the cluster holds what is reserved."""
        return bool(placement_group_table(self._group).get("state") == "CREATED")

    @property
    def name(self) -> str:
        """Id of its placement group."""
        found: str = self._group.id.hex()
        return found

    def actor(self, kind: type, parts: Any, concurrency: int) -> Any:
        """A new actor in this place, which Ray never restarts. Args: parts: what the class is called with."""
        strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=0)
        options = {option: self._bundle.get(name, 0) for name, option in OPTIONS.items()}
        others = {name: amount for name, amount in self._bundle.items() if name not in OPTIONS}
        remote: Any = ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=concurrency)(kind)
        return remote.options(**options, resources=others, scheduling_strategy=strategy).remote(parts)

    def no_room(self, seconds: float) -> ResourceError:
        """E511, after this time without room."""
        own = ("node:", "memory", "object_store")  # Ray counts these by itself.
        have = {name: value for name, value in ray.cluster_resources().items() if not name.startswith(own)}
        return ResourceError(
            "E511",
            f"the Ray cluster has no room for {self._what}",
            where=amounts_text(self._bundle),
            why=f"no node had this free for {seconds:g} s; all nodes together have {amounts_text(have) or 'nothing'}",
            fix="lower what launch reserves (cpus, gpus, resources), or add a node: ray start --address=HOST:PORT",
        )

    def remove(self) -> None:
        """Free what is reserved, if there still is a cluster."""
        with suppress(Exception):
            remove_placement_group(self._group)


class Places:
    """Whether places are held, for many places: one question to the cluster answers for all of them."""

    def __init__(self) -> None:
        self._held: set[str] = set()
        """Placement groups that are held, by id."""
        self._until = -inf
        """Monotonic time up to which this is new enough."""

    def placed(self, place: Place) -> bool:
        """Whether the cluster holds what is reserved, or did shortly before."""
        if (began := time.monotonic()) > self._until:
            states = placement_group_table()
            self._held = {name for name, its in states.items() if its.get("state") == "CREATED"}
            self._until = time.monotonic() + max(AGE, 10 * (time.monotonic() - began))
        return place.name in self._held


def amounts_text(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in sorted(amounts.items()))


def reason(error: Exception) -> str:
    """What Ray says of a death, or the error that ended a process."""
    cause = error.cause if isinstance(error, RayTaskError) else None
    return f"{type(cause).__name__}: {cause}" if cause else str(error)
