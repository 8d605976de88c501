"""`gnomon plan`: memory, time and cost of a run before it begins, or beside what came true."""

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
        typer.Argument(metavar="RECIPE|ENV|RUN", help="What to plan, or a run to compare.", autocompletion=trainable),
    ],
    settings: Settings = None,
    device: Annotated[str, typer.Option(help="cpu, which is measured here, or a GPU of the table.")] = "cpu",
    prompt: Annotated[int | None, typer.Option(min=1, help="Tokens of a prompt; default: counted.")] = None,
    reply: Annotated[int | None, typer.Option(min=1, help="Tokens of a reply; default: rollout.max_tokens.")] = None,
    price: Annotated[float | None, typer.Option(min=0, help="Price of the device per hour.")] = None,
    as_json: Json = False,
) -> None:
    """Plan a run: memory by part, time, cost: gnomon plan countdown --device l4. Reads no weights."""
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
