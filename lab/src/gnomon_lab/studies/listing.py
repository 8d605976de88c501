"""The studies that ship and those of a folder, with what came out of each."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon_lab.studies.design import Study, load
from gnomon_lab.studies.moves import LIBRARY, is_registered
from gnomon_lab.studies.outcome import unrewarded, verdict_of

__all__ = [
    "LIBRARY",
    "RESULTS",
    "Listed",
    "by_chance",
    "library",
    "list_studies",
    "listed_text",
    "publish",
    "shipped_result",
]

RESULTS = Path(__file__).with_name("results")
"""What came out of the studies that ship, one JSON file each."""
NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A study and where it stands."""

    name: str
    study: Study
    command: str
    verdict: str
    """`not run` where there is no result of the file as it is now; `withdrawn`, with the reason, where no arm was ever
    rewarded."""
    date: str
    """Of the result, as 2026-11-23; empty without one."""
    result: Mapping[str, Any] | None

    @property
    def pretrained(self) -> bool:
        """Whether its policy is SmolLM2 or Gemma. The name says so, since the arms may be functions."""
        return self.name.startswith(("smollm2-", "gemma-"))

    @property
    def counts(self) -> bool:
        """Whether it has a result that decides by its pass lines."""
        return self.result is not None and not unrewarded(self.study, self.result)

    @property
    def seeds(self) -> str:
        """How many were used, or are asked for where there is no result; `exact` where the numbers have no scatter."""
        if self.study.exact:
            return "exact"
        return f"{len(self.result['seeds'] if self.result else self.study.seeds)} seeds"


def library() -> dict[str, Path]:
    """The file of every study that ships, by name."""
    return {path.stem.replace("_", "-"): path for path in sorted(LIBRARY.glob("[!_]*.py"))}


def list_studies(folder: Path = Path("studies")) -> list[Listed]:
    """The studies that ship, and those of a folder. A result of the folder comes before the one that ships."""
    others = {path.parent.name: path for path in sorted(folder.glob("*/study.py"))}
    return [entry(name, path, folder / name) for name, path in sorted((others | library()).items())]


def entry(name: str, path: Path, folder: Path) -> Listed:
    found = own(folder) or shipped_result(name, path) or {}
    ships, study = path.parent == LIBRARY, load(path, settings=False)
    date = found.pop("date", "")
    return Listed(
        name=name,
        study=study,
        command=f"gnomon study {name}" if ships else f"gnomon study {path} --folder {folder}",
        verdict=verdict_of(study, found) if found else NOT_RUN,
        date=date,
        result=found or None,
    )


def own(folder: Path) -> dict[str, Any] | None:
    """The result in a study's folder, with its date; None before the end."""
    done = folder / "result.json"
    if not done.exists():
        return None
    date = time.strftime("%Y-%m-%d", time.gmtime(done.stat().st_mtime))
    return {"date": date, **json.loads(done.read_text("utf-8"))}


def shipped_result(name: str, file: Path) -> dict[str, Any] | None:
    """The result that ships, with its date; None where there is none of this file of a study."""
    path = RESULTS / f"{name}.json"
    if not path.exists() or not is_registered(file, (found := dict(json.loads(path.read_text("utf-8"))))["sha256"]):
        return None
    return found


def publish(folder: Path) -> list[str]:
    """Make the finished studies of a folder the results that ship. Returns: their names.

    A study whose file is not the one of the library is left out.
    """
    done = []
    for name, path in library().items():
        found = own(folder / name)
        if found and is_registered(path, found["sha256"]):
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")
            done.append(name)
    return done


def by_chance(rows: Sequence[Listed]) -> str:
    """How many verdicts there are, on a pretrained model too, and how many of them chance alone would give."""
    drawn = [row for row in rows if row.counts and not row.study.exact]
    exact = sum(row.counts and row.study.exact for row in rows)
    wrong = sum(row.study.alpha for row in drawn)
    pretrained = sum(row.counts and row.pretrained for row in rows)
    return (
        f"Of {exact + len(drawn)} studies with a verdict, {exact} have exact numbers, which chance cannot change. The "
        f"numbers of the other {len(drawn)} vary between seeds. If there is no real difference, such a study still "
        "ends in PASS or FAIL with a probability of at most 5 %, half of it for PASS. On average, chance alone decides "
        f"at most {wrong:.2g} of these {len(drawn)} studies, and 2.5 of fifty. "
        f"{pretrained} studies with a verdict have SmolLM2 or Gemma as their policy."
    )


def listed_text() -> str:
    """For a terminal."""
    rows = list_studies()
    return "\n".join([*map(line, rows), "", *textwrap.wrap(by_chance(rows), 100)])


def line(row: Listed) -> str:
    verdict, _, reason = row.verdict.partition(": ")
    question = f"{row.study.question} ({reason})" if reason else row.study.question
    return f"{verdict:<13}{row.date:<12}{row.seeds:<10}{row.command}\n    {question}"
