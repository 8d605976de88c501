"""The parts of a run, each made from its settings: the only place that names concrete classes."""

from gnomon.run.makers.actor import make_actor, make_credit
from gnomon.run.makers.batches import make_batches, make_in_flight, step_engine
from gnomon.run.makers.engine import compare_with_learner, engine_facts, make_engine
from gnomon.run.makers.learner import make_learner, make_schedule
from gnomon.run.makers.objective import make_objective
from gnomon.run.makers.observers import make_observers
from gnomon.run.makers.order import make_order
from gnomon.run.makers.workers import make_tasks, make_workers

__all__ = [
    "compare_with_learner",
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
    "step_engine",
]
