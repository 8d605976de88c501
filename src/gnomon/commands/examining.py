"""Commands that examine before or beside a run: `gnomon doctor`, `plan`, `check-weights`, `conform`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.commands.completion import trainable
from gnomon.commands.streams import status_line
from gnomon.commands.words import Json, Settings, Trust
from gnomon.errors import ConfigError
from gnomon.reading.lines import say
from gnomon.terminal import put

if TYPE_CHECKING:
    from gnomon.config import RunConfig

__all__ = ["check_weights", "config_or_run", "conform", "doctor", "plan"]


def doctor(
    what: Annotated[
        str | None, typer.Argument(metavar="[RUN|RECIPE|ENV]", help="A run folder, a recipe or an environment.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="key=value …", help="Settings of the recipe or environment.")
    ] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Find out what is wrong with a run, a recipe, or this machine. Exit code 1: something is."""
    if what is not None and names_run(what):
        from gnomon.doctor.run import examine
        from gnomon.doctor.text import diagnosis_text
        from gnomon.store import RunReader

        with RunReader(what) as reader:
            diagnosis = examine(reader, trust=trust)
        put(json.dumps(diagnosis.body(), indent=1)) if as_json else say(diagnosis_text(diagnosis))
        sys.exit(1 if diagnosis.findings else 0)
    from gnomon.doctor.text import findings_text

    if what is None:
        from gnomon.doctor.machine import faults, this_machine

        title, findings = "this machine", list(faults(this_machine(Path.cwd())))
    else:
        from gnomon.doctor.recipe import examine_recipe

        title, findings = what, examine_recipe(what, settings or [])
    put(json.dumps([each.body() for each in findings], indent=1)) if as_json else say(findings_text(title, findings))
    sys.exit(1 if findings else 0)


def check_weights(
    url: Annotated[str, typer.Argument(metavar="URL", help="The server, such as http://localhost:8000.")],
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The model folder that should be served.")],
    old: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="The version before: finds much smaller differences.")
    ] = None,
    model: Annotated[str, typer.Option(metavar="NAME", help="The served model; default: the first one.")] = "",
    key: Annotated[str, typer.Option(metavar="NAME", help="Environment variable that has the server's key.")] = "",
    seconds: Annotated[float, typer.Option(metavar="N", min=0.1, help="Time to wait for an answer.")] = 120.0,
    as_json: Json = False,
) -> None:
    """Does a server compute with the weights of a folder? Exit code 0: yes, 3: no, 4: it is unknown."""
    from gnomon.engines.served import Answer, served_text
    from gnomon.engines.served import check_weights as compared

    secret = os.environ.get(key, "") if key else ""
    if key and not secret:
        raise ConfigError("E094", f"the environment variable {key} is not set", where="--key", fix=f"export {key}=…")
    served = compared(url, folder, old=old, model=model, key=secret, seconds=seconds)
    put(json.dumps(served.body(), indent=1)) if as_json else say(served_text(served))
    sys.exit({Answer.SERVED: 0, Answer.NOT_SERVED: 3, Answer.UNKNOWN: 4}[served.answer])


def conform(
    what: Annotated[
        str,
        typer.Argument(
            metavar="TRAINER|URL",
            help="trl, verl, openrlhf, areal, a function as file.py:gradient, or the URL of a Tinker service.",
        ),
    ],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="OBJECTIVE …", help="Default: all that the trainer lists.")
    ] = None,
    python: Annotated[str, typer.Option(metavar="FILE", help="The interpreter that has the trainer.")] = sys.executable,
    model: Annotated[str, typer.Option(metavar="NAME", help="The service's model; default: the first one.")] = "",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print tables in Markdown.")] = False,
    badge: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Write the result as a badge.")] = None,
    as_json: Json = False,
) -> None:
    """Compare the gradients of another trainer with what its objectives declare. Exit code 1: one differs."""
    from gnomon.conformance import Grade, trainer
    from gnomon.conformance import conform as cells_of
    from gnomon.conformance import text as tables

    if what.startswith(("http://", "https://")):
        from gnomon.conformance.service import conform_service
        from gnomon.models.tinker import require_answer

        require_answer(what)
        os.environ["TINKER_BASE_URL"] = what
        cells = conform_service(names or (), model)
    else:
        with trainer(what, python) as gradient:
            cells = cells_of(gradient, names or ())
    if badge is not None:
        badge.write_text(tables.badge(cells), "utf-8")
    if as_json:
        put(json.dumps(tables.body(cells), indent=1))
    else:
        say(tables.markdown(cells) if markdown else tables.text(cells))
    sys.exit(1 if any(cell.grade is Grade.FAIL for cell in cells) else 0)


def names_run(word: str) -> bool:
    """Whether a word names a run folder, there or not: a path, and not that of a recipe, of rows or `file.py:Class`."""
    from gnomon.envs.rows import is_file

    other = ":" in word or "=" in word or word.endswith((".toml", ".py")) or is_file(word)
    return ("/" in word and not other) or (Path(word) / "journal.db").exists()


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
    config, run = config_or_run(what, settings)
    with status_line() as show:
        show("counting the memory and the products of a step …")
        from gnomon.plans.command import compare_with_run, plan_of, report

        forecast = plan_of(config, device, prompt, reply, run)
    past = compare_with_run(forecast, run) if run else None
    if as_json:
        put(json.dumps(forecast.body() | ({"came_true": past} if past else {}), indent=1))
        return
    say(report(forecast, price, past))


def config_or_run(what: str, settings: list[str] | None) -> tuple[RunConfig, Path | None]:
    """The settings of a recipe, an environment or a run, and the folder if it is a run."""
    from gnomon.config import overrides, recorded_recipe, resolve
    from gnomon.run.subject import layers

    if not names_run(what):
        return resolve(layers(what, settings))[0], None
    run = Path(what)
    return resolve([recorded_recipe(run / "recipe.toml"), overrides(list(settings or []), 2)])[0], run
