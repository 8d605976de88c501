"""Commands that read runs: `gnomon ls`, `gnomon tail` and `gnomon export-rollouts`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gnomon.commands.words import Json, RunFolder
from gnomon.errors import RunError
from gnomon.reading.lines import say
from gnomon.terminal import one_line, put

__all__ = ["export_rollouts", "ls", "tail"]


def ls(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Folder that holds runs.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List the runs below a folder: status, steps, held-out pass@1 before and after training, age."""
    from gnomon.reading.folders import glance, run_folders

    if not folder.is_dir():
        raise RunError("E404", "the folder does not exist", where=str(folder), fix="gnomon ls .")
    runs = run_folders([folder])
    rows = [{**glance(name, path), "seconds": age(path)} for name, path in runs.items()]
    if as_json:
        put(json.dumps(rows, indent=1))
        return
    say("\n".join(ls_line(row, max(map(len, runs))) for row in rows) or f"no runs below {folder}")


def ls_line(row: Mapping[str, Any], width: int) -> str:
    name = f"{one_line(row['name']):<{width}}"
    if "error" in row:
        return f"{name}  {one_line(row['error'])}"
    rates = " to ".join(f"{rate['value']:.3f}" for key in ("baseline", "held_out") if (rate := row[key]))
    fields = [f"{row['status']:<11}", f"{row['steps']}/{row['budget'] or row['steps']} steps"]
    fields += [f"pass@1 {rates}" if rates else "", f"{row['alarms']} alarms" if row["alarms"] else ""]
    fields += [one_line(", ".join(row["tags"]))]
    fields += [one_line(" ".join(filter(None, (row["env"], row["objective"])))), f"{duration(row['seconds'])} ago"]
    return "  ".join([name, *filter(None, fields)])


def age(folder: Path) -> float:
    """Seconds since the run was last written. Reading a run changes only SQLite's `journal.db-shm`."""
    from gnomon.store.layout import JOURNAL

    files = (folder / JOURNAL, folder / f"{JOURNAL}-wal")
    return max(0.0, time.time() - max(path.stat().st_mtime for path in files if path.exists()))


def duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def tail(
    folder: RunFolder,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="Number of past steps to print first.")] = 10,
    texts: Annotated[int, typer.Option(min=0, help="Number of rollouts to quote below each step.")] = 0,
    follow: Annotated[bool, typer.Option(help="Wait for new steps until the run ends.")] = True,
) -> None:
    """Print the steps of a run, one line each, and follow it while it runs. Ctrl-C stops only this command."""
    from gnomon.reading.tail import follow as lines

    try:
        for line in lines(folder, last=last, texts=texts, going_on=follow):
            put(line, flush=True)
    except KeyboardInterrupt:
        sys.exit(130)


def export_rollouts(
    folder: RunFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE.parquet|FILE.jsonl|FOLDER", help="Must not exist.")],
    tokens: Annotated[bool, typer.Option("--tokens", help="Add token ids and log-probabilities.")] = False,
    as_json: Json = False,
) -> None:
    """Write the rollouts of a run for other software; a FOLDER is a data set for the Hugging Face hub."""
    from gnomon.export.rollouts import export_rollouts as write

    def progress(done: int, total: int) -> None:
        sys.stderr.write(f"\r{done} of {total} rollouts" + ("\n" if done == total else ""))
        sys.stderr.flush()

    quiet = as_json or not sys.stderr.isatty()
    files = write(folder, file, tokens=tokens, progress=(lambda done, total: None) if quiet else progress)
    if as_json:
        put(json.dumps({"place": str(file), "files": files}))
        return
    put(f"{file}   {sum(files.values())} rollouts" + (f" in {', '.join(files)}" if file.is_dir() else ""))
