"""The parts of a simulated run: the schedule of a real one, with engines and environments that only wait."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TypeVar

from gnomon.config import RunConfig
from gnomon.engines.base import Engine as AnyEngine
from gnomon.engines.base import Playing, Tier
from gnomon.engines.remote import RemoteEngine
from gnomon.engines.threaded import Renewing, Threaded
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import choose
from gnomon.rollout.actor import Actor
from gnomon.rollout.batches import Ahead, Batches, InTurn
from gnomon.rollout.in_flight import InFlight
from gnomon.rollout.remote_runner import RemoteRunner
from gnomon.rollout.runner import Limits, LocalRunner
from gnomon.run.makers.actor import make_selector
from gnomon.types import Sampling
from gnomon_lab.simulation.clock import SameThread
from gnomon_lab.simulation.cluster import Cluster, Engine
from gnomon_lab.simulation.environment import Calls, Waiting
from gnomon_lab.simulation.head import Head
from gnomon_lab.simulation.load import CallSeconds, Load
from gnomon_lab.simulation.samplers import Samplers
from gnomon_lab.simulation.server import Server

__all__ = ["Parts"]

T = TypeVar("T", Engine, RemoteEngine)


class Parts:
    """Made inside a running loop. Args: as in `simulate`; head: counts what passes through the process of the run."""

    actor: Actor
    """It evaluates."""
    batches: Batches
    """As `make_batches` makes them."""
    servers: list[Server]
    """They decode."""
    workers: list[Calls]
    """Those of the run, or of every sampler."""

    def __init__(self, config: RunConfig, load: Load, call: CallSeconds, env: Waiting, key: Key, head: Head) -> None:
        self.config, self.load, self.env = config, load, env
        self._tokenizer = Tokenizer(model_folder("tiny"))
        self._renderer = choose(self._tokenizer, turns=env.max_turns)
        self._shared = {"renderer": self._renderer, "tokenizer": self._tokenizer}
        self._selector = make_selector(config, env)
        self._limits = Limits(turns=config.rollout.turns or None)
        samplers = config.placement.samplers
        self.workers = [Calls(env, config.workers.count, call, load.right) for _ in range(samplers or 1)]
        if samplers:
            fleet = Samplers(config, load.speed, key, head, self._runner, self._shared)
            self._clusters = fleet.clusters
            numbers = count()
            self._schedule(lambda: RemoteEngine(fleet, next(numbers)), in_flight)
        else:
            self._clusters = [Cluster(load.servers, load.speed, key, head)]
            self._schedule(lambda: Engine(self._clusters[0], load.length), partial(Threaded, thread=SameThread()))
        self.servers = [server for cluster in self._clusters for server in cluster.members]

    def _schedule(self, engine: Callable[[], T], in_flight: Callable[[T], Renewing]) -> None:
        """Args: engine: makes one; in_flight: has it load weights while it samples."""
        rollout, steps = self.config.rollout, self.config.budget.steps
        lag = self.config.ahead
        if rollout.in_flight:
            shared = in_flight(engine())
            self.actor, *ahead = [self._acting(shared) for _ in range(lag + 2)]
            self.batches = InFlight(shared, ahead, steps)
        elif lag:
            self.actor, *ahead = [self._acting(engine()) for _ in range(lag + 2)]
            self.batches = Ahead(ahead, steps, SameThread())
        else:
            self.actor = self._acting(engine())
            self.batches = InTurn(self.actor)

    def _runner(self, number: int) -> LocalRunner:
        """A runner with an engine of its own, of the sampler with this number."""
        engine = Engine(self._clusters[number], self.load.length)
        engine.in_flight = self.config.rollout.in_flight
        return LocalRunner(
            self.env,
            self._tokenizer,
            engine,
            renderer=self._renderer,
            workers=self.workers[number],  # type: ignore[arg-type]
            limits=self._limits,
        )

    def _acting(self, engine: AnyEngine) -> Actor:
        return Actor(
            self.env,
            self._tokenizer,
            engine,
            group=self.config.rollout.group,
            sampling=Sampling(max_tokens=self.config.rollout.max_tokens),
            renderer=self._renderer,
            workers=self.workers[0],  # type: ignore[arg-type]
            limits=self._limits,
            selector=self._selector,
            runner=RemoteRunner(engine, self._shared) if isinstance(engine, Playing) else None,
        )


def in_flight(engine: RemoteEngine) -> RemoteEngine:
    """The engine, so that it loads weights while it samples."""
    engine.in_flight, engine.tier, engine.thread = True, Tier.MEASURED, SameThread()
    return engine
