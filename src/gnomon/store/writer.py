"""Write a run: append records, commit checkpoints, and check on resume that the run repeats its records."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import time as clock
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from gnomon.errors import GnomonError, ResourceError, RunError
from gnomon.store import checkpoints
from gnomon.store.attempts import CREDIT, SENTENCES, Attempt, Source, attempts, give_up, set_aside, source
from gnomon.store.checkpoints import Checkpoint, Position
from gnomon.store.compare import differences
from gnomon.store.failpoint import failpoint
from gnomon.store.journal import (
    INSERT,
    build,
    digest,
    faults,
    find,
    head_before,
    meta,
    open_writing,
    rows,
    sync,
    tail,
    transaction,
    write_durably,
)
from gnomon.store.layout import (
    CHECKPOINTS,
    EXTENSION,
    JOURNAL,
    LOCK,
    MANIFEST,
    PREDICTION,
    RECIPE,
    UNFINISHED,
    Record,
    RunStatus,
    canonical,
    pack,
    unpack,
)
from gnomon.store.lock import Lock
from gnomon.store.unfinished import Unfinished
from gnomon.types import EMPTY

__all__ = ["Run", "require_free"]

OURS = {RECIPE, MANIFEST, LOCK, CHECKPOINTS, UNFINISHED, *(f"{JOURNAL}.new{end}" for end in ("", "-journal", "-wal"))}
"""Files that a killed creation can leave. A folder with only these counts as empty."""

JOURNALS = {JOURNAL + end for end in ("", "-journal", "-wal", "-shm")}
"""The database of a run, and SQLite's auxiliary files."""

TAIL = 256
"""Records at the end of the chain that are re-hashed on resume; `verify` re-hashes all."""


class Run:
    """The one writer of a run folder: `Run.create` or `Run.resume`, then a context manager.

    A resumed run repeats its records. It loads a checkpoint and calls `rewind` with the checkpoint's position. Every
    appended record is compared with the existing one until the chain ends. If they differ, an exact run raises; a
    run that may vary moves the old records to an attempt.
    """

    def __init__(self, folder: Path, lock: Lock, tolerate: Collection[Source] = ()) -> None:
        self.folder, self.tolerate = folder, frozenset(tolerate)
        self.unfinished = Unfinished(folder)
        """Episodes of steps that are not recorded yet."""
        self.skipped: list[str] = []
        """Damaged checkpoints found by `latest_checkpoint`, one sentence each."""
        self._lock = lock
        self._db = open_writing(folder)
        try:
            self._count, self._head = tail(self._db, folder, TAIL)
        except BaseException:
            self._db.close()
            raise
        self._position = self._count
        self._set_aside = False
        self.uuid = meta(self._db, "uuid")

    @classmethod
    def create(
        cls,
        folder: Path | str,
        *,
        recipe: str,
        manifest: Mapping[str, Any],
        genesis: Mapping[str, Any],
        varies: str = "",
    ) -> Self:
        """Create a run in a new or empty folder. `genesis` is the first record, which determines the whole run.

        A prediction that lies in the folder is an input of the run: the first record holds its SHA-256.

        Args: varies: why a second run of the recipe may differ; empty for an exact run.
        Raises: RunError E401 if the folder is not empty, E402 if it is in use; ResourceError E501.
        """
        folder = Path(os.path.expanduser(folder))
        canonical(genesis)
        texts = {RECIPE: recipe.encode(), MANIFEST: json.dumps(json.loads(canonical(manifest)), indent=1).encode()}
        with faults(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / JOURNAL).exists():
                require_free(folder)
            lock = Lock(folder)
        with _released_on_error(lock), faults(folder):
            require_free(folder)
            for name, data in texts.items():
                write_durably(folder / name, data)
            (folder / CHECKPOINTS).mkdir(exist_ok=True)
            predicted = {"prediction": digest(folder / PREDICTION)} if (folder / PREDICTION).is_file() else {}
            first = Record(kind="genesis", body={**genesis, **predicted})
            facts = {"uuid": str(uuid4()), "status": RunStatus.RUNNING, "reason": "", "varies": varies}
            build(folder, first, facts | {f"sha256:{name}": sha256(data).hexdigest() for name, data in texts.items()})
            sync(folder.resolve().parent)
            return cls(folder, lock)

    @classmethod
    def resume(cls, folder: Path | str, tolerate: Collection[Source] = ()) -> Self:
        """Open an existing run after its genesis record, to be repeated. `rewind` to a checkpoint first.

        Args: tolerate: sources of differences for which the old records are discarded; others raise E403.
        Raises: RunError E402 if it is in use, E404 if it is not a run, E405 if the end of its chain is damaged, E406 if
        a newer gnomon wrote it.
        """
        folder = Path(folder)
        find(folder)
        with faults(folder):
            lock = Lock(folder)
        with _released_on_error(lock):
            run = cls(folder, lock, tolerate)
        try:
            checkpoints.clean(folder)
            run._settle_recipe()
            run.rewind(1)
            run.set_status(RunStatus.RUNNING, "resumed")
        except BaseException:
            run.close()
            raise
        return run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close the run. After an error its status is failed; a run that stops early is interrupted."""
        try:
            if isinstance(error, Exception) and meta(self._db, "status") == RunStatus.RUNNING:
                # A full disk may refuse this too; the original error is more important.
                with suppress(GnomonError):
                    why = str(error) if isinstance(error, GnomonError) else f"{type(error).__name__}: {error}"
                    self.set_status(RunStatus.FAILED, why)
        finally:
            self.close()

    def close(self) -> None:
        """Release the folder. Appended records are already on the disk."""
        with suppress(sqlite3.Error):
            self._db.close()
        self._lock.release()

    def discard_unused(self) -> bool:
        """Delete a closed run that has only its genesis record, so that its name can be used again.

        Returns: whether it was deleted.
        """
        if self._count > 1 or self._set_aside:
            return False
        for path in self.folder.iterdir():
            if path.is_dir() and path.name in OURS:
                rmtree(path)
            elif path.name in OURS | JOURNALS:
                path.unlink()
        with suppress(OSError):  # The folder contains other files.
            self.folder.rmdir()
        return True

    @property
    def position(self) -> int:
        """Position of the next record."""
        return self._position

    @property
    def fingerprint(self) -> str:
        """Head of the chain before `position`."""
        return self._head.hex()

    @property
    def replaying(self) -> bool:
        """Whether the next record will be compared with an existing one."""
        return self._position < self._count

    def rewind(self, seq: int) -> None:
        """Go back to a position and repeat the run from there; 0 repeats the genesis record too. Deletes nothing.

        Raises: RunError E408 if the chain is shorter.
        """
        head = head_before(self._db, self.folder, seq)
        if head is None:
            raise RunError(
                "E408",
                f"the run cannot continue from record {seq}",
                where=str(self.folder),
                why=f"it has records 0 to {self._count - 1}",
                fix="take the position from a checkpoint of this run: run.rewind(run.latest_checkpoint().seq)",
            )
        self._position, self._head = seq, head

    def append(self, records: Sequence[Record]) -> Attempt | None:
        """Store records in one transaction. When this returns, they survive a power failure.

        Existing records at these positions are compared instead. From the first difference on, they are moved to an
        attempt if the source of the difference is tolerated.

        Returns: the new attempt, if any.
        Raises: RunError E403 at the first difference that is not tolerated, E407 for a body that is not plain JSON;
        ResourceError E501 if the disk is full. On an error, none of `records` is stored.
        """
        self._pass_extensions()
        seq, head, new = self._position, self._head, []
        for record in records:
            new.append(pack(seq, head, record))
            seq, head = seq + 1, new[-1][7]
        old = list(rows(self._db, self.folder, self._position, seq))
        same = next((i for i, (was, now) in enumerate(zip(old, new, strict=False)) if was[7] != now[7]), len(old))
        replaced = old[same:]
        why = self._excuse(replaced, new[same:]) if replaced else ""
        if fresh := new[same:]:
            with transaction(self._db, self.folder):
                if replaced:
                    give_up(self._db, fresh[0][0], old[same - 1][7] if same else self._head, why)
                    self.vary(why)
                    self._note("attempt", {"step": replaced[0][2], "why": why})
                self._db.executemany(INSERT, fresh)
                failpoint("append:before-commit")
            failpoint("append:after-commit")
        self._position, self._head, self._count = seq, head, seq if replaced else max(seq, self._count)
        return self.attempts[-1] if replaced else None

    def extend(self, body: Mapping[str, Any], recipe: str, facts: Mapping[str, Any] = EMPTY) -> None:
        """Go on with other settings from the newest checkpoint: record them, and replace the recipe.

        Records after the checkpoint are kept as an attempt, because a run with these settings may have others there.

        Args: body: of the record; no record if it is empty. facts: of the event that holds the recipe.
        """
        checkpoint = self.latest_checkpoint()
        self.rewind(checkpoint.seq if checkpoint else 1)
        self._pass_extensions()
        step = checkpoint.step if checkpoint else 0
        record = Record(kind=EXTENSION, step=step, body=body)
        with transaction(self._db, self.folder):
            if body and self.replaying:
                why = "the run was extended"
                give_up(self._db, self._position, self._head, why)
                self._note("attempt", {"step": step, "why": why})
            if body:
                row = pack(self._position, self._head, record)
                self._db.execute(INSERT, row)
                self._position, self._head, self._count = self._position + 1, row[7], self._position + 1
            values = (f"sha256:{RECIPE}", sha256(recipe.encode()).hexdigest())
            self._db.execute("REPLACE INTO meta VALUES (?, ?)", values)
            self._note("extended", {**facts, "recipe": recipe})
            failpoint("extend:before-commit")
        failpoint("extend:after-commit")
        self._settle_recipe()

    def _pass_extensions(self) -> None:
        """Go on after records of changed settings, which a step does not repeat."""
        while row := next(rows(self._db, self.folder, self._position, self._position + 1, kind=EXTENSION), None):
            self._position, self._head = row[0] + 1, row[7]

    def _settle_recipe(self) -> None:
        """Write the recipe of the newest extension, unless it is there: a kill may have come before it was written."""
        row = self._db.execute("SELECT body FROM events WHERE kind = 'extended' ORDER BY id DESC LIMIT 1").fetchone()
        recipe = json.loads(row[0])["recipe"].encode() if row else b""
        digest_of_run, path = meta(self._db, f"sha256:{RECIPE}"), self.folder / RECIPE
        if (
            row
            and sha256(recipe).hexdigest() == digest_of_run
            and not (path.is_file() and digest(path) == digest_of_run)
        ):
            fresh = path.with_name(f"{RECIPE}.new")
            with faults(self.folder):
                write_durably(fresh, recipe)
                os.replace(fresh, path)
                sync(self.folder)

    def set_aside(self, records: Sequence[Record], why: str) -> None:
        """Store the records of a failed step as an attempt. The chain does not change, so the step can be repeated.

        If a step fails twice with the same records, they are stored once. Raises: as `append`.
        """
        with transaction(self._db, self.folder):
            set_aside(self._db, self._position, self._head, records, why)
            failpoint("aside:before-commit")
        self._set_aside = True
        failpoint("aside:after-commit")

    @property
    def attempts(self) -> list[Attempt]:
        """The attempts so far."""
        return attempts(self._db, self.folder)

    @property
    def varies(self) -> str:
        """Why a second run of the recipe may differ; empty for an exact run."""
        return meta(self._db, "varies")

    def vary(self, why: str) -> None:
        """Record why a second run of the recipe may differ. Only the first reason is kept."""
        if not self.varies:
            with faults(self.folder):
                self._db.execute("REPLACE INTO meta VALUES ('varies', ?)", (why,))

    def note(self, kind: str, body: Mapping[str, Any] = EMPTY) -> None:
        """Record an event with its time, beside the chain."""
        with transaction(self._db, self.folder):
            self._note(kind, body)

    def time(self, step: int, body: Mapping[str, Any]) -> None:
        """Record the timings of a step, beside the chain."""
        with transaction(self._db, self.folder):
            values = (clock.time(), step, canonical(body).decode())
            self._db.execute("INSERT INTO timings (at, step, body) VALUES (?, ?, ?)", values)

    def set_status(self, status: RunStatus | str, reason: str = "") -> None:
        """Set the status of the run and its reason. A finished run also stores its inventory, for `verify`."""
        facts = {"status": str(RunStatus(status)), "reason": reason}
        end = {"end": canonical(self._inventory()).decode()} if facts["status"] == RunStatus.FINISHED else {}
        with transaction(self._db, self.folder):
            self._db.executemany("REPLACE INTO meta VALUES (?, ?)", (facts | end).items())
            self._note("status", facts)

    def _inventory(self) -> dict[str, Any]:
        """The inventory of the run: records and head of the chain, checkpoints, attempts."""
        return {
            "records": self._count,
            "head": (self._head_before(self._count) or ""),
            "checkpoints": [int(path.name) for path in checkpoints.checkpoint_folders(self.folder)],
            "attempts": [attempt.head for attempt in self.attempts],
        }

    def commit_checkpoint(
        self, step: int, write: Callable[[Path], None], state: Mapping[str, Any], *, keep: int = 2
    ) -> Path:
        """Write a checkpoint of this position in the chain, after `step` finished steps. Returns: its folder.

        Args: write: puts the learner's files into an empty folder; state: everything else that a bitwise resume needs;
            keep: number of checkpoints to keep, in addition to that of step 0.
        Raises: ResourceError E501 if the disk is full (older checkpoints do not change); RunError E403 if a valid
        checkpoint of this step differs.
        """
        position = Position(run=self.uuid, step=step, seq=self._position, fingerprint=self.fingerprint)
        path = checkpoints.commit(self.folder, position, write, state)
        with faults(self.folder):
            checkpoints.retire(self.folder, path, keep)
        failpoint("checkpoint:before-note")
        self.note("checkpoint", {"step": step, "seq": position.seq, "fingerprint": position.fingerprint})
        return path

    def latest_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint that verifies, with every byte re-hashed; None if there is none.

        Checkpoints that do not verify are moved to `quarantine/`. `skipped` and an event give the reasons.
        """
        self.skipped = []
        for path in checkpoints.checkpoint_folders(self.folder):
            with faults(self.folder):
                why = checkpoints.examine(path, self.uuid, self._head_before)
                if not why:
                    return checkpoints.load(path, tuple(self.skipped))
                aside = checkpoints.quarantine(self.folder, path)
            self.skipped.append(f"The checkpoint of step {int(path.name)} is damaged: {why}. It was moved to {aside}.")
            self.note("quarantine", {"step": int(path.name), "why": why, "path": str(aside)})
        return None

    def _head_before(self, seq: int) -> str | None:
        head = head_before(self._db, self.folder, seq)
        return None if head is None else head.hex()

    def _note(self, kind: str, body: Mapping[str, Any]) -> None:
        values = (clock.time(), kind, canonical(body).decode())
        self._db.execute("INSERT INTO events (at, kind, body) VALUES (?, ?, ?)", values)

    def _excuse(self, old: list[tuple[Any, ...]], new: list[tuple[Any, ...]]) -> str:
        """Why the old records are discarded. Raises: RunError E403 if the difference is not tolerated."""
        pairs = [(unpack(was)[0], unpack(now)[0]) for was, now in zip(old, new, strict=False)]
        cause, there, here = source(pairs)
        parts = differences(there, here)
        key = next((key for key in parts if key not in CREDIT), next(iter(parts), "hash"))
        was, now = parts.get(key, (there.hash, here.hash))
        why = f"{SENTENCES[cause]} ({key!r} of {there.place} was {was} and is now {now})"
        if pairs[0][0].seq and cause in self.tolerate:
            return why
        path = shlex.quote(str(self.folder))
        raise RunError(
            "E403",
            "the resumed run diverged from the recorded one",
            where=f"{self.folder}, record {there.seq} ({there.place})",
            why=f"{key!r} was {was} and is now {now}: {SENTENCES[cause]}; nothing was overwritten",
            fix=(
                f"gnomon resume {path} --accept-divergence   # continues and keeps the old records as an attempt; "
                f"or resume with the code and on the machine of {path}/{MANIFEST}"
                if there.seq
                else f"resume with the code and on the machine of {path}/{MANIFEST}, "
                f"or start a new run: gnomon train {path}/{RECIPE} run=OTHER"
            ),
        )


def require_free(folder: Path | str, fix: str = "") -> None:
    """Raises: RunError E401 if the folder is not empty; ResourceError E502 if it cannot be created.

    Args: fix: what the caller's user can do; the settings of `gnomon train` if not given.
    """
    folder = Path(os.path.expanduser(folder))
    if why := hindrance(folder.absolute()):
        raise ResourceError(
            "E502", "the run folder cannot be created", where=str(folder), why=why, fix=fix or "run=OTHER"
        )
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if JOURNAL in names:
        what = "the folder already contains a run"
        fix = fix or f"gnomon resume {shlex.quote(str(folder))}   # or choose another folder: run=OTHER"
    elif strangers := names - OURS - {PREDICTION}:
        what = f"the folder is not empty: it contains {min(strangers)}"
        fix = fix or "choose another folder: run=OTHER"
    else:
        return
    raise RunError("E401", what, where=str(folder), why="a run is never overwritten", fix=fix)


def hindrance(folder: Path) -> str:
    """Why a folder cannot be created and written; empty if it can."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if not there.is_dir():
            return f"{there} is a file"
        if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
            return f"{there} is not writable"
    except OSError as error:
        return str(error.strerror)
    try:
        with TemporaryFile(dir=there):
            return ""
    except OSError:  # Of some file systems, such as /proc.
        return f"{there} takes no files"


@contextmanager
def _released_on_error(lock: Lock) -> Iterator[None]:
    try:
        yield
    except BaseException:
        lock.release()
        raise
