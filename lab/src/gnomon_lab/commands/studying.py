"""`gnomon study`, `gnomon ablate` and `gnomon scaling`: questions that are answered by runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gnomon.commands.completion import trainable
from gnomon.commands.streams import Finished
from gnomon.commands.words import Settings
from gnomon.errors import ConfigError
from gnomon.reading.lines import say

__all__ = ["ablate", "scaling", "study"]

What = Annotated[
    str,
    typer.Argument(metavar="ENV|RECIPE", help="An environment, or a recipe ending in .toml.", autocompletion=trainable),
]
Seeds = Annotated[int, typer.Option(min=2, help="Seeds of every arm.")]
Folder = Annotated[Path | None, typer.Option(help="Folder of the study; default: one in studies.")]
Jobs = Annotated[int | None, typer.Option(help="Number of runs at a time; default: processors minus one.")]


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
    from gnomon.comparison.statistics import require_libraries
    from gnomon_lab.studies.command import INTERRUPTED, carried_out
    from gnomon_lab.studies.written import ablation, ablation_text, base_of, factors_of, possible, register_text

    require_libraries()
    shared = parse_settings(settings)
    wanted = {word: parse_settings([word]) for word in factor or ()} or factors_of(base_of(what, shared))
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
    found = carried_out(register_text(folder, ablation(what, shared, factors, seeds, margin)), jobs, again(folder))
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
    from gnomon.comparison.statistics import require_libraries
    from gnomon_lab.studies.command import INTERRUPTED, carried_out
    from gnomon_lab.studies.written import register_text, scaling_text
    from gnomon_lab.studies.written import scaling as scaled

    require_libraries()
    key, _, listed = values.partition("=")
    each = [value for word in listed.split(",") if word for value in parse_settings([f"{key}={word}"]).values()]
    if len(set(map(str, each))) < 2:
        raise ConfigError(
            "E097", f"{values!r} has fewer than two different values", fix=f"gnomon scaling {what} examples=1,4,16"
        )
    key = next(iter(parse_settings([f"{key}=1"])))
    folder = folder or Path("studies") / f"scaling-{Path(what).stem}-{key.rpartition('.')[2]}"
    found = carried_out(
        register_text(folder, scaled(what, parse_settings(settings), key, each, seeds)), jobs, again(folder)
    )
    if found is None:
        sys.exit(INTERRUPTED)
    say(scaling_text(found, key, each))


def parse_settings(words: list[str] | None) -> dict[str, Any]:
    """`key=value` words as dotted keys. Raises: ConfigErrors for a word without `=`."""
    from gnomon.config import leaves, overrides

    return leaves(overrides(words or [], 2).values)


def again(folder: Path) -> str:
    """The command that goes on."""
    return f"gnomon study {folder / 'study.py'} --folder {folder}"


def study(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME|FILE", help="A study that ships, or a Python file.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Folder of the study; default: studies/NAME.")] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Number of runs at a time; default: processors minus one, or what fits the free memory."),
    ] = None,
    every: Annotated[bool, typer.Option("--list", help="List the studies with their verdicts.")] = False,
) -> None:
    """Answer a question by runs: gnomon study length-bias. Exit 0 PASS, 3 FAIL, 4 INCONCLUSIVE."""
    from gnomon_lab.studies.command import run_study
    from gnomon_lab.studies.listing import listed_text

    if every or name is None:
        say(listed_text())
        return
    raise Finished(run_study(name, folder, jobs))
