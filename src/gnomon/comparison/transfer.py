"""What training on one environment does to others: the gain on every evaluation set, and what later training undoes."""

from __future__ import annotations

import json
import re
import statistics
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gnomon.comparison.measures import pass_at_1
from gnomon.comparison.runs import correct_by_task
from gnomon.comparison.statistics import Estimate, estimate
from gnomon.config import RunConfig, leaves, recorded_recipe, resolve
from gnomon.errors import RunError
from gnomon.run.data import digest
from gnomon.store import RunReader
from gnomon.store.checkpoints import checkpoint_folders
from gnomon.store.layout import CHECKPOINT_MANIFEST, RECIPE

__all__ = ["Cell", "Row", "Transfer", "transfer", "transfer_text"]

OWN = ("seed", "policy.path")
"""Settings in which the runs of a row may differ."""
EXPORTED = re.compile(r"^- fingerprint `(\w+)` after step \d+$", re.MULTILINE)
"""How the card of an exported model names the checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Held-out pass@1 on a set before and after training, over the runs of a row."""

    before: float
    after: float
    gain: Estimate
    """Paired: a run meets the same tasks with the same random numbers before and after. Over seeds; of one run over its
    different tasks, which holds for that run alone."""
    unit: str
    """`seeds` or `tasks`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Runs whose settings differ in the seed alone."""

    name: str
    """The environment that was trained on, behind those of the runs that it began from."""
    runs: tuple[str, ...]
    follows: str
    """Name of the row whose weights it began from; empty for none of these runs."""
    cells: Mapping[str, Cell]
    """By evaluation set; the main evaluation has the name of its environment, unless a set has that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Trained environments × evaluation sets."""

    rows: tuple[Row, ...]

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row.cells))

    def body(self) -> dict[str, Any]:
        """As JSON values."""
        return {"columns": self.columns, "rows": list(map(asdict, self.rows)), "forgetting": list(forgetting(self))}


@dataclass(frozen=True)
class Trained:
    """A finished run."""

    folder: Path
    config: RunConfig
    settings: str
    """All but `OWN`."""
    began: Mapping[str, str]
    """SHA-256 of the files of the weights that it began with."""
    origin: str
    """Fingerprint of the checkpoint whose export it began with; empty where its model is not an export, or gone."""
    rates: Mapping[str, tuple[float, float, tuple[float, ...]]]
    """pass@1 before and after, and the difference of every different task, by column."""

    @cached_property
    def final_state(self) -> tuple[str, Mapping[str, str]]:
        """Fingerprint of its newest checkpoint, and SHA-256 of the files there."""
        for path in checkpoint_folders(self.folder)[:1]:
            body = json.loads((path / CHECKPOINT_MANIFEST).read_text("utf-8"))
            return body["fingerprint"], {name: facts["sha256"] for name, facts in body["files"].items()}
        return "", {}

    def begins_from(self, other: Trained) -> bool:
        fingerprint, files = other.final_state
        if self.origin:
            return self.origin == fingerprint
        return bool(self.began) and self.began != other.began and self.began.items() <= files.items()


def transfer(folders: Sequence[Path]) -> Transfer:
    """The gain of every run on every evaluation set that it has, rows of equal settings together.

    A run that began with the weights of another one's last checkpoint, or of their export, is put behind it.

    Raises: RunError E429 for a run that has not finished or two runs of equal settings and seed; E439 for a set that is
        not the same in all runs.
    """
    runs = [training_of(folder) for folder in folders]
    require_equal_sets(runs)
    groups: dict[tuple[str, ...], list[tuple[Trained, ...]]] = {}
    for run in runs:
        line = behind(run, runs)
        groups.setdefault(tuple(each.settings for each in line), []).append(line)
    names = dict(zip(groups, number([name_of(some[0]) for some in groups.values()]), strict=True))
    return Transfer(
        rows=tuple(
            row_of(names[key], names.get(key[:-1], ""), [line[-1] for line in some]) for key, some in groups.items()
        )
    )


def behind(run: Trained, runs: Sequence[Trained]) -> tuple[Trained, ...]:
    """The runs that made the weights of a run, the first one first, and itself."""
    others = [other for other in runs if other is not run]
    earlier = next((other for other in others if run.begins_from(other)), None)
    return (run,) if earlier is None else (*behind(earlier, others), run)


def name_of(line: Sequence[Trained]) -> str:
    return ", then ".join(each.config.env.type for each in line)


def number(names: Sequence[str]) -> list[str]:
    """The names, those that occur several times with a number: settings differ, and the environment does not."""
    counts = [(name, names.count(name), names[: i + 1].count(name)) for i, name in enumerate(names)]
    return [f"{name} ({number})" if total > 1 else name for name, total, number in counts]


def training_of(folder: Path) -> Trained:
    """Raises: RunError E429."""
    with RunReader(folder) as reader:
        if not reader.complete or reader.held_out is None:
            fix = f"gnomon resume {folder}"
            raise RunError("E429", "the run has not finished, so it cannot be compared", where=str(folder), fix=fix)
        config, _ = resolve([recorded_recipe(folder / RECIPE)])
        names = {config.env.type: "", **{name: name for name in reader.sets}}
        own = {key: value for key, value in leaves(tomllib.loads(reader.recipe)).items() if key not in OWN}
        weights = {
            name: digest for name, digest in reader.genesis.get("policy", {}).items() if name.endswith(".safetensors")
        }
        return Trained(
            folder=folder,
            config=config,
            settings=repr(sorted((key, value) for key, value in own.items() if value != {})),
            began=weights,
            origin=exported_from(Path(config.policy.path), weights),
            rates={column: measure(reader, name) for column, name in names.items()},
        )


def exported_from(model: Path, weights: Mapping[str, str]) -> str:
    """The fingerprint in the card of a model folder, where the weights are still those that a run began with."""
    card = model / "README.md"
    match = EXPORTED.search(card.read_text("utf-8", "replace")) if card.is_file() else None
    same = match and all((model / name).is_file() and digest(model / name) == was for name, was in weights.items())
    return match[1] if match and same else ""


def measure(reader: RunReader, name: str) -> tuple[float, float, tuple[float, ...]]:
    """Of the main evaluation or a set."""
    records = reader.evaluations(name)
    before, after = (correct_by_task(reader, name, at) for at in (0, -1))
    changes = tuple(after[task] - before[task] for task in before.keys() & after.keys())
    return pass_at_1(records[0].body), pass_at_1(records[-1].body), changes


def require_equal_sets(runs: Sequence[Trained]) -> None:
    """Raises: RunError E439."""
    first_seen: dict[str, tuple[Any, Path]] = {}
    for run in runs:
        for name, own in evaluation_columns(run.config).items():
            first, where = first_seen.setdefault(name, (own, run.folder))
            if own != first:
                raise RunError(
                    "E439", f"the evaluation {name} is not the same in all runs", where=str(run.folder),
                    why=f"in {where} it has another environment, temperature or number of tasks",
                    fix=f"in new runs, give all of them the same eval.sets.{name}",
                )  # fmt: skip


def evaluation_columns(config: RunConfig) -> dict[str, tuple[Any, ...]]:
    """What decides the tasks and replies of every evaluation, by column."""
    rollout = config.rollout
    truncation = (rollout.top_p, rollout.top_k)
    temperatures = {"": rollout.temperature} | {name: each.temperature for name, each in config.eval.sets.items()}
    sizes = {name: config.eval.of(name) for name in temperatures}
    return {
        name or config.env.type: (config.env_of(name), temperature, truncation, sizes[name].tasks, sizes[name].samples)
        for name, temperature in temperatures.items()
    }


def row_of(name: str, follows: str, runs: Sequence[Trained]) -> Row:
    """Raises: RunError E429."""
    seeds = [run.config.seed for run in runs]
    for i, seed in enumerate(seeds):
        if seed in seeds[:i]:
            why = f"the other is {runs[seeds.index(seed)].folder}"
            what = "two runs have the same settings and seed"
            raise RunError("E429", what, where=str(runs[i].folder), why=why, fix="leave out one of them")
    cells = {
        column: cell([run.rates[column] for run in runs])
        for column in runs[0].rates
        if all(column in run.rates for run in runs)
    }
    return Row(name=name, runs=tuple(str(run.folder) for run in runs), follows=follows, cells=cells)


def cell(runs: Sequence[tuple[float, float, tuple[float, ...]]]) -> Cell:
    changes = [after - before for before, after, _ in runs]
    return Cell(
        before=statistics.fmean(before for before, _, _ in runs),
        after=statistics.fmean(after for _, after, _ in runs),
        gain=estimate(changes if len(runs) > 1 else runs[0][2]),
        unit="seeds" if len(runs) > 1 else "tasks",
    )


def forgetting(transfer: Transfer) -> Iterator[dict[str, Any]]:
    """For every row that follows another: pass@1 before both, between them and after both, and the second change."""
    for row in transfer.rows:
        earlier = next((each for each in transfer.rows if row.follows and each.name == row.follows), None)
        for column, own in row.cells.items() if earlier else ():
            assert earlier is not None
            if column in earlier.cells:
                first = earlier.cells[column]
                numbers = {"before": first.before, "between": own.before, "after": own.after}
                yield {"row": row.name, "set": column, **numbers, "change": asdict(own.gain), "unit": own.unit}


def transfer_text(transfer: Transfer) -> str:
    """Tables in Markdown."""
    columns = transfer.columns
    lines = [table_line("trained on", *columns), table_line(*["---"] * (len(columns) + 1))]
    for row in transfer.rows:
        gains = [interval_text(asdict(row.cells[name].gain)) if name in row.cells else "" for name in columns]
        lines.append(table_line(row.name, *gains))
    cells = [each for row in transfer.rows for each in row.cells.values()]
    units = ", ".join(sorted({f"{each.gain.seeds} {each.unit}" for each in cells}))
    lines += [
        "",
        f"Gain in held-out pass@1 with its 95 % interval over {units}. If training changed nothing, about "
        f"{0.05 * len(cells):.1f} of these {len(cells)} intervals would exclude 0.",
    ]
    if later := list(forgetting(transfer)):
        lines += ["", table_line("trained on", "set", "before", "between", "after", "change by the last")]
        lines.append(table_line(*["---"] * 6))
        for each in later:
            rates = [f"{each[name]:.3f}" for name in ("before", "between", "after")]
            lines.append(table_line(each["row"], each["set"], *rates, interval_text(each["change"])))
    return "\n".join(lines)


def interval_text(gain: Mapping[str, Any]) -> str:
    return f"{gain['mean']:+.3f} [{gain['low']:+.3f}, {gain['high']:+.3f}]"


def table_line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
