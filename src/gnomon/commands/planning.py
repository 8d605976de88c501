"""`gnomon plan`: what a run needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.commands.completion import trainable
from gnomon.commands.examining import is_run
from gnomon.commands.words import Json, Settings
from gnomon.reading.lines import say
from gnomon.terminal import put

if TYPE_CHECKING:
    from gnomon.config import RunConfig

__all__ = ["configured", "plan"]


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
    config, run = configured(what, settings)
    from gnomon.plans.command import compared, plan_of, report

    found = plan_of(config, device, prompt, reply, run)
    past = compared(found, run) if run else None
    if as_json:
        put(json.dumps(found.body() | ({"came_true": past} if past else {}), indent=1))
        return
    say(report(found, price, past))


def configured(what: str, settings: list[str] | None) -> tuple[RunConfig, Path | None]:
    """The settings of a recipe, an environment or a run, and the folder if it is a run."""
    from gnomon.config import overrides, recorded, resolve
    from gnomon.run.subject import layers

    if not is_run(what):
        return resolve(layers(what, settings))[0], None
    run = Path(what)
    return resolve([recorded(run / "recipe.toml"), overrides(list(settings or []), 2)])[0], run
