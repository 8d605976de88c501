"""`gnomon gain`, `compare`, `transfer`, `diff` and `diverge`: what training added, and what differs between runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.completion import run_folders
from gnomon.commands.words import Json, RunFolder, Trust
from gnomon.errors import ConfigError
from gnomon.reading.lines import say
from gnomon.terminal import put

__all__ = ["compare", "diff", "diverge", "gain", "transfer"]


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
    from gnomon.comparison.gain import Sizes
    from gnomon.comparison.gain import gain as card_of
    from gnomon.comparison.gain_card import card_text

    sizes = Sizes(samples=samples, tasks=tasks, shots=shots, transfer=transfer)
    card = card_of(folders, sizes, price, trust=trust, tell=lambda sentence: put(sentence, file=sys.stderr))
    put(json.dumps(card.body(), indent=1)) if as_json else say(card_text(card))


def diverge(
    a: RunFolder,
    b: RunFolder,
    tolerance: Annotated[
        float, typer.Option(min=0, help="Of log-probabilities in nats; of advantages and norms relative.")
    ] = 1e-6,
    as_json: Json = False,
) -> None:
    """Find the first stage in which two runs of one recipe differ, also of imported logs. Exit code 1: they do."""
    from gnomon.comparison.diverge import diverge as parting

    divergence = parting(a, b, tolerance)
    put(json.dumps(divergence.body(), indent=1)) if as_json else say(str(divergence))
    sys.exit(1 if divergence else 0)


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN …", help="Run folders.", autocompletion=run_folders)],
    of: Annotated[str, typer.Option("--set", metavar="NAME", help="An evaluation set, not the main evaluation.")] = "",
) -> None:
    """Compare finished runs, paired by seed: gnomon compare runs/a0 runs/a1 runs/b0 runs/b1"""
    from gnomon.comparison.runs import compare_groups, comparison_text, group_runs
    from gnomon.comparison.statistics import require_libraries

    require_libraries()
    groups = group_runs(runs, of)
    if len(groups) < 2:
        what = "the runs have the same settings, so there is nothing to compare"
        raise ConfigError("E097", what, why="they differ only in the seed", fix="gnomon compare RUN OTHER")
    say(comparison_text(groups, compare_groups(groups)))


def transfer(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN …", help="Run folders.", autocompletion=run_folders)],
    as_json: Json = False,
) -> None:
    """Print what runs gained on every evaluation set and what later runs lost: gnomon transfer runs/a runs/b"""
    from gnomon.comparison.statistics import require_libraries
    from gnomon.comparison.transfer import transfer as compared
    from gnomon.comparison.transfer import transfer_text

    require_libraries()
    result = compared(runs)
    put(json.dumps(result.body(), indent=1)) if as_json else say(transfer_text(result))


def diff(a: RunFolder, b: RunFolder, as_json: Json = False) -> None:
    """Compare two runs: settings, metrics, and the first record that differs."""
    from dataclasses import asdict

    from gnomon.store import diff as parting

    difference = parting(a, b)
    put(json.dumps(asdict(difference), indent=1, default=str)) if as_json else say(str(difference))
    sys.exit(0 if not difference.parted else 1)
