"""Commands about environments: `gnomon check`, `play`, `env list`, `env prompt` and `new env`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.completion import trainable
from gnomon.commands.env_options import chosen_env
from gnomon.commands.words import EnvName, Json, Settings
from gnomon.errors import ConfigError
from gnomon.reading.lines import say
from gnomon.terminal import put

__all__ = ["check", "env_list", "env_prompt", "new_env", "play"]


def check(what: EnvName, settings: Settings = None, as_json: Json = False) -> None:
    """Run the conformance tests on an environment."""
    from gnomon.envs.check import check_env

    report = check_env(chosen_env(what, settings))
    put(json.dumps(report.as_dict(), indent=1)) if as_json else say(str(report))
    sys.exit(0 if report.passed else 1)


def play(
    what: EnvName,
    settings: Settings = None,
    index: Annotated[int, typer.Option(min=0, help="Index of a train task.")] = 0,
) -> None:
    """Answer a task by hand, or the requests of its program, and print the verdict."""
    from gnomon.envs.play import play as answer
    from gnomon.rollout.by_hand import run

    try:
        answer(chosen_env(what, settings), index, run=run)
    except EOFError:
        put("\nThe input ended before the episode, so there is no verdict.", file=sys.stderr)
        raise typer.Exit(1) from None


def env_list(as_json: Json = False) -> None:
    """List the built-in environments."""
    from gnomon.envs import ENVS
    from gnomon.envs.gallery import facts

    rows = [facts(name) for name in sorted(ENVS)]
    if as_json:
        put(json.dumps(rows, indent=1))
        return
    for fact in rows:
        players = f", {fact['players']} players" if fact["players"] > 1 else ""
        turns = "one turn" if fact["turns"] == 1 else f"up to {fact['turns']} turns"
        say(f"{fact['name']:<16} {turns + players:<23} {fact['summary']}")


def env_prompt(
    what: Annotated[
        str, typer.Argument(metavar="ENV|RECIPE", help="An environment or a recipe.", autocompletion=trainable)
    ],
    settings: Settings = None,
    index: Annotated[int, typer.Option(min=0, help="Index of a task.")] = 0,
    held_out: Annotated[bool, typer.Option("--held-out", help="Take a held-out task, not a train task.")] = False,
    as_json: Json = False,
) -> None:
    """Show the prompt of a task as tokens: gnomon env prompt countdown env.shots=2 policy=FOLDER"""
    from gnomon.config import resolve
    from gnomon.run.find import check_env_config, check_policy_config
    from gnomon.run.prompt_tokens import prompt_text, prompt_tokens
    from gnomon.run.subject import layers, with_checkpoints

    config, _ = resolve(with_checkpoints(layers(what, settings)), [check_env_config, check_policy_config])
    try:
        prompt = prompt_tokens(config, "test" if held_out else "train", index)
    except IndexError as error:
        split = "held-out" if held_out else "train"
        raise ConfigError(
            "E075", f"there is no {split} task {index}", where="--index", why="the split has fewer", fix="--index 0"
        ) from error
    if as_json:
        put(json.dumps(prompt.body(), indent=1))
        return
    put(prompt_text(prompt))


def new_env(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the file; the class has the same name in CamelCase.")
    ],
    turns: Annotated[bool, typer.Option("--turns", help="Write an environment with several turns.")] = False,
    folder: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("."),
) -> None:
    """Write a template of an environment that passes gnomon check."""
    from gnomon.envs.scaffold import new_env as write

    file, kind = write(name, folder, turns)
    put(f"{file}\nnext: gnomon check {file}:{kind}")
