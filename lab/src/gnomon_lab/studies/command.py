"""`gnomon study`: register, run, decide and write down."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gnomon.comparison.statistics import POWER, detectable, equivalent, require_libraries
from gnomon.errors import ConfigError, RunError
from gnomon.reading.lines import say
from gnomon.run.interrupt import interrupt_at_once
from gnomon.types import Conclusion
from gnomon_lab.studies.design import Study
from gnomon_lab.studies.folder import StudyFolder
from gnomon_lab.studies.listing import LIBRARY
from gnomon_lab.studies.memory import Room
from gnomon_lab.studies.outcome import (
    Measured,
    Outcome,
    cells_of,
    first_decided,
    measured_of,
    outcome,
    result_of,
    verdict_of,
    write_result,
)  # fmt: skip
from gnomon_lab.studies.page import write_page
from gnomon_lab.studies.progress import Progress
from gnomon_lab.studies.rates import chosen_rates, rate_cells
from gnomon_lab.studies.runs import Interrupted, budget, run_cells

__all__ = ["EXIT", "INTERRUPTED", "carried_out", "run_study", "source_of", "verify_study"]

EXIT = {Conclusion.PASS: 0, Conclusion.FAIL: 3, Conclusion.INCONCLUSIVE: 4}
INTERRUPTED = 130


def source_of(name: str) -> Path:
    """The file of a study: a path, or the name of one that ships. Raises: ConfigError E095."""
    shipped = LIBRARY / f"{name.replace('-', '_')}.py"
    if shipped.is_file():
        return shipped
    if not Path(name).is_file():
        raise ConfigError(
            "E095",
            f"there is no study {name!r}",
            why="it is neither a shipped study nor a file",
            fix="gnomon study --list",
        )
    return Path(name)


def run_study(name: str, folder: Path | None = None, jobs: int | None = None) -> int:
    """Run a study to its verdict, from where it stands. Returns: 0 PASS, 3 FAIL, 4 INCONCLUSIVE, 130 interrupted."""
    require_libraries()
    source = source_of(name)
    folder = folder or Path("studies") / source.stem.replace("_", "-")
    found = carried_out(StudyFolder.register(folder, source), jobs, f"gnomon study {name} --folder {folder}")
    return EXIT[found.verdict] if found else INTERRUPTED


def carried_out(folder: StudyFolder, jobs: int | None, again: str) -> Outcome | None:
    """Run what is left of a study, print and write what came out. Returns: None where it was interrupted.

    Args: jobs: runs at a time, one less than the processors and no more than fit the free memory unless given; again:
        the command that goes on.
    """
    room = None if jobs else Room(max(1, (os.cpu_count() or 2) - 1), say)
    jobs = jobs or (room.most if room else 1)
    announce(folder, jobs)
    try:
        with interrupt_at_once():
            if cost := budget(folder, [*rate_cells(folder.study), *cells_of(folder.study, folder.study.seeds)]):
                say(cost)
            found = look(folder, jobs, room)
    except Interrupted as error:
        say(f"{error}: {again}")
        return None
    result = write_result(folder, found)
    write_page(folder.folder, folder.study, result)
    for claim in result["claims"]:
        say(f"{claim['verdict']:<13} {claim['claim']}: {interval(claim)}")
    say(f"{verdict_of(folder.study, result)}  {folder.study.question}  ({folder.folder}/page.md)")
    return found


def look(folder: StudyFolder, jobs: int, room: Room | None = None) -> Outcome:
    """Run up to each look, and stop at the first that decides the study."""
    study = folder.study
    if trials := rate_cells(study):
        run_cells(folder, trials, jobs, Progress(folder, trials), room)
        for arm, rate in chosen_rates(folder).items():
            say(f"learning rate of {arm}: {rate:g}")

    def measure(seeds: Sequence[int]) -> Measured:
        run_cells(folder, cells_of(study, seeds), jobs, Progress(folder, cells_of(study, study.seeds)), room)
        return measured_of(folder, seeds)

    return first_decided(study, measure)


def announce(folder: StudyFolder, jobs: int) -> None:
    """What is about to run, and what it can find."""
    study = folder.study
    seeds = count_of(len(study.seeds), "seed")
    say(f"{study.question}\n{count_of(len(study.arms), 'arm')} x {seeds}, {jobs} at a time; {folder.folder}")
    if not study.exact:
        say(detectable_text(study))
    say(f"registered sha256 {folder.hash}")


def detectable_text(study: Study) -> str:
    """What every claim of a study can detect, in standard deviations of its values between seeds."""
    seeds, chance, found = len(study.seeds), f"a chance of {100 * POWER:.0f} %", list[str]()
    if any(claim.within is None for claim in study.claims):
        effect = detectable(seeds, study.share)
        found.append(f"a difference of {effect:.2f} standard deviations between seeds with {chance}")
    if any(claim.within is not None for claim in study.claims):
        margin = equivalent(seeds, study.share)
        found.append(
            f"no difference within a margin of {margin:.2f} standard deviations, if there is none, with {chance}"
        )
    runs = count_of(len(study.arms) * seeds, "run")
    return f"{runs} can show, for each claim, {'; and '.join(found)}."


def verify_study(folder: Path) -> int:
    """Say what of a study was changed after the fact. Returns: 0 where nothing was, else 1."""
    here = StudyFolder(folder)
    problems = list(here.problems())
    if not problems and (result := here.result) is not None:
        found = outcome(here.study, measured_of(here, result["seeds"]), result["seeds"])
        if result_of(here, found) != result:
            why = "its runs give other numbers"
            problems.append(RunError("E428", "result.json is not the result of the study", where=str(folder), why=why))
    for problem in problems:
        say(str(problem))
    say(f"{count_of(len(problems), 'problem')} in {folder}")
    return 1 if problems else 0


def count_of(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def interval(claim: dict[str, object]) -> str:
    low, mean, high = (claim[name] for name in ("low", "mean", "high"))
    if mean is None:
        return "runs crashed, and the study gives them no value"
    return f"{mean:+.4g}" + ("" if low is None or high is None else f" [{low:+.4g}, {high:+.4g}]")
