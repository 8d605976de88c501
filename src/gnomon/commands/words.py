"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.completion import env_names, run_folders, settings, tracker_names

__all__ = ["EnvName", "Json", "Observe", "RunFolder", "Settings", "Trust"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Settings = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="key=value …", help="Settings, such as steps=50; gnomon config show lists all.", autocompletion=settings
    ),
]
Observe = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRACKER", help="mlflow, tensorboard, trackio or wandb; can be repeated.", autocompletion=tracker_names
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", autocompletion=run_folders)]
Trust = Annotated[
    bool, typer.Option("--trust", help="Run the code that the run folder names, even if you did not write it.")
]
EnvName = Annotated[
    str,
    typer.Argument(
        metavar="ENV", help="A built-in name, package.module:Class or file.py:Class.", autocompletion=env_names
    ),
]
