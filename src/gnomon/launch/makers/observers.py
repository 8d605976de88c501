"""Who watches a run: the console, the alarms, and whoever the user passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnomon.envs import offers
from gnomon.envs.base import Env
from gnomon.launch.display import Console
from gnomon.monitoring import Alarms
from gnomon.monitoring.alarms import Monitor
from gnomon.store import Observer, Run

__all__ = ["make_observers"]


def make_observers(
    store: Run, env: Env, console: Console, tell: Callable[[str], None], passed: Sequence[Observer]
) -> list[Observer]:
    """Args: tell: takes the sentence of an alarm; passed: observers that the user passed."""
    monitor = Monitor(env.tasks("train").__getitem__, offers.sentinel(env))
    return [console, Alarms(monitor, tell, store.note), *passed]
