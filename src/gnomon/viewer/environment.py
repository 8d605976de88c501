"""An environment: what it asks and what decides the reward, and the runs of it, for pages.

The code of an environment that ships is read. Of any other, the page has what its runs recorded; nothing is imported.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from gnomon.envs import ENVS
from gnomon.envs.gallery import example, facts, judge_source, options, summary
from gnomon.store import RunReader
from gnomon.store.codec import text_of
from gnomon.viewer.requests import NotShown

__all__ = ["environment_facts", "environment_rows"]

DRAWN = 16
"""Runs whose curves are drawn: the last ones."""
IMPORTED = "imported from "
"""Of a run of another program; its environment has no name."""
Rows = Sequence[Mapping[str, Any]]
"""A row of facts about every run (`Runs.rows`), the last one first."""


def environment_rows(runs: Rows) -> list[dict[str, Any]]:
    """Name, summary and number of runs of every environment: those that ship, and those of runs."""
    used = [row["env"] for row in runs if row.get("env") and not row["env"].startswith(IMPORTED)]
    names = [*sorted(ENVS), *sorted({*used} - {*ENVS})]
    return [
        {"name": name, "summary": summary(name) if name in ENVS else None, "runs": used.count(name)} for name in names
    ]


def environment_facts(name: str, runs: Rows, folders: Mapping[str, Path]) -> dict[str, Any]:
    """The facts of one environment. Raises: NotShown for one that neither ships nor has a run."""
    own = [row for row in runs if row.get("env") == name]
    if not own and name not in ENVS:
        names = [row["name"] for row in environment_rows(runs)]
        near = {each: f"/environment/{quote(each)}" for each in difflib.get_close_matches(name, names, 5)}
        raise NotShown(f"No environment is named {name!r}.", near)
    rows = [{**row, "audit": receipt(folders[row["name"]])} for row in own]
    word = shlex.quote(name)
    return {
        "name": name,
        "code": code_facts(name) if name in ENVS else None,
        "prompt": None if name in ENVS else recorded_prompt(folders[own[0]["name"]]),
        "commands": [f"gnomon {verb} {word}" for verb in ("play", "check", "audit", "train")],
        "runs": rows,
        "drawn": urlencode([("run", row["name"]) for row in own[:DRAWN]]),
        "left_out": max(0, len(own) - DRAWN),
    }


@cache
def code_facts(name: str) -> dict[str, Any]:
    """What the code of an environment that ships says."""
    own = {key: repr(value) for key, value in options(name).items()}
    return facts(name) | {"options": own, "example": example(name), "source": judge_source(name)}


def receipt(folder: Path) -> Mapping[str, Any]:
    """What the audit before a run found; empty without one."""
    with RunReader(folder) as reader:
        return dict(reader.manifest.get("audit") or {})


def recorded_prompt(folder: Path) -> str:
    """The first prompt that a run recorded; empty before it did."""
    with RunReader(folder) as reader, reader.snapshot():
        task = next(iter(reader.records(kind="task")), None)
    return "\n".join(map(text_of, task.body["messages"])) if task else ""
