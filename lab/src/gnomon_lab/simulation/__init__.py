"""Runs in virtual time: the scheduler of a real run, with engines, environments and a learner that only wait."""

from gnomon_lab.simulation.clock import VirtualLoop
from gnomon_lab.simulation.cluster import Cluster, Engine
from gnomon_lab.simulation.load import Load
from gnomon_lab.simulation.outcome import Outcome
from gnomon_lab.simulation.server import Speed
from gnomon_lab.simulation.simulate import simulate

__all__ = ["Cluster", "Engine", "Load", "Outcome", "Speed", "VirtualLoop", "simulate"]
