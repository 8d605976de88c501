"""Commands that judge stored rollouts again: `gnomon alarms` and `replay`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.env_options import options_of
from gnomon.commands.streams import counter
from gnomon.commands.words import Json, RunFolder, Settings, Trust
from gnomon.reading.lines import say
from gnomon.terminal import put

__all__ = ["alarms", "replay"]


def alarms(
    folder: RunFolder,
    sentinel: Annotated[
        str, typer.Option(metavar="NAME|file.py:Class", help="A second verifier to compare with the run's own.")
    ] = "",
    settings: Settings = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """List signs of reward hacking and of training that makes no progress. Exit code 1: there is at least one."""
    from gnomon.monitoring.alarms import alarms as signs
    from gnomon.rejudge.replay import monitor
    from gnomon.store import RunReader

    with RunReader(folder) as reader:
        watch = monitor(folder, sentinel, options_of(settings), trust=trusted(folder, trust))
        reports = list(signs(reader, watch))
        steps = reader.steps
    if as_json:
        put(json.dumps({"steps": steps, "alarms": [alarm.body() for alarm in reports]}, indent=1))
    else:
        from gnomon.reading.summary import alarm_text

        lines = [alarm_text(str(folder), alarm.body()) for alarm in reports]
        say("\n".join([*lines, f"{len(lines)} alarm{'s' * (len(lines) != 1)} in {steps} step{'s' * (steps != 1)}"]))
    sys.exit(1 if reports else 0)


def replay(
    folder: RunFolder,
    settings: Settings = None,
    verifier: Annotated[
        str, typer.Option(metavar="NAME|file.py:Class", help="Another verifier or environment; default: the run's own.")
    ] = "",
    seconds: Annotated[float, typer.Option(min=0.01, help="CPU time limit per reply, in seconds.")] = 5.0,
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 1,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Judge every stored rollout again and list changed verdicts: gnomon replay RUN env.strictness=last"""
    from gnomon.rejudge.replay import replay as judge_again
    from gnomon.rejudge.replay import replay_text

    options, allowed = options_of(settings), trusted(folder, trust)
    result = judge_again(
        folder, verifier, options, seconds=seconds, workers=workers, progress=counter(quiet=as_json), trust=allowed
    )
    facts = result.body()
    put(json.dumps(facts, indent=1)) if as_json else say(replay_text(facts, folder))


def trusted(folder: Path, supplied: bool) -> bool:
    """Whether the code that a run folder names may run. Asks at a terminal."""
    from gnomon.run.trust import ask_trust
    from gnomon.terminal import printable

    if supplied or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return supplied
    return ask_trust(folder, lambda question: typer.confirm(printable(question), default=False, err=True))
