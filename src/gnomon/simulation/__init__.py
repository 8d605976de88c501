"""Runs in virtual time: the scheduler of a real run, with engines, environments and a learner that only wait."""

from gnomon.simulation.clock import VirtualLoop
from gnomon.simulation.cluster import Cluster, Engine
from gnomon.simulation.load import Load
from gnomon.simulation.outcome import Outcome
from gnomon.simulation.server import Speed
from gnomon.simulation.simulate import simulate

__all__ = ["Cluster", "Engine", "Load", "Outcome", "Speed", "VirtualLoop", "simulate"]
