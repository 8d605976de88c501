"""`gnomon compare`, `gnomon transfer`, `gnomon ablate` and `gnomon scaling`: what runs say about settings."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gnomon.commands.completion import run_folders, trainable
from gnomon.commands.words import Json, Settings
from gnomon.errors import ConfigError
from gnomon.launch.lines import say
from gnomon.terminal import put

__all__ = ["ablate", "compare", "scaling", "transfer"]

What = Annotated[
    str,
    typer.Argument(metavar="ENV|RECIPE", help="An environment, or a recipe ending in .toml.", autocompletion=trainable),
]
Seeds = Annotated[int, typer.Option(min=2, help="Seeds of every arm.")]
Folder = Annotated[Path | None, typer.Option(help="Folder of the study; default: one in studies.")]
Jobs = Annotated[int | None, typer.Option(help="Number of runs at a time; default: processors minus one.")]


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN …", help="Run folders.", autocompletion=run_folders)],
    of: Annotated[str, typer.Option("--set", metavar="NAME", help="An evaluation set, not the main evaluation.")] = "",
) -> None:
    """Compare finished runs, paired by seed: gnomon compare runs/a0 runs/a1 runs/b0 runs/b1"""
    from gnomon.studies.command import require_libraries
    from gnomon.studies.comparing import compared, comparison_text, grouped

    require_libraries()
    groups = grouped(runs, of)
    if len(groups) < 2:
        what = "the runs have the same settings, so there is nothing to compare"
        raise ConfigError("E097", what, why="they differ only in the seed", fix="gnomon compare RUN OTHER")
    say(comparison_text(groups, compared(groups)))


def transfer(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN …", help="Run folders.", autocompletion=run_folders)],
    as_json: Json = False,
) -> None:
    """Print what runs gained on every evaluation set and what later runs lost: gnomon transfer runs/a runs/b"""
    from gnomon.studies.command import require_libraries
    from gnomon.studies.transfer import transfer as compared
    from gnomon.studies.transfer import transfer_text

    require_libraries()
    found = compared(runs)
    put(json.dumps(found.body(), indent=1)) if as_json else say(transfer_text(found))


def ablate(
    what: What,
    settings: Settings = None,
    factor: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A change to try instead of the default list; can be repeated."),
    ] = None,
    margin: Annotated[float, typer.Option(help="Effects up to this difference in pass@1 do not matter.")] = 0.05,
    seeds: Seeds = 8,
    folder: Folder = None,
    jobs: Jobs = None,
) -> None:
    """Change one setting at a time and report which settings matter: gnomon ablate char_count steps=20"""
    from gnomon.studies.command import INTERRUPTED, carried_out, require_libraries
    from gnomon.studies.written import ablation, ablation_text, base_of, factors_of, possible, registered

    require_libraries()
    shared = chosen(settings)
    wanted = {word: chosen([word]) for word in factor or ()} or factors_of(base_of(what, shared))
    factors, refused = possible(what, shared, wanted)
    for name, why in refused.items():
        say(f"left out: {name} ({why})")
    if not factors:
        raise ConfigError(
            "E097",
            "the recipe accepts none of the changes to try",
            fix=f"gnomon ablate {what} --factor rollout.group=4",
        )
    folder = folder or Path("studies") / f"ablate-{Path(what).stem}"
    found = carried_out(registered(folder, ablation(what, shared, factors, seeds, margin)), jobs, again(folder))
    if found is None:
        sys.exit(INTERRUPTED)
    say(ablation_text(found, margin))


def scaling(
    what: What,
    values: Annotated[
        str,
        typer.Argument(metavar="KEY=V1,V2,…", help="A setting and its values; examples is the number of train tasks."),
    ],
    settings: Settings = None,
    seeds: Seeds = 8,
    folder: Folder = None,
    jobs: Jobs = None,
) -> None:
    """Train with several values of one setting: gnomon scaling char_count examples=1,4,16,64 steps=20"""
    from gnomon.studies.command import INTERRUPTED, carried_out, require_libraries
    from gnomon.studies.written import registered, scaling_text
    from gnomon.studies.written import scaling as scaled

    require_libraries()
    key, _, listed = values.partition("=")
    each = [value for word in listed.split(",") if word for value in chosen([f"{key}={word}"]).values()]
    if len(set(map(str, each))) < 2:
        raise ConfigError(
            "E097", f"{values!r} has fewer than two different values", fix=f"gnomon scaling {what} examples=1,4,16"
        )
    key = next(iter(chosen([f"{key}=1"])))
    folder = folder or Path("studies") / f"scaling-{Path(what).stem}-{key.rpartition('.')[2]}"
    found = carried_out(registered(folder, scaled(what, chosen(settings), key, each, seeds)), jobs, again(folder))
    if found is None:
        sys.exit(INTERRUPTED)
    say(scaling_text(found, key, each))


def chosen(words: list[str] | None) -> dict[str, Any]:
    """`key=value` words as dotted keys. Raises: ConfigErrors for a word without `=`."""
    from gnomon.config import leaves, overrides

    return leaves(overrides(words or [], 2).values)


def again(folder: Path) -> str:
    """The command that goes on."""
    return f"gnomon study {folder / 'study.py'} --folder {folder}"
