"""Commands that train: `gnomon train`, `resume` and `sanity`."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gnomon.commands.completion import trainable
from gnomon.commands.streams import Finished
from gnomon.commands.summary import summarise
from gnomon.commands.words import EnvName, Json, Observe, RunFolder, Settings
from gnomon.errors import RunError
from gnomon.extensions import check_start
from gnomon.reading.lines import say
from gnomon.terminal import put

if TYPE_CHECKING:
    from gnomon.config import RunConfig

__all__ = ["resume", "run_folder", "sanity", "train"]


def train(
    what: Annotated[
        str,
        typer.Argument(
            metavar="ENV|RECIPE",
            help="An environment (gnomon env list), a file of rows, or a recipe ending in .toml.",
            autocompletion=trainable,
        ),
    ],
    settings: Settings = None,
    observe: Observe = None,
) -> None:
    """Train a policy: gnomon train countdown rollout.group=8 run=runs/first"""
    from gnomon.config import resolve
    from gnomon.run.find import check_env_config, check_policy_config
    from gnomon.run.subject import layers

    words = list(settings or [])
    config, _ = resolve(layers(what, words), [check_env_config, check_policy_config])
    from gnomon.store import require_free

    folder = run_folder(what, words, config)
    require_free(folder)
    check_start(folder, config)
    from gnomon.run.display import Display, loading

    sizes = f"{config.rollout.prompts} prompts x {config.rollout.group}"
    put(f"{config.env.type} · {config.objective.type} · {sizes} · {folder}", flush=True)
    with Display(config) as display:
        with loading(display.phase):
            from gnomon.run.own_parts import own_parts
            from gnomon.run.start import start
        reader = start(folder, config, display, own=own_parts(observers=observe or ()))
    with reader:
        facts, text = summarise(reader)
    say(text)
    again = f"gnomon show {folder} {max(0, facts['steps'] - 1)}"
    put(f"next: {again}" if facts["status"] == "finished" else f"next: gnomon resume {folder}")
    raise Finished(0 if facts["status"] == "finished" else 130)


def resume(
    folder: RunFolder,
    settings: Settings = None,
    accept_divergence: Annotated[
        bool, typer.Option("--accept-divergence", help="Continue even if the run diverges from its records.")
    ] = False,
    observe: Observe = None,
) -> None:
    """Continue a run that was stopped or killed, with the same bytes; or extend it: gnomon resume RUN steps=200"""
    from gnomon.config import overrides
    from gnomon.run.display import Display, loading
    from gnomon.run.extension import extension
    from gnomon.store import RunReader

    supplied = overrides(list(settings or []), 2)
    if elsewhere := [word for word in settings or [] if word.startswith("run=")]:
        raise RunError(
            "E413", "a resumed run stays in its folder", where=f"the command line: {elsewhere[-1]}",
            why="run= names the folder of a new run", fix=f"leave out {elsewhere[-1]}",
        )  # fmt: skip
    with RunReader(folder) as reader:
        config = extension(reader, supplied).config
    with Display(config) as display:
        with loading(display.phase):
            from gnomon.run.own_parts import own_parts
            from gnomon.run.resume import resume as go_on
        own = own_parts(observers=observe or ())
        reader = go_on(folder, display, own=own, accept_divergence=accept_divergence, settings=supplied)
    with reader:
        facts, text = summarise(reader)
    say(text)
    raise Finished(0 if facts["status"] == "finished" else 130)


def sanity(
    what: EnvName,
    settings: Settings = None,
    candidates: Annotated[int, typer.Option(min=8, help="Number of tasks to try.")] = 256,
    keep: Annotated[int, typer.Option(min=8, help="Maximum number of tasks to train on.")] = 64,
    as_json: Json = False,
) -> None:
    """Test that an objective learns solvable tasks: gnomon sanity char_count objective=rloo run=runs/sanity"""
    from dataclasses import asdict

    from gnomon.config import resolve
    from gnomon.run.find import check_env_config, check_policy_config
    from gnomon.run.subject import layers
    from gnomon.store import require_free

    words = list(settings or [])
    config, _ = resolve(layers(what, words), [check_env_config, check_policy_config])
    folder = run_folder(what, words, config, "sanity-")
    require_free(folder)
    from gnomon.run.display import Display, Silent, loading

    with nullcontext(Silent()) if as_json else Display(config) as display:
        with loading(display.phase):
            from gnomon.run.sanity import sanity as judge
        judgement = judge(folder, config, display, candidates=candidates, keep=keep)
    if as_json:
        put(json.dumps({**asdict(judgement), "run": str(folder)}, indent=1))
    else:
        say(f"{judgement}\nnext: gnomon show {folder}")
    raise Finished(0 if judgement.gate == "PASS" else 1)


def run_folder(what: str, words: list[str], config: RunConfig, prefix: str = "") -> Path:
    """The run's folder: `run=FOLDER` among the words, or the next free one under runs/."""
    from gnomon.reading.folders import next_folder
    from gnomon.run.subject import name_of

    if supplied := [word for word in (what, *words) if word.startswith("run=")]:
        return Path(supplied[-1].removeprefix("run=").strip("\"'"))
    return next_folder(name_of(what) or config.env.type, prefix)
