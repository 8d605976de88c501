"""`gnomon doctor`: what is wrong with this machine, with a recipe or environment, or with a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.words import Json, Trust
from gnomon.launch.lines import say
from gnomon.terminal import put

__all__ = ["doctor"]


def doctor(
    what: Annotated[
        str | None, typer.Argument(metavar="[RUN|RECIPE|ENV]", help="A run folder, a recipe or an environment.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="key=value …", help="Settings of the recipe or environment.")
    ] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Find out what is wrong with a run, a recipe, or this machine. Exit code 1: something is."""
    if what is not None and is_run(what):
        from gnomon.doctor.run import examine
        from gnomon.doctor.text import diagnosis_text
        from gnomon.store import RunReader

        with RunReader(what) as reader:
            found = examine(reader, trust=trust)
        put(json.dumps(found.body(), indent=1)) if as_json else say(diagnosis_text(found))
        sys.exit(1 if found.findings else 0)
    from gnomon.doctor.text import findings_text

    if what is None:
        from gnomon.doctor.machine import faults, this_machine

        title, findings = "this machine", list(faults(this_machine(Path.cwd())))
    else:
        from gnomon.doctor.recipe import examine_recipe

        title, findings = what, examine_recipe(what, settings or [])
    put(json.dumps([each.body() for each in findings], indent=1)) if as_json else say(findings_text(title, findings))
    sys.exit(1 if findings else 0)


def is_run(word: str) -> bool:
    """Whether a word names a run folder, there or not: a path, and not that of a recipe, of rows or `file.py:Class`."""
    from gnomon.envs.rows import is_file

    other = ":" in word or "=" in word or word.endswith((".toml", ".py")) or is_file(word)
    return ("/" in word and not other) or (Path(word) / "journal.db").exists()
