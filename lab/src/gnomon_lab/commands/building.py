"""`gnomon base`: the built-in policy, from scratch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gnomon.terminal import put

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Train the built-in base policy.")


@app.command("build")
def build(
    folder: Annotated[Path, typer.Argument(help="Folder for the model.")],
    of: Annotated[str, typer.Option(help="Name of its recipe, as in docs/lab/base.md.")] = "tiny",
    steps: Annotated[int | None, typer.Option(help="Number of steps, for a short trial.")] = None,
) -> None:
    """Train a base policy from scratch on synthetic calculations (the built-in one: about an hour on two cores)."""
    from gnomon_lab.tiny_policy.build import build as train
    from gnomon_lab.tiny_policy.build import trial
    from gnomon_lab.tiny_policy.recipes import recipe_of
    from gnomon_lab.tiny_policy.scores import score

    recipe = recipe_of(of) if steps is None else trial(steps, recipe_of(of))
    train(folder, recipe)
    # A policy from a short trial writes random text up to the limit; two tasks are enough to test the evaluation.
    for name, facts in score(folder, recipe, tasks=128 if steps is None else 2)["envs"].items():
        put(f"{name:<11}", "   ".join(f"pass@{k} {i['value']:.3f}" for k, i in facts["pass_at"].items()))
