"""Arguments and options that several commands take, and the error for a setting that is written as an option."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gnomon.commands.completion import env_names, run_folders, settings, tracker_names
from gnomon.errors import ConfigErrors, ResourceError

__all__ = ["Commands", "EnvName", "Json", "Observe", "RunFolder", "Settings", "Trust"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Settings = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="key=value …", help="Settings, such as steps=50; gnomon config show lists all.", autocompletion=settings
    ),
]
Observe = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRACKER", help="mlflow, tensorboard, trackio or wandb; can be repeated.", autocompletion=tracker_names
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", autocompletion=run_folders)]
Trust = Annotated[
    bool, typer.Option("--trust", help="Run the code that the run folder names, even if you did not write it.")
]
EnvName = Annotated[
    str,
    typer.Argument(
        metavar="ENV", help="A built-in name, package.module:Class or file.py:Class.", autocompletion=env_names
    ),
]


LABORATORY = ("ablate", "arena", "base", "predict", "probe", "scaling", "simulate", "study", "tune-objective")


class Commands(TyperGroup):
    """The commands. Where one takes settings, an unknown option with the name of a setting is shown as one."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Raises: ResourceError E505 for a command of a package that is not installed."""
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in LABORATORY:
            raise ResourceError(
                "E505",
                "the package gnomon-lab is not installed",
                where=f"gnomon {cmd_name}",
                why=f"{cmd_name} is one of its commands",
                fix="pip install gnomon-lab",
            )
        return command

    def invoke(self, ctx: Any) -> Any:
        words = [*ctx._protected_args, *ctx.args]
        try:
            return super().invoke(ctx)
        except Exception as error:
            if not hasattr(error, "possibilities"):  # Only the error for an unknown option has it.
                raise
            takes_settings = any(parameter.name == "settings" for parameter in error.ctx.command.params)  # type: ignore[attr-defined]
            require_option(error.option_name, words) if takes_settings else None  # type: ignore[attr-defined]
            raise


def require_option(option: str, words: Sequence[str]) -> None:
    """Raises: ConfigErrors E003 if an option is a setting."""
    from gnomon.config.mistakes import as_setting

    index, word = next(each for each in enumerate(words) if each[1].startswith(option))
    option, sign, value = word.partition("=")
    following = words[index + 1] if index + 1 < len(words) else ""
    if not sign and not following.startswith("--") and "=" not in following:
        value = following
    if problem := as_setting(option, value):
        raise ConfigErrors([problem])
