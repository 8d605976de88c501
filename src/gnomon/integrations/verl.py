"""Record the rollouts of a verl trainer in a run folder, from the dump that verl 0.9 writes of each step.

    with record("out/rollouts", "runs/verl", correct="score > 0"):  # trainer.rollout_data_dir=out/rollouts
        run_ppo(config)

`gnomon view`, `tail` and `show` read the folder while the trainer runs. verl is not imported and nothing of it is
changed: a thread reads the dump.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from gnomon.integrations.imports.files import Options
from gnomon.integrations.imports.importing import follow
from gnomon.integrations.imports.rule import rule
from gnomon.store import require_free
from gnomon.types import EMPTY

__all__ = ["record"]


@contextmanager
def record(
    dump: str | Path, folder: str | Path, *, correct: str = "", columns: Mapping[str, str] = EMPTY
) -> Iterator[None]:
    """Write the rollouts that are dumped below a folder to a new run folder, until the block ends.

    A step is stored when the next one is dumped, the last one at the end. What goes wrong with the recording is a
    warning at the end and never stops the trainer; the steps that were stored are kept.

    Args:
        dump: the folder of `trainer.rollout_data_dir`; it may not exist yet. It must hold no dump of another run.
        correct: the rule for right and wrong, such as `"score > 0"` or `"acc >= 1"`; empty for no verdicts.
        columns: fields of the dump by what they hold, where yours differ (docs/other-trainers.md).
    Raises: ConfigError E060 for a rule that cannot be read, RunError E401 where the run folder holds anything.
    """
    rule(correct)
    require_free(folder)
    stop, failed = Event(), list[Exception]()

    def run() -> None:
        try:
            follow(Path(dump), Path(folder), "verl", correct, Options(columns=columns), stop.is_set)
        except Exception as error:
            failed.append(error)

    thread = Thread(target=run, name="gnomon recorder", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        if failed:
            warnings.warn(f"the rollouts of {dump} were not all recorded: {failed[0]}", stacklevel=3)
