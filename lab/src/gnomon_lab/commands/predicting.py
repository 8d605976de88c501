"""`gnomon predict`: register what you expect of a run, score it, and see how well your probabilities hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gnomon.commands.words import Json, RunFolder
from gnomon.errors import RunError
from gnomon.reading.lines import say
from gnomon.terminal import put

__all__ = ["app"]


class RunFirst(TyperGroup):
    """A group whose first word may be a run folder: then the command is `register`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = bool(args) and (args[0] in self.commands or args[0].startswith("-"))
        return super().resolve_command(ctx, args if known else ["register", *args])


app = typer.Typer(
    cls=RunFirst, no_args_is_help=True, rich_markup_mode=None,
    help="Register what you expect of a run before it begins: gnomon predict RUN --pass-at-1 0.5:0.7",
)  # fmt: skip


@app.command()
def register(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that has not begun.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENV|RECIPE] key=value …", help="Settings of the run; others make the prediction void."
        ),
    ] = None,
    pass_at_1: Annotated[
        str, typer.Option(metavar="LOW:HIGH|Q=V,…", help="Final held-out pass@1: an interval, or quantiles.")
    ] = "",
    length: Annotated[str, typer.Option(metavar="LOW:HIGH|Q=V,…", help="Final held-out mean length in tokens.")] = "",
    level: Annotated[float, typer.Option(help="Probability that an interval holds the value.")] = 0.8,
    reaches: Annotated[
        list[str] | None, typer.Option(metavar="VALUE@STEP=P", help="Held-out pass@1 reaches VALUE by STEP.")
    ] = None,
    beats: Annotated[
        list[str] | None, typer.Option(metavar="RUN=P", help="This run ends with a higher pass@1 than RUN.")
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="More questions, as [[questions]].")] = None,
    by: Annotated[str, typer.Option(metavar="NAME", help="Whose prediction it is; default: your login.")] = "",
    as_json: Json = False,
) -> None:
    """Register a prediction in the folder of a run that has not begun."""
    from getpass import getuser

    from gnomon.config import overrides, word_of
    from gnomon.run.subject import layers
    from gnomon_lab.predictions.forecast import from_file, from_options
    from gnomon_lab.predictions.register import register as write
    from gnomon_lab.predictions.settings import given_settings
    from gnomon_lab.predictions.text import line_to_publish, registered_text

    words = list(settings or [])
    first = words[:1] if words and "=" not in words[0] else []
    named = given_settings(layers(first[0], words[1:]) if first else [overrides(words, 2)])
    asked = from_options(pass_at_1, length, level, reaches or [], beats or [])
    asked += from_file(file) if file is not None else []
    made, digest = write(folder, asked, by=by or getuser(), settings=named)
    if as_json:
        put(json.dumps({**made.model_dump(), "sha256": digest, "line": line_to_publish(made, digest)}, indent=1))
        return
    say(registered_text(made, digest, str(folder / "prediction.json")))
    rest = [word for word in words if not word.startswith(("env=", "env.type=")) and word not in first]
    what = first or [str(named.get("env.type", "ENV"))]
    put(" ".join(["next: gnomon train", *what, *rest, word_of("run", str(folder))]))


@app.command("score")
def score_command(
    folder: RunFolder,
    seen: Annotated[
        str, typer.Option(metavar="HASH|LINE", help="What you saw published before the run; it must match.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Score the prediction of a run: Brier and log score, interval score, pinball loss."""
    from gnomon.store import RunReader
    from gnomon_lab.predictions.outcome import score
    from gnomon_lab.predictions.text import scored_text

    with RunReader(folder) as reader:
        found = score(reader, seen)
    if found is None:
        raise RunError(
            "E414", "the run has no prediction", where=str(folder),
            fix="register one before the next run: gnomon predict runs/NEXT --pass-at-1 0.5:0.7",
        )  # fmt: skip
    put(json.dumps(found.body(), indent=1)) if as_json else say(scored_text(found))


@app.command("calibration")
def calibration_command(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="A folder that holds runs.")] = Path("runs"),
    by: Annotated[str, typer.Option(metavar="NAME", help="This person only.")] = "",
    as_json: Json = False,
) -> None:
    """Compare stated probabilities with what happened, over all runs below a folder."""
    from gnomon_lab.predictions.calibration import calibrations
    from gnomon_lab.predictions.outcome import scored_below
    from gnomon_lab.predictions.text import calibration_text

    found = calibrations(scored_below(folder), by)
    put(json.dumps([each.body() for each in found], indent=1)) if as_json else say(calibration_text(found))
