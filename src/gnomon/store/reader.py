"""Read a finished or running run, without a lock and without changing it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gnomon.errors import RunError
from gnomon.notebook import Card
from gnomon.store.attempts import Attempt, attempts, fault_of, rows_of
from gnomon.store.codec import GREEDY, decode
from gnomon.store.frame import Frame, Library, frame
from gnomon.store.journal import damage_error, faults, head_before, meta, open_reading, rows, terms
from gnomon.store.layout import MANIFEST, RECIPE, Record, RunStatus, is_rollout, of_set, set_of, unpack
from gnomon.store.lock import is_locked
from gnomon.types import Group, Task

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["RolloutRow", "RunReader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRow:
    """The main facts of a rollout, without its body."""

    seq: int
    step: int | None
    task: int | None
    sample: int | None
    reward: float | None
    status: str | None
    tokens: int | None


class RunReader:
    """A run folder, open for reading. Use it as a context manager, or `close` it.

    Raises: RunError E404 if the folder contains no run, E405 if it is damaged, E406 if a newer gnomon wrote it.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(os.path.expanduser(folder))
        self._db = open_reading(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    @property
    def uuid(self) -> str:
        return self._meta("uuid")

    @property
    def recipe(self) -> str:
        return self._file(RECIPE)

    @property
    def manifest(self) -> dict[str, Any]:
        return self._load(MANIFEST, self._file(MANIFEST))

    @property
    def status(self) -> RunStatus:
        """The state of the run. A running run without a process that holds its lock is `interrupted`."""
        status = self._status()
        if status is RunStatus.RUNNING and not is_locked(self.folder):
            # Read again, since the run may have ended between the two queries.
            status = self._status()
            return RunStatus.INTERRUPTED if status is RunStatus.RUNNING else status
        return status

    @property
    def reason(self) -> str:
        """Why the run has its status, in a sentence; may be empty."""
        return self._meta("reason")

    @property
    def varies(self) -> str:
        """Why a second run of the recipe may differ; empty for an exact run."""
        return self._meta("varies")

    @property
    def attempts(self) -> list[Attempt]:
        """Discarded records: those that a resumed run did not repeat, and those of failed steps."""
        return attempts(self._db, self.folder)

    @property
    def end(self) -> Mapping[str, Any]:
        """The inventory of a finished run: `records`, `head`, `checkpoints`, `attempts`. Empty before the end."""
        text = self._meta("end")
        return self._load("the inventory of the finished run", text) if text else {}

    @property
    def complete(self) -> bool:
        """Whether the run has finished and its last record exists."""
        end = self.end
        return self.status is RunStatus.FINISHED and bool(end) and self.head(end["records"]) == end["head"]

    @property
    def fingerprint(self) -> str:
        """Head of the chain. Runs with equal fingerprints are equal."""
        return str(self._query("SELECT lower(hex(hash)) FROM records ORDER BY seq DESC LIMIT 1")[0][0])

    @property
    def length(self) -> int:
        """Number of records."""
        return int(self._query("SELECT max(seq) + 1 FROM records")[0][0])

    @property
    def steps(self) -> int:
        """Number of finished steps."""
        return int(self._query("SELECT count(*) FROM records WHERE kind = 'step'")[0][0])

    @property
    def genesis(self) -> Mapping[str, Any]:
        """Body of the first record, which determines the whole run."""
        return next(self.records("genesis")).body

    @property
    def import_format(self) -> str:
        """Format of the log that the rollouts were imported from; empty for a run of Gnomon."""
        return str(self.genesis.get("imported", {}).get("format", ""))

    @property
    def prediction(self) -> str:
        """SHA-256 of the prediction that was registered before the run began; empty where there was none."""
        return str(self.genesis.get("prediction", ""))

    @property
    def baseline(self) -> Mapping[str, Any] | None:
        """Body of the `baseline` record, None before there is one."""
        return self._last("baseline")

    @property
    def held_out(self) -> Mapping[str, Any] | None:
        """Body of the last `evaluation` record, None before there is one."""
        return self._last("evaluation")

    @property
    def sets(self) -> list[str]:
        """The names of the evaluation sets that were measured, in the order of their first measurement."""
        kinds = self._query("SELECT kind FROM records WHERE kind LIKE 'baseline.%' GROUP BY kind ORDER BY min(seq)")
        return [set_of(row[0]) for row in kinds]

    @property
    def rollout_kinds(self) -> list[str]:
        """The kinds of the rollouts in the run: `held_out` and `held_out.SET` before `rollout`."""
        kinds = [row[0] for row in self._query("SELECT DISTINCT kind FROM records") if is_rollout(row[0])]
        return sorted(kinds, key=lambda kind: (kind == "rollout", kind))

    def evaluations(self, name: str = "") -> list[Record]:
        """The baseline and the evaluations after it, of the main evaluation or of an evaluation set."""
        return [record for kind in ("baseline", "evaluation") for record in self.records(of_set(kind, name))]

    def metrics(self) -> list[Mapping[str, Any]]:
        """Bodies of the `step` records, in order."""
        return [record.body for record in self.records("step")]

    def records(
        self,
        kind: str | None = None,
        step: int | None = None,
        task: int | None = None,
        sample: int | None = None,
        *,
        attempt: int = 0,
    ) -> Iterator[Record]:
        """The records that match everything named, in order. Args: attempt: 0 for the chain, else a given-up one's."""
        filters: dict[str, Any] = {"kind": kind, "step": step, "task": task, "sample": sample}
        matching = (
            rows_of(self._db, self.folder, attempt, **filters) if attempt else rows(self._db, self.folder, **filters)
        )
        return (unpack(row)[0] for row in matching)

    def rows(self, start: int = 0, kind: str | None = None) -> Iterator[tuple[Any, ...]]:
        """The stored rows from position `start` on, of one kind or all."""
        return rows(self._db, self.folder, start, kind=kind)

    def steps_near(self, step: int, kinds: Collection[str]) -> tuple[int | None, int | None]:
        """The last step before a step, and the first one after it, that have a record of one of these kinds."""
        before = (
            "SELECT max(step) FROM (SELECT step FROM records WHERE step < ? AND kind = ? ORDER BY step DESC LIMIT 1)"
        )
        after = "SELECT min(step) FROM (SELECT step FROM records WHERE step > ? AND kind = ? ORDER BY step LIMIT 1)"
        neighbours = [[self._query(query, step, kind)[0][0] for kind in kinds] for query in (before, after)]
        lower, upper = ([at for at in steps if at is not None] for steps in neighbours)
        return max(lower, default=None), min(upper, default=None)

    def spread(self, kind: str, count: int) -> list[Record]:
        """At most so many of the records of a kind, evenly spread from the first to the last."""
        places = [row[0] for row in self._query("SELECT seq FROM records WHERE kind = ? ORDER BY seq", kind)]
        cells = min(count, len(places))
        return [self.record(places[(len(places) - 1) * cell // max(1, cells - 1)]) for cell in range(cells)]

    def steps_with(self, kinds: Collection[str]) -> list[int]:
        """The steps that have a record of one of these kinds, in order."""
        query = "SELECT DISTINCT step FROM records WHERE kind = ?"
        return sorted({row[0] for kind in kinds for row in self._query(query, kind) if row[0] is not None})

    def record(self, seq: int) -> Record:
        """The record at a position in the chain. Raises: RunError E405 where there is none."""
        row = next(rows(self._db, self.folder, seq, seq + 1), None)
        if row is None:
            raise damage_error(self.folder, f"record {seq} is missing")
        return unpack(row)[0]

    def groups(
        self, step: int | None = None, kind: str = "rollout", tasks: Callable[[str, int], Task] | None = None
    ) -> Iterator[Group]:
        """The groups of rollouts of one step or all, as objects. Args: kind: may be `held_out`; tasks: as in `decode`.

        Raises: RunError E405 for a damaged record.
        """
        kinds = (kind, GREEDY) if kind == "rollout" else (kind,)
        records = (r for r in self.records(step=step) if (r.body.get("of") if r.kind == "task" else r.kind) in kinds)
        return decode(records, tasks)

    def rollout(self, step: int, task: int, sample: int, kind: str = "rollout", *, attempt: int = 0) -> Record:
        """One rollout; `kind` may be `held_out`.

        Raises: RunError E409 if there is none.
        """
        record = next(self.records(kind, step, task, sample, attempt=attempt), None)
        if record is None:
            raise self.absent(kind, step, task, sample)
        return record

    def absent(self, kind: str, step: int | None, task: int | None = None, sample: int | None = None) -> RunError:
        """The error for a missing rollout, task or step; it names existing ones.

        Args: step: None if a task was requested over all steps.
        """
        parts = (("step", step), ("task", task), ("sample", sample))
        where = ", ".join([str(self.folder), *(f"{name} {value}" for name, value in parts if value is not None)])
        steps = [row[0] for row in self._query("SELECT DISTINCT step FROM records WHERE kind = ? ORDER BY step", kind)]
        why = f"the run has {self.steps} finished steps, counted from 0"
        if kind != "rollout":
            why = f"held-out tasks were evaluated before these steps: {', '.join(map(str, steps)) or '(none yet)'}"
        prefix = "" if kind == "rollout" else f"{kind.replace('_', '-', 1)}:"
        target, existing = step, steps
        if step is None:
            prefix, target = f"{prefix}task:", task
            existing = [row[0] for row in self._query("SELECT DISTINCT task FROM records WHERE kind = ?", kind)]
        near = min(existing, key=lambda there: abs(there - (target or 0)), default=None)
        fix = "" if near is None else f"gnomon show {shlex.quote(str(self.folder))} {prefix}{near}"
        return RunError("E409", "the run has no rollout at this address", where=where, why=why, fix=fix)

    def rollout_rows(
        self, step: int | None = None, task: int | None = None, kind: str = "rollout", *, attempt: int = 0
    ) -> list[RolloutRow]:
        """The main facts of rollouts, of one step, one task or all, in order; `kind` may be `held_out`."""
        filters = {"kind": kind, "step": step, "task": task} | ({"attempt": attempt} if attempt else {})
        filters = {name: value for name, value in filters.items() if value is not None}
        if attempt and attempt > len(self.attempts):
            return []
        names, table = RolloutRow.__slots__, "given_up" if attempt else "records"
        condition = " AND ".join(terms(filters))
        query = f"SELECT {', '.join(names)} FROM {table} WHERE {condition} ORDER BY seq"
        return [RolloutRow(**dict(zip(names, row, strict=True))) for row in self._query(query, *filters.values())]

    def success_counts(self, kind: str) -> list[tuple[int, int, int, int]]:
        """For each task and step with judged rollouts of a kind: task, step, correct rollouts, rollouts; in order."""
        query = (
            "SELECT task, step, sum(status = 'correct'), count(*) FROM records "
            "WHERE kind = ? AND status IS NOT 'unjudged' GROUP BY task, step"
        )
        return [(task or 0, step or 0, right or 0, of) for task, step, right, of in self._query(query, kind)]

    def count(self, kind: str) -> int:
        """Number of records of a kind."""
        return int(self._query("SELECT count(*) FROM records WHERE kind = ?", kind)[0][0])

    def frame(self, table: Frame = "rollouts", library: Library = "pandas", *, tokens: bool = False) -> Any:
        """A data frame: one row per rollout, step (`metrics`) or evaluation (`evaluations`); docs/reading-runs.md.

        Args: library: `pandas` or `polars`; tokens: add token ids and log-probabilities to the rollouts.
        Raises: ConfigError E007 for another table or library; ResourceError E505 if the library is not installed.
        """
        return frame(self, table, library, tokens)

    def card(self) -> Card:
        """The run in a few rows."""
        rates = [
            (
                name,
                "   ".join(f"pass@{k} {i['value']:.3f} [{i['low']:.3f}, {i['high']:.3f}]" for k, i in pass_at.items()),
            )
            for name, body in (("baseline", self.baseline), ("held-out", self.held_out))
            if body and (pass_at := body["pass_at"])
        ]
        facts = [("status", self.status.value), ("steps", self.steps), *rates, ("alarms", len(self.alarms()))]
        return Card(title=f"run {self.folder}", columns=("", ""), rows=[*facts, ("fingerprint", self.fingerprint)])

    def __repr__(self) -> str:
        return f"<RunReader {self.folder}>"

    def __str__(self) -> str:
        return str(self.card())

    def _repr_html_(self) -> str:
        return self.card().html()

    def __rich__(self) -> Table:
        return self.card().rich()

    @property
    def written_at(self) -> float | None:
        """When the last step ended, in Unix seconds; None before there is one."""
        last: float | None = self._query("SELECT max(at) FROM timings")[0][0]
        return last

    def timings(self) -> list[dict[str, Any]]:
        """Timings of the steps: `step`, `at` (Unix seconds) and the measured durations."""
        entries = self._query("SELECT step, at, body FROM timings ORDER BY id")
        return [{**self._load("timings", body), "step": step, "at": at} for step, at, body in entries]

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Events stored beside the chain: `kind`, `at` (Unix seconds) and their body."""
        entries = self._query("SELECT kind, at, body FROM events WHERE ? IS NULL OR kind = ? ORDER BY id", kind, kind)
        return [{**self._load("events", body), "kind": name, "at": at} for name, at, body in entries]

    def alarms(self) -> list[dict[str, Any]]:
        """The recorded alarms, without those of steps that were discarded later."""
        valid: list[dict[str, Any]] = []
        for event in self.events():
            if event["kind"] == "attempt":
                valid = [alarm for alarm in valid if alarm["step"] < event["step"]]
            elif event["kind"] == "alarm":
                valid.append(event)
        return valid

    def damage(self, attempt: Attempt) -> str:
        """Why an attempt does not verify; empty if its records are unchanged."""
        return fault_of(self._db, self.folder, attempt)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A context in which all reads see the run at one moment, while its writer continues."""
        self._query("BEGIN")
        try:
            yield
        finally:
            self._query("COMMIT")

    def head(self, seq: int) -> str | None:
        """Head of the chain before position `seq`, None beyond its end."""
        head = head_before(self._db, self.folder, seq)
        return None if head is None else head.hex()

    def recorded_hash(self, name: str) -> str:
        """SHA-256 of a text file of the run folder at the start of the run."""
        return self._meta(f"sha256:{name}")

    def structure(self) -> str:
        """The database's inconsistency; empty if there is none."""
        problem = self._query("PRAGMA integrity_check(1)")[0][0]
        return "" if problem == "ok" else str(problem)

    def _last(self, kind: str) -> Mapping[str, Any] | None:
        seq = self._query("SELECT max(seq) FROM records WHERE kind = ?", kind)[0][0]
        return None if seq is None else unpack(next(rows(self._db, self.folder, seq, seq + 1)))[0].body

    def _status(self) -> RunStatus:
        text = self._meta("status")
        if text not in set(RunStatus):
            raise damage_error(self.folder, f"{text!r} is not a run status")
        return RunStatus(text)

    def _meta(self, name: str) -> str:
        with faults(self.folder):
            return meta(self._db, name)

    def _file(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise damage_error(self.folder, f"{name} cannot be read: {error}") from None

    def _load(self, name: str, text: str) -> dict[str, Any]:
        try:
            return dict(json.loads(text))
        except (ValueError, TypeError) as error:
            raise damage_error(self.folder, f"{name} cannot be read: {error}") from None

    def _query(self, query: str, *values: Any) -> list[Any]:
        with faults(self.folder):
            return self._db.execute(query, values).fetchall()
