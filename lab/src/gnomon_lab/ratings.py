"""The ratings of a run's steps: kept beside the run, and shown with it without importing torch."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from gnomon.extensions import Panel
from gnomon.run.subject import split_step
from gnomon.store import RunReader
from gnomon.store.layout import RECIPE

__all__ = ["Standing", "keep", "panel"]

RATINGS = "ratings.json"
"""Of a run: the last ratings of its steps. Nothing that a run records depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The rating of a player."""

    player: str
    elo: float
    """Points; the mean of all players is zero."""
    low: float
    high: float
    games: int
    gain: float
    """Mean reward per game minus the opponent's."""


def keep(standings: Iterable[Standing], env: str) -> None:
    """Write the ratings of every run that played into its folder, for its page. Raises: OSError."""
    steps: dict[Path, dict[str, Standing]] = {}
    for standing in standings:
        folder, step = split_step(standing.player)
        if (folder / RECIPE).is_file():
            steps.setdefault(folder, {})["last" if step is None else str(step)] = standing
    for folder, found in steps.items():
        body = {"env": env, "steps": {step: asdict(standing) for step, standing in found.items()}}
        fresh = folder / f".{RATINGS}.{secrets.token_hex(4)}"
        fresh.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
        fresh.replace(folder / RATINGS)


def panel(reader: RunReader) -> Panel | None:
    """The ratings of a run's steps; None where none can be read."""
    try:
        body = json.loads((reader.folder / RATINGS).read_text(encoding="utf-8"))
        steps = [(step, Standing(**facts)) for step, facts in body["steps"].items()]
        steps.sort(key=lambda each: (each[0] == "last", 0 if each[0] == "last" else int(each[0])))
        rows = tuple(
            (step, f"{s.elo:.0f}", f"[{s.low:.0f}, {s.high:.0f}]", str(s.games), f"{s.gain:+.3f}") for step, s in steps
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return Panel(
        name="ratings",
        facts=body,
        text="ratings      Elo "
        + ", ".join(f"{row[1]} {'at the end' if row[0] == 'last' else f'after step {row[0]}'}" for row in rows),
        sentences=(f"Elo of the steps at {body['env']}, from games with each other and with all other players.",),
        head=("step", "Elo", "95 %", "games", "gain per game"),
        rows=rows,
    )
