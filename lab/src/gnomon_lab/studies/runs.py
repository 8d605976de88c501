"""Arms × seeds in a pool of processes that are forked from one which has imported the libraries."""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

from gnomon.errors import GnomonError
from gnomon.run.interrupt import stop_asked
from gnomon.store.layout import JOURNAL
from gnomon_lab.studies.budget import planned_arms, send_budget
from gnomon_lab.studies.design import Numbers, load, numbers_of
from gnomon_lab.studies.folder import Cell, StudyFolder
from gnomon_lab.studies.memory import Room
from gnomon_lab.studies.rates import chosen_rate

__all__ = ["Interrupted", "budget", "run_cells"]

PRELOAD = (
    "torch",
    "transformers.modeling_utils",
    "transformers.models.auto.modeling_auto",
    "gnomon.run.resume",
    "gnomon.run.start",
    "gnomon.run.display",
    "gnomon_lab.studies.runs",
)
"""None of them starts a thread when it is imported."""
CRASHED = 70
"""Exit status of a run that raised; one that was killed is taken up again."""


class Teller(Protocol):
    """Tells a person how far the runs are."""

    def running(self, cells: Sequence[Cell]) -> None:
        """Called at least once a second, with the runs in progress."""
        ...

    def on_end(self, cell: Cell, seconds: float) -> None:
        """Called after each finished cell, with its duration."""
        ...


class Interrupted(Exception):
    """SIGINT or SIGTERM, or a run that was killed: what is missing is run by the next call."""


def run_cells(folder: StudyFolder, cells: Sequence[Cell], jobs: int, teller: Teller, room: Room | None = None) -> None:
    """Run what is not done, `jobs` at a time, or fewer if `room` has memory for fewer.

    A run that raises is a crash: it is noted and not tried again. A run that was cut off is resumed.

    Raises: Interrupted after KeyboardInterrupt, when every running run has ended after its step; or for a killed run.
    """
    context = fork_server()
    waiting = [cell for cell in cells if not folder.done(cell)]
    running: dict[BaseProcess, tuple[Cell, float]] = {}
    killed: list[Cell] = []
    try:
        while waiting or running:
            while waiting and len(running) < (room.at_once(process_ids(running)) if room else jobs):
                cell = waiting.pop(0)
                process: BaseProcess = context.Process(target=run_cell, args=(folder.folder, cell))
                process.start()
                running[process] = cell, time.monotonic()
            ended = wait([process.sentinel for process in running], Room.EVERY if room and room.most > 1 else 1.0)
            teller.running([cell for cell, _ in running.values()])
            if room and ended:
                room.first_ended()
            elif room:
                room.at_once(process_ids(running))
            for gone in [process for process in running if process.sentinel in ended]:
                gone.join()
                cell, began = running.pop(gone)
                if folder.done(cell):
                    teller.on_end(cell, time.monotonic() - began)
                else:
                    killed.append(cell)
    except KeyboardInterrupt:
        end(list(running))
        raise Interrupted("interrupted; the same command goes on") from None
    except BaseException:
        end(list(running))
        raise
    if killed:
        raise Interrupted(f"{', '.join(map(str, killed))} did not end; the same command goes on")


def fork_server() -> ForkServerContext:
    """Starts processes from one that has imported the libraries."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOAD))
    return context


def budget(folder: StudyFolder, cells: Sequence[Cell]) -> str:
    """What these runs will cost, by their plan; empty if none of them is worth a plan, or one has begun.

    Raises: ResourceError E507 for a run that does not fit the memory.
    """
    planned = planned_arms(folder.study)
    left = [cell for cell in cells if cell.arm in planned]
    if not left or any(folder.log(cell).exists() for cell in left):
        return ""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = fork_server().Process(target=send_budget, args=(theirs, folder.file, left))
    process.start()
    theirs.close()
    try:
        found: str | GnomonError = ours.recv()
    except (KeyboardInterrupt, EOFError):
        process.terminate()
        raise Interrupted("interrupted; the same command goes on") from None
    process.join()
    if isinstance(found, GnomonError):
        raise found
    return found


def process_ids(processes: Iterable[BaseProcess]) -> list[int]:
    return [process.pid for process in processes if process.pid is not None]


def end(processes: Sequence[BaseProcess]) -> None:
    """Let runs end after their step."""
    for process in processes:
        if process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
    for process in processes:
        process.join()


def run_cell(folder: Path, cell: Cell) -> None:
    """In a process of its own: one run, or one call of an arm's function."""
    end_with_the_study()
    os.setsid()  # A terminal's Ctrl-C reaches the study alone, which passes SIGTERM on.
    here = StudyFolder(folder)
    for path in (here.log(cell), here.crash(cell), here.numbers(cell), here.run(cell)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with here.log(cell).open("a", encoding="utf-8") as log:
        fcntl.flock(log, fcntl.LOCK_EX)  # A process of a study that was killed may need a moment to end.
        if here.done(cell):
            return
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            make_cell(here, cell)
        except Exception as error:
            if stop_asked():
                return  # The function may not expect a run that ended early.
            text = str(error) if isinstance(error, GnomonError) else traceback.format_exc()
            here.write_crash(cell, text)
            sys.exit(CRASHED)


def end_with_the_study() -> None:
    """Watch the study from a thread, and end this process when it has gone.

    A request to the kernel would name the fork server, which lives on as long as one of its processes does.
    """
    study = multiprocessing.parent_process()
    if study is None:
        return

    def watch() -> None:
        study.join()
        os._exit(CRASHED)

    threading.Thread(target=watch, name="end with the study", daemon=True).start()


def make_cell(folder: StudyFolder, cell: Cell) -> None:
    """Make what a cell is of, from where it stands."""
    from gnomon.run.display import Silent
    from gnomon.run.resume import resume
    from gnomon.run.start import start

    study = load(folder.file)
    function, run = numbers_of(study, cell.arm), folder.run(cell)
    if function is not None:
        numbers = call_function(function, cell.seed, folder.arm_folder(cell))
        if stop_asked():
            return  # They may be those of a run that ended early.
        folder.write_numbers(cell, {name: float(value) for name, value in numbers.items()})
    elif (run / JOURNAL).exists():
        resume(run, Silent()).close()
    else:
        shutil.rmtree(run, ignore_errors=True)  # A run that was killed before it was one.
        rate = cell.rate or (chosen_rate(folder, cell.arm) if study.rates_of(cell.arm) else None)
        config = study.config(cell.arm, cell.seed, rate, trial=cell.rate is not None)
        start(run, config, Silent(), genesis={"study": folder.hash}).close()


def call_function(function: Numbers, seed: int, kept: Path) -> Mapping[str, float]:
    """The measures of one seed. What an earlier call that did not end left in the folder is deleted."""
    if "folder" not in inspect.signature(function).parameters:
        return function(seed)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    return function(seed, folder=kept)
