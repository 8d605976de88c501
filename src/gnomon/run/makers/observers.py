"""Who watches a run: the console, the alarms, and whoever the user passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnomon.envs import offers
from gnomon.envs.base import Env
from gnomon.models.tokenizer import Tokenizer
from gnomon.monitoring import Alarms
from gnomon.monitoring.alarms import Monitor
from gnomon.monitoring.mismatch import Mismatch
from gnomon.objectives import Objective
from gnomon.run.display import Console
from gnomon.store import Observer, Run

__all__ = ["make_observers"]


def make_observers(
    store: Run,
    env: Env,
    row: Objective,
    tokenizer: Tokenizer,
    console: Console,
    tell: Callable[[str], None],
    others: Sequence[Observer],
    *,
    finer: str,
) -> list[Observer]:
    """Args: tell: takes the sentence of an alarm; others: observers that the user passed; finer: as in `Mismatch`."""
    monitor = Monitor(env.tasks("train").__getitem__, offers.sentinel(env))
    mismatch = Mismatch(lambda token: tokenizer.spell([token]), row.corrects, finer, tell, store.note)
    return [console, Alarms(monitor, tell, store.note), mismatch, *others]
