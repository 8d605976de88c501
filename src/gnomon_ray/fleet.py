"""Connect a run with a Ray cluster, and place its samplers there."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gnomon.config import RunConfig
from gnomon.config.placement import LearnerPlace
from gnomon.engines.remote import Loaded
from gnomon.envs.base import Env
from gnomon.errors import ResourceError
from gnomon.models.weights import WeightsRef
from gnomon.run.losses import SamplerLoss
from gnomon.workers import Carried, pack_value
from gnomon_ray.own import OwnCluster

__all__ = ["RayFleet"]

REACH = 10.0
"""Seconds for the cluster to accept a connection."""


class RayFleet:
    """The samplers of a run, in the cluster of the settings or in one of their own.

    A process that is connected with a cluster already uses that one.

    Args: env: it is played; tasks: the environment with the tasks that are trained on.
    Raises: ResourceError E505 without Ray, E510 for a cluster that cannot be reached or started; as `Samplers`.
    """

    def __init__(self, config: RunConfig, env: Env, tasks: Env) -> None:
        with ExitStack() as undo:
            connect(config, undo)
            from gnomon_ray.samplers import Samplers

            self._samplers = Samplers(pack_value(Carried.of((config, env, tasks))), config.launch)
            undo.callback(self._samplers.close)
            self._undo = undo.pop_all()

    def put(self, weights: WeightsRef) -> Any:
        return self._samplers.put(weights)

    async def call(self, verb: str, *arguments: Any) -> Any:
        return await self._samplers.call(verb, *arguments)

    def renew(self, loaded: Loaded) -> None:
        self._samplers.renew(loaded)

    def losses(self) -> Sequence[SamplerLoss]:
        """The samplers that died since the last call."""
        return self._samplers.losses()

    def close(self) -> None:
        """End the samplers, and the cluster if it is the run's own."""
        self._undo.close()


def require_ray() -> None:
    """Raises: ResourceError E505 without Ray."""
    if find_spec("ray") is None:
        raise ResourceError(
            "E505",
            "launch.type=ray needs the package ray",
            where="launch.type",
            fix="pip install 'gnomon[ray]', or launch.type=local",
        )


def connect(config: RunConfig, undo: ExitStack) -> None:
    """Connect this process with the cluster. Args: undo: takes what ends the connection.

    Raises: ResourceError E505 without Ray, E510 for a cluster that cannot be reached or started.
    """
    require_ray()
    import ray
    from ray.exceptions import AuthenticationError

    if ray.is_initialized():
        return
    address = config.launch.address
    if not address:
        learner = config.launch.learner.get("CPU", 1.0) if config.placement.learner is LearnerPlace.CLUSTER else 0.0
        own = OwnCluster(math.ceil(config.launch.samplers * max(config.launch.cpus, 1.0) + learner))
        undo.callback(own.close)
        address = own.address
        refresh_token()
    try:
        if address != "auto":  # Else Ray itself tries for minutes.
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), timeout=REACH).close()
        ray.init(address=address, log_to_driver=False, configure_logging=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError, OverflowError, AuthenticationError) as error:
        refused = any("AuthenticationError" in f"{type(each).__name__}: {each}" for each in causes(error))
        raise ResourceError(
            "E510",
            f"the Ray cluster {address} refuses this process"
            if refused
            else f"the Ray cluster {address} cannot be reached",
            where="launch.address",
            why=str(error).partition("\n")[0].partition(". ")[0],
            fix="export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=… with the token of the cluster (ray get-auth-token)"
            if refused
            else "start one with: ray start --head --port=6379; then launch.address=HOST:6379",
        ) from error
    undo.callback(ray.shutdown)


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came from, the latest first."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def refresh_token() -> None:
    """Have Ray read its token from the environment again; it did so when it was imported."""
    raylet = import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
