"""`gnomon import`: the rollouts of another trainer as a run folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.words import Json
from gnomon.errors import ConfigError
from gnomon.terminal import put

__all__ = ["import_rollouts"]


def import_rollouts(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="The folder or file that the trainer wrote.")],
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder to write; must not exist.")],
    fields: Annotated[
        list[str] | None,
        typer.Argument(metavar="prompt=FIELD …", help="Fields of the log: prompt, reply, reward, answer, step."),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="FORMAT", help="trl, verl, verifiers, prime-rl, inspect or jsonl.")
    ] = "",
    correct: Annotated[str, typer.Option(metavar="RULE", help='Which rollouts are right, such as "reward >= 1".')] = "",
    weight: Annotated[
        list[str] | None, typer.Option(metavar="NAME=WEIGHT", help="Weight of a reward function; can be repeated.")
    ] = None,
    held_out: Annotated[bool, typer.Option("--held-out", help="All rollouts are those of evaluations.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Import what is written from now on, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Read rollouts of another trainer into a run folder, to view, report, verify and replay them."""
    from gnomon.integrations.imports.files import Options
    from gnomon.reading.importing import follow_log, import_log

    options = Options(columns=texts(fields, "argument"), weights=numbers(weight), held_out=held_out)
    if follow:
        from gnomon.run.interrupt import stop_on_interrupt

        if not as_json:
            put(f"following {source} until Ctrl-C; in another terminal: gnomon view {folder}", flush=True)
        with stop_on_interrupt() as stop:
            facts = follow_log(
                source, folder, format, correct, options, lambda: stop.asked, silent if as_json else line
            )
    else:
        facts = import_log(source, folder, format, correct, options)
    if as_json:
        put(json.dumps(facts))
        return
    put(f"{folder}: {facts['rollouts']} rollouts of {facts['format']} in {facts['steps']} steps")
    if not correct:
        put('no verdicts, and no alarms that need them: state a rule with --correct "reward >= 1"')
    put(f"next: gnomon show {folder}")


def silent(step: int) -> None:
    pass


def line(step: int) -> None:
    put(f"step {step} is stored", flush=True)


def texts(words: list[str] | None, where: str) -> dict[str, str]:
    from gnomon.config import overrides

    return {name: str(value) for name, value in overrides(list(words or []), 3).values.items()}


def numbers(words: list[str] | None) -> dict[str, float]:
    """Raises: ConfigError E069 for a weight that is not a number."""
    result: dict[str, float] = {}
    for word in words or []:
        name, _, value = word.partition("=")
        try:
            result[name] = float(value)
        except ValueError:
            raise ConfigError("E069", f"{word!r} is not a weight", where="--weight", fix="--weight correct=1") from None
    return result
