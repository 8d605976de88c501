"""`gnomon simulate`: how the schedule of a run goes, before it begins."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from gnomon.commands.completion import trainable
from gnomon.commands.examining import config_or_run
from gnomon.commands.words import Json, Settings
from gnomon.errors import ConfigError
from gnomon.reading.lines import say
from gnomon.terminal import put

__all__ = ["simulate"]


def simulate(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|ENV|RUN", help="Whose batch and schedule to simulate.", autocompletion=trainable
        ),
    ],
    settings: Settings = None,
    servers: Annotated[
        int | None,
        typer.Option(min=1, help="Engines that share the requests; default: 1, and with launch=ray one per sampler."),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Most rows that an engine decodes together.")] = 512,
    token: Annotated[float, typer.Option(min=1e-6, help="Seconds of one token of all rows of an engine.")] = 0.02,
    row: Annotated[float, typer.Option(min=0, help="Seconds that every row adds to that.")] = 0.0,
    load: Annotated[float, typer.Option(min=0, help="Seconds in which an engine takes over new weights.")] = 0.0,
    failures: Annotated[
        float, typer.Option(min=0, help="Mean hours between two failures of an engine or sampler; 0: none fails.")
    ] = 0.0,
    restart: Annotated[
        float, typer.Option(min=0, help="Seconds until a failed engine decodes again, or a sampler.")
    ] = 60.0,
    reply: Annotated[float, typer.Option(min=1, help="Tokens of a reply at the median.")] = 200.0,
    reply_spread: Annotated[float, typer.Option(min=0, help="Its spread: σ of a log-normal distribution.")] = 0.5,
    turns: Annotated[int, typer.Option(min=1, help="Replies per episode.")] = 1,
    call: Annotated[
        float, typer.Option(min=0, help="Seconds of a call of the environment or its verifier at the median.")
    ] = 0.0,
    call_spread: Annotated[float, typer.Option(min=0, help="Its spread: σ of a log-normal distribution.")] = 1.0,
    train: Annotated[float, typer.Option(min=0, help="Seconds of training per step.")] = 1.0,
    train_token: Annotated[float, typer.Option(min=0, help="Seconds that every sampled token adds to that.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Simulate the schedule of a run in virtual time: gnomon simulate countdown rollout.lag=2 --call 2"""
    from math import inf

    config, _ = config_or_run(what, settings)
    if servers and config.placement.samplers:
        raise ConfigError(
            "E197",
            "--servers cannot be combined with launch=ray",
            where="--servers",
            why="every sampler has one engine",
            fix=f"launch.samplers={servers}, or launch=local",
        )
    import gnomon_lab.simulation as simulation
    from gnomon.run.find import make_env

    make_env(config.env)  # A name that does not exist is refused, although nothing of the environment is played.

    speed = simulation.Speed(
        rows=rows, token=token, row=row, load=load, between_failures=3600 * failures or inf, restart=restart
    )
    found = simulation.simulate(
        config,
        simulation.Load(
            servers=servers or 1,
            speed=speed,
            reply=reply,
            reply_spread=reply_spread,
            turns=turns,
            call=call,
            call_spread=call_spread,
            train=train,
            train_token=train_token,
        ),
    )
    if as_json:
        put(json.dumps(found.body(), indent=1))
        return
    say(found.text())
