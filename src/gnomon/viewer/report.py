"""`gnomon report`: one page that holds all of a run that somebody else needs to judge it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gnomon.keys import Key
from gnomon.reading.address import Address, task_at
from gnomon.reading.reasons import verdict_reason
from gnomon.reading.rollouts import question
from gnomon.store import RunReader
from gnomon.viewer.curves import charts
from gnomon.viewer.drawing import svg
from gnomon.viewer.facts import overview, settings_of
from gnomon.viewer.history import History
from gnomon.viewer.pages import TEMPLATES

__all__ = ["report"]

ROLLOUTS = 20
COLOURS = (
    ("#0969da", "#58a6ff"), ("#bc4c00", "#f0883e"), ("#1a7f37", "#3fb950"), ("#8250df", "#bc8cff"),
    ("#cf222e", "#ff7b72"), ("#9a6700", "#d29922"), ("#0e7490", "#39c5cf"), ("#57606a", "#9198a1"),
)  # fmt: skip
"""Of lines on a light page and on a dark one, as in viewer.css."""
LONGEST = 4000
"""Characters of a text in the report."""


def report(folder: Path) -> str:
    """The report as HTML that needs no other file: results, prediction, curves, rollouts, alarms, cost, how to repeat
    the run.

    The rollouts are drawn by a key that the run's first record fixes, so that nobody can choose them.

    Raises: RunError E404 when the folder holds no run.
    """
    with RunReader(folder) as reader, reader.snapshot():
        steps = History().steps(reader)
        run = overview(folder.name, reader, steps)
        curves = [{**chart, "drawing": svg(chart)} for chart in charts(reader, steps)["charts"]]
        facts = {
            "manifest": reader.manifest,
            "rollouts": {kind: drawn_rollouts(reader, kind) for kind in ("held_out", "rollout")},
            "trained": subject(reader),
            "tokens": sum(row.tokens or 0 for row in reader.rollout_rows()),
        }
    return TEMPLATES.get_template("report.html").render(run=run, charts=curves, colours=COLOURS, **facts)


def subject(reader: RunReader) -> str:
    """What the run is of: objective, environment, policy and batch; of an imported one its log."""
    if reader.import_format:
        return f"rollouts of another trainer, imported from {reader.import_format}"
    settings = settings_of(reader)
    policy, env, objective = (settings[name] for name in ("policy.path", "env.type", "objective.type"))
    sizes = f"{settings['rollout.prompts']} tasks x {settings['rollout.group']} rollouts per step"
    return f"policy {policy} on {env} by {objective}, {sizes}"


def drawn_rollouts(reader: RunReader, kind: str) -> list[dict[str, Any]]:
    """Half of the report's rollouts: of the last held-out evaluation, or of all training steps."""
    rows = reader.rollout_rows(kind=kind)
    if kind == "held_out" and rows:
        rows = [row for row in rows if row.step == rows[-1].step]
    head = reader.head(1) or ""
    generator = Key(int(head[:16] or "0", 16) >> 1).at("report", kind=kind).random()
    drawn_rows = generator.sample(rows, min(ROLLOUTS // 2, len(rows)))
    result = []
    for row in sorted(drawn_rows, key=lambda row: row.seq):
        assert row.step is not None and row.task is not None and row.sample is not None
        record = reader.rollout(row.step, row.task, row.sample, kind)
        address = Address(kind, row.step, row.task, row.sample)
        task_body = task_at(reader, address)
        result.append(
            {
                "place": str(address),
                "question": question(task_body)[:LONGEST],
                "replies": [turn["reply"][:LONGEST] for turn in record.body.get("turns", [record.body])],
                "why": verdict_reason(record.body, task_body),
                **{name: record.body[name] for name in ("reward", "status", "tokens")},
            }
        )
    return result
