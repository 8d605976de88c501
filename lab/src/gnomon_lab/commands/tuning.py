"""`gnomon tune-objective`: a parameter of an objective from a finished run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from gnomon.commands.words import Json, RunFolder
from gnomon.reading.lines import say
from gnomon.terminal import put

__all__ = ["tune_objective"]


def tune_objective(
    folder: RunFolder,
    metric: Annotated[str, typer.Option(help='"log p" or pass@k.')],
    family: Annotated[str, typer.Option(help="Family of rl2ml: A, B, C or D.")] = "A",
    group: Annotated[int | None, typer.Option(min=1, help="Rollouts per task in the next run.")] = None,
    noise: Annotated[
        list[float] | None,
        typer.Option(
            min=0, max=1e9, help="Variance of scores over the squared gradient of the log-odds; can be repeated."
        ),
    ] = None,
    since: Annotated[int, typer.Option(min=0, help="First step to count.")] = 0,
    as_json: Json = False,
) -> None:
    """Choose the rl2ml parameter for a metric from a finished run: gnomon tune-objective RUN --metric pass@4"""
    from gnomon.store import RunReader

    with RunReader(folder) as reader:
        from gnomon_lab.tune import tune, tune_text

        facts = tune(reader, metric_name=metric, family=family, group=group, noises=noise or (), since=since)
    put(json.dumps(facts, indent=1)) if as_json else say(tune_text(facts))
