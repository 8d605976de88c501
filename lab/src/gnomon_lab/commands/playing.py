"""`gnomon arena`: policies play each other."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from gnomon.commands.words import Json
from gnomon.reading.lines import say
from gnomon.terminal import put

__all__ = ["arena"]


def arena(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="PLAYER PLAYER … [key=value …]", help="RUN, RUN:STEP, a model folder, or OWNER/NAME of the hub."
        ),
    ],
    env: Annotated[str, typer.Option(metavar="ENV", help="An environment for two players.")] = "kuhn_poker",
    games: Annotated[
        int, typer.Option(min=2, help="Games per pair; the players change sides after half of them.")
    ] = 200,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the ratings for the pages of the runs.")] = False,
    as_json: Json = False,
) -> None:
    """Let policies play each other and rate them: gnomon arena runs/a runs/a:20 runs/b --env kuhn_poker"""
    from dataclasses import asdict

    from gnomon.config import Source, overrides, resolve
    from gnomon.run.find import check_env_config

    players = [word for word in words if "=" not in word]
    supplied = Source({"env": env}, {"env": "--env"})
    config, _ = resolve([supplied, overrides([word for word in words if "=" in word], 2)], [check_env_config])
    from gnomon_lab.arena import arena as contest
    from gnomon_lab.arena import arena_text
    from gnomon_lab.ratings import keep as keep_ratings

    def progress(done: int, total: int) -> None:
        sys.stderr.write(f"\r{done} of {total} pairs" + ("\n" if done == total else ""))
        sys.stderr.flush()

    quiet = as_json or not sys.stderr.isatty()
    found = contest(players, config, games=games, progress=(lambda done, total: None) if quiet else progress)
    if keep:
        keep_ratings(found.standings, env)
    put(json.dumps(asdict(found), indent=1)) if as_json else say(arena_text(found))
