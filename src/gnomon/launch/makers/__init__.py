"""The parts of a run, each made from its settings: the only place that names concrete classes."""

from gnomon.launch.makers.actor import make_actor, make_credit
from gnomon.launch.makers.batches import make_batches
from gnomon.launch.makers.engine import engine_facts, make_engine, make_in_flight, measured
from gnomon.launch.makers.learner import make_learner, make_schedule
from gnomon.launch.makers.objective import make_objective
from gnomon.launch.makers.observers import make_observers
from gnomon.launch.makers.order import make_order
from gnomon.launch.makers.tasks import make_tasks
from gnomon.launch.makers.workers import make_workers

__all__ = [
    "engine_facts",
    "make_actor",
    "make_batches",
    "make_credit",
    "make_engine",
    "make_in_flight",
    "make_learner",
    "make_objective",
    "make_observers",
    "make_order",
    "make_schedule",
    "make_tasks",
    "make_workers",
    "measured",
]
