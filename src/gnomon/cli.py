"""The command line: `gnomon --help`. The commands are in `gnomon.commands`, by topic."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping

import typer

from gnomon.commands import (
    auditing,
    comparing,
    environments,
    evaluating,
    examining,
    exporting,
    importing,
    models,
    objectives,
    reading,
    rejudging,
    serving,
    settings,
    training,
    viewing,
)
from gnomon.commands.streams import Finished, lost_output, open_streams
from gnomon.commands.words import Commands
from gnomon.errors import GnomonError, ResourceError, explain_missing_package
from gnomon.extensions import extensions
from gnomon.terminal import put

__all__ = ["app", "main"]

COMMANDS: Mapping[str, Callable[..., None]] = {
    "doctor": examining.doctor,
    "check-weights": examining.check_weights,
    "conform": examining.conform,
    "plan": examining.plan,
    "train": training.train,
    "compare": comparing.compare,
    "transfer": comparing.transfer,
    "gain": comparing.gain,
    "diverge": comparing.diverge,
    "resume": training.resume,
    "eval": evaluating.evaluate,
    "mismatch": evaluating.mismatch,
    "sanity": training.sanity,
    "show": reading.show,
    "export": exporting.export,
    "export-rollouts": exporting.export_rollouts,
    "import": importing.import_rollouts,
    "view": viewing.view,
    "ls": reading.ls,
    "tail": reading.tail,
    "report": viewing.report,
    "diff": comparing.diff,
    "alarms": rejudging.alarms,
    "replay": rejudging.replay,
    "verify": reading.verify,
    "check": environments.check,
    "audit": auditing.audit,
    "play": environments.play,
    "serve-env": serving.serve_env,
    "serve": serving.serve,
    "serve-learner": serving.serve_learner,
    "rank": reading.rank,
    "exact": objectives.exact,
    "objective": objectives.objective,
    "explain": settings.explain,
}
"""In the order of `gnomon --help`."""
GROUPS: Mapping[str, tuple[str, Mapping[str, Callable[..., None]]]] = {
    "config": ("Show settings.", {"show": settings.config_show}),
    "model": ("Get pretrained models.", {"gemma": models.gemma, "trim": models.trim, "untrim": models.untrim}),
    "env": (
        "List environments, and show their prompts as tokens.",
        {"list": environments.env_list, "prompt": environments.env_prompt},
    ),
    "new": ("Create a file from a template.", {"env": environments.new_env}),
}
"""Groups of commands, each with its help."""

app = typer.Typer(
    cls=Commands, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Reinforcement learning with verifiable rewards, with reproducible runs that store every rollout.",
)  # fmt: skip
for name, command in COMMANDS.items():
    app.command(name)(command)
for name, (text, commands) in GROUPS.items():
    group = typer.Typer(no_args_is_help=True, help=text)
    for each, command in commands.items():
        group.command(each)(command)
    app.add_typer(group, name=name)
for add in extensions("gnomon.commands").values():
    add(app)


def main() -> None:
    """Run a command. Errors of the user are printed without a traceback."""
    open_streams()
    try:
        with explain_missing_package():
            app(args=[below_home(word) for word in sys.argv[1:]])
    except GnomonError as error:
        put(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except SystemExit as end:
        if (why := lost_output()) and not end.code:
            fix = "free space there, or write the output to another disk"
            put(ResourceError("E501", "the output cannot be written", why=why, fix=fix), file=sys.stderr)
            end.code = 0 if isinstance(end, Finished) else 1
        raise
    finally:
        lost_output()
        gc.freeze()  # The process ends: searching all that is left for garbage takes most of a second.


def below_home(word: str) -> str:
    """A word of the command line with a path below the home folder in full; a shell leaves `'~/x'` and `--out=~/x`."""
    head, sign, tail = word.partition("=")
    return f"{head}={os.path.expanduser(tail)}" if sign else os.path.expanduser(word)
