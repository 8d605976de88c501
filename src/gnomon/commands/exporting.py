"""Commands that write a run for other software: `gnomon export` and `export-rollouts`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.streams import counter
from gnomon.commands.words import Json, RunFolder
from gnomon.objectives.options import OBJECT
from gnomon.terminal import put

__all__ = ["export", "export_rollouts"]


def export(
    run: Annotated[str, typer.Argument(metavar="RUN[:STEP]", help="A run; without STEP its newest checkpoint.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the model; must be empty or absent.")],
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16; default: the run's policy.dtype.")] = "",
    merged: Annotated[
        bool, typer.Option("--merged", help="Merge the adapter of a LoRA run into its base model.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the trained policy as a folder that transformers, PEFT and vLLM load, with tokenizer, template and card."""
    from gnomon.export.model import export as write

    done = write(run, folder, dtype, merged=merged)
    if as_json:
        facts = {"folder": str(done.folder), "step": done.step, "dtype": done.dtype, "files": done.files}
        put(json.dumps(facts if done.merge_gap is None else facts | {"merge_gap": done.merge_gap}))
        return
    put(f"{done.folder}: the policy after step {done.step}, {done.dtype}")
    put("\n".join(f"  {size:>13,} bytes  {name}" for name, size in done.files.items()))
    if done.merge_gap is not None:
        put(f"merging changed log-probabilities of recorded tokens by up to {done.merge_gap:.2g} nats")
    loadable = "config.json" in done.files
    more = f"gnomon eval {played(run)} policy={folder}" if loadable else f"gnomon export {run} {folder}-merged --merged"
    put(f"next: {more}")


def played(run: str) -> str:
    """What a command evaluates on the tasks of a run: its recipe, or `ENV` where that names a Python object."""
    from gnomon.run.subject import split_step
    from gnomon.store.layout import RECIPE

    recipe = split_step(run)[0] / RECIPE
    return "ENV" if f'"{OBJECT}' in recipe.read_text("utf-8") else shlex.quote(str(recipe))


def export_rollouts(
    folder: RunFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE.parquet|FILE.jsonl|FOLDER", help="Must not exist.")],
    tokens: Annotated[bool, typer.Option("--tokens", help="Add token ids and log-probabilities.")] = False,
    as_json: Json = False,
) -> None:
    """Write the rollouts of a run for other software; a FOLDER is a data set for the Hugging Face hub."""
    from gnomon.export.rollouts import export_rollouts as write

    files = write(folder, file, tokens=tokens, progress=counter(quiet=as_json))
    if as_json:
        put(json.dumps({"place": str(file), "files": files}))
        return
    put(f"{file}   {sum(files.values())} rollouts" + (f" in {', '.join(files)}" if file.is_dir() else ""))
