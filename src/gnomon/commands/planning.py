"""`gnomon plan`: memory, time and cost of a run before it begins, or beside what a run needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.completion import trainable
from gnomon.commands.examining import is_run
from gnomon.commands.words import Json, Settings
from gnomon.launch.lines import say
from gnomon.terminal import put

__all__ = ["plan"]


def plan(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|ENV|RUN", help="What to plan, or a run to compare with its plan.", autocompletion=trainable
        ),
    ],
    settings: Settings = None,
    device: Annotated[
        str, typer.Option(help="cpu, this machine, which is measured; or a GPU such as l4 or h100.")
    ] = "cpu",
    prompt: Annotated[
        int | None, typer.Option(min=1, help="Tokens per prompt; default: counted in the first tasks.")
    ] = None,
    reply: Annotated[int | None, typer.Option(min=1, help="Tokens per reply; default: rollout.max_tokens.")] = None,
    price: Annotated[float | None, typer.Option(min=0, help="Price of the device per hour.")] = None,
    as_json: Json = False,
) -> None:
    """Estimate memory, time and cost of a run before it starts: gnomon plan countdown --device l4"""
    from gnomon.config import Source, load, overrides, recorded, resolve

    run = Path(what) if is_run(what) else None
    if run:
        first = recorded(run / "recipe.toml")
    elif what.endswith(".toml"):
        first = load(Path(what))
    else:
        first = Source({"env": what}, {"env": f"the command line: {what}"})
    config, _ = resolve([first, overrides(list(settings or []), 2)])
    from gnomon.plans.command import compared, made, written

    found = made(config, device, prompt, reply, run)
    past = compared(found, run) if run else None
    if as_json:
        put(json.dumps(found.body() | ({"came_true": past} if past else {}), indent=1))
        return
    say(written(found, price, past))
