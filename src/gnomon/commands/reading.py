"""Commands that read runs: `gnomon ls`, `tail`, `show`, `rank` and `verify`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gnomon.commands.summary import summarise
from gnomon.commands.words import Json, RunFolder
from gnomon.errors import ConfigError, RunError
from gnomon.extensions import folder_check
from gnomon.reading.lines import say
from gnomon.terminal import one_line, put

__all__ = ["ls", "rank", "show", "tail", "verify"]


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
    fields += [
        f"pass@1 {rates}" if rates else "",
        f"{row['alarms']} alarm{'s' * (row['alarms'] != 1)}" if row["alarms"] else "",
    ]
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


def show(
    folder: RunFolder,
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="[attempt-N:][held-out:]STEP[:TASK[:SAMPLE]] | [held-out:]task:TASK",
            help="A step, a task in a step, a rollout, or a task in all steps; held-out: selects held-out tasks.",
        ),
    ] = None,
    brief: Annotated[bool, typer.Option("--brief", help="Print one line per rollout, without text.")] = False,
    as_json: Json = False,
) -> None:
    """Show a run: its summary, the text of a step, one rollout, or one task in all steps."""
    from gnomon.reading.address import parse_address
    from gnomon.reading.rollouts import groups_text, rollout, rollout_text, rollouts, rows_text
    from gnomon.store import RunReader

    with RunReader(folder) as reader:
        if address is None:
            facts: Any
            facts, text = summarise(reader)
        else:
            parsed = parse_address(address)
            if parsed.sample is not None:
                facts = rollout(reader, parsed)
                text = rollout_text(facts)
            else:
                facts = rollouts(reader, parsed)
                text = rows_text(facts) if brief else groups_text(reader, facts)
    if as_json:
        put(json.dumps(facts, indent=1))
    elif address is None:
        say(text)
    else:
        put(text)  # What a model wrote keeps its own lines.


def verify(folder: RunFolder, as_json: Json = False) -> None:
    """Recompute the hash of every record and checkpoint of a run, or of all runs of a study."""
    from gnomon.store import verify as check

    if (check_folder := folder_check(folder)) is not None:
        sys.exit(check_folder(folder))
    report = check(folder)
    problems = [str(problem) for problem in report.problems]
    facts = {"records": report.records, "fingerprint": report.fingerprint, "problems": problems}
    put(json.dumps(facts, indent=1)) if as_json else say(str(report))
    sys.exit(0 if report else 1)


def rank(
    folder: RunFolder,
    by: Annotated[
        str, typer.Option(help="variance: of all rewards of a task; drift: of its mean reward from visit to visit.")
    ] = "variance",
    out: Annotated[Path | None, typer.Option(help="Write the ranking to this file, for env.ranked.")] = None,
    as_json: Json = False,
) -> None:
    """Rank the train tasks of a run by the variance of their rewards: gnomon rank RUN --out ranked.json"""
    from gnomon.reading.ranking import MEASURES
    from gnomon.reading.ranking import rank as ranked
    from gnomon.store import RunReader

    if by not in MEASURES:
        raise ConfigError("E005", f"cannot rank tasks by {by!r}", where="--by", fix=f"--by {MEASURES[0]}")
    with RunReader(folder) as reader:
        facts = ranked(reader, by)
    text = json.dumps(facts, indent=1)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", "utf-8")
    if as_json:
        put(text)
        return
    for fact in facts["tasks"][:10]:
        say(f"task {fact['index']:<10} {fact['visits']:>3} visits  mean {fact['mean']:.3f}  {by} {fact[by]:.4f}")
    put(f"{len(facts['tasks'])} tasks" + (f" in {out}" if out else ""))
