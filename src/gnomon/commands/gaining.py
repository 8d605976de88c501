"""`gnomon gain`: what training added to a base model, beside what prompting alone gives."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.completion import run_folders
from gnomon.commands.words import Json, Trust
from gnomon.launch.lines import say
from gnomon.terminal import put

__all__ = ["gain"]


def gain(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Runs of one recipe with different seeds.", autocompletion=run_folders),
    ],
    samples: Annotated[
        int | None, typer.Option(min=2, help="Replies to every task; default: as recorded, or 8.")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=2, help="Held-out tasks; default: as recorded, or at most 64.")
    ] = None,
    shots: Annotated[int, typer.Option(min=0, help="Solved examples in the other prompt; 0: none.")] = 4,
    transfer: Annotated[str, typer.Option(metavar="ENV", help="Another environment to measure both policies on.")] = "",
    price: Annotated[float | None, typer.Option(min=0, help="Price of the machine per hour.")] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """What training added to the base model, beside what prompting alone gives: gnomon gain runs/a runs/b"""
    from gnomon.probes.gain_card import card_text
    from gnomon.studies.gain import Wanted
    from gnomon.studies.gain import gain as measured

    wanted = Wanted(samples=samples, tasks=tasks, shots=shots, transfer=transfer)
    card = measured(folders, wanted, price, trust=trust, tell=lambda sentence: put(sentence, file=sys.stderr))
    put(json.dumps(card.body(), indent=1)) if as_json else say(card_text(card))
