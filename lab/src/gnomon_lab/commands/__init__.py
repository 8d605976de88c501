"""The commands of the laboratory, as `gnomon` finds them by its entry point."""

from __future__ import annotations

import typer

from gnomon_lab.commands import building, playing, predicting, probing, simulating, studying, tuning

__all__ = ["add"]


def add(app: typer.Typer) -> None:
    """Add the commands to those of `gnomon`."""
    app.command()(studying.study)
    app.command()(studying.ablate)
    app.command()(studying.scaling)
    app.add_typer(predicting.app, name="predict")
    app.add_typer(probing.app, name="probe")
    app.command()(simulating.simulate)
    app.command()(playing.arena)
    app.command("tune-objective")(tuning.tune_objective)
    app.add_typer(building.app, name="base")
