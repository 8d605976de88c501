"""Atomic checkpoints: written to a temporary folder, hashed, renamed at the end, and verified when read.

A checkpoint contains its position in the chain of records. A checkpoint that does not verify is moved aside with the
reason, and the one before it is used.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from gnomon.errors import RunError
from gnomon.store.failpoint import failpoint
from gnomon.store.journal import digest, faults, require_there, sync, write_durably
from gnomon.store.layout import (
    CHECKPOINT_MANIFEST,
    CHECKPOINT_STATE,
    CHECKPOINTS,
    FORMAT,
    QUARANTINE,
    canonical,
)

__all__ = ["Checkpoint", "Position", "checkpoint_folders", "clean", "commit", "examine", "load", "quarantine", "retire"]

NAME = re.compile(r"\d{6,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The run and the position of a checkpoint."""

    run: str
    """The run's uuid."""
    step: int
    """Number of finished steps."""
    seq: int
    """Position in the chain of the first record after the checkpoint."""
    fingerprint: str
    """Head of the chain before `seq`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A verified checkpoint."""

    path: Path
    """Its folder, with the learner's files."""
    step: int
    seq: int
    """Position for `rewind` before the run continues."""
    fingerprint: str
    state: Mapping[str, Any] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    """Newer checkpoints that did not verify, one sentence each."""


def commit(folder: Path, position: Position, write: Callable[[Path], None], state: Mapping[str, Any]) -> Path:
    """Write a new checkpoint atomically. Existing checkpoints do not change.

    Raises: ResourceError E501 if the disk is full; RunError E403 if a valid checkpoint of this step has other content,
    E412 if the folder is missing.
    """
    require_there(folder)
    root = folder / CHECKPOINTS
    fresh = root / f".tmp-{position.step:06d}-{uuid4().hex[:8]}"
    with faults(folder):
        try:
            root.mkdir(exist_ok=True)
            fresh.mkdir()
            _fill(fresh, position, write, state)
            target = _settle(folder, fresh, position)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        failpoint("checkpoint:after-rename")
        sync(root)
    return target


def _fill(fresh: Path, position: Position, write: Callable[[Path], None], state: Mapping[str, Any]) -> None:
    failpoint("checkpoint:before-write")
    write(fresh)
    for name in (CHECKPOINT_STATE, CHECKPOINT_MANIFEST):
        if (fresh / name).exists():
            raise ValueError(f"{name} is reserved for the store; give the learner's file another name")
    failpoint("checkpoint:before-state")
    write_durably(fresh / CHECKPOINT_STATE, canonical(state))
    failpoint("checkpoint:before-sync")
    files = {name: _measure(fresh / name) for name in _files(fresh)}
    body = {"format": FORMAT, "run": position.run, "step": position.step, "seq": position.seq}
    body |= {"fingerprint": position.fingerprint, "files": files}
    failpoint("checkpoint:before-manifest")
    body["seal"] = _seal(body)
    write_durably(fresh / CHECKPOINT_MANIFEST, json.dumps(body, indent=1, sort_keys=True).encode("ascii"))
    for inner in (*(path for path in fresh.rglob("*") if path.is_dir()), fresh):
        sync(inner)
    failpoint("checkpoint:before-rename")


def _settle(folder: Path, fresh: Path, position: Position) -> Path:
    """Rename the checkpoint to its final name. If an equal one exists, as in a resumed run, that one is kept."""
    target = folder / CHECKPOINTS / f"{position.step:06d}"
    if target.exists():
        if examine(target, position.run):
            quarantine(folder, target)
        else:
            _same(target, fresh)
            shutil.rmtree(fresh, ignore_errors=True)
            return target
    os.rename(fresh, target)
    return target


def _same(there: Path, fresh: Path) -> None:
    old, new = _manifest(there), _manifest(fresh)
    names = sorted(old["files"].keys() | new["files"].keys())
    parts = [name for name in names if old["files"].get(name) != new["files"].get(name)]
    parts += [name for name in ("seq", "fingerprint") if old[name] != new[name]]
    if parts:
        path = shlex.quote(str(there))
        raise RunError(
            "E403",
            "the resumed run diverged from the recorded one",
            where=str(there),
            why=f"the valid checkpoint of this step differs in {', '.join(parts)}; it was kept",
            fix=f"resume from it, or move it away: mv {path} {path}-aside",
        )


def checkpoint_folders(folder: Path) -> list[Path]:
    """Folders of the checkpoints, newest first, verified or not."""
    root = folder / CHECKPOINTS
    folders = [path for path in root.iterdir() if NAME.fullmatch(path.name)] if root.is_dir() else []
    return sorted(folders, key=lambda path: int(path.name), reverse=True)


def examine(path: Path, run: str, chain: Callable[[int], str | None] | None = None) -> str:
    """Why a checkpoint does not verify; empty if every byte is unchanged.

    Args: chain: returns the head of the run's chain before a position, None beyond its end.
    Raises: RunError E406 for a checkpoint of a newer format.
    """
    try:
        body = _manifest(path)
        if body["format"] > FORMAT:
            why = "a newer gnomon wrote it; nothing was changed"
            raise RunError("E406", f"a checkpoint has the unknown format {body['format']}", where=str(path), why=why)
        if body["seal"] != _seal({name: value for name, value in body.items() if name != "seal"}):
            return f"{CHECKPOINT_MANIFEST} does not match its own hash"
        if body["run"] != run:
            return f"it belongs to run {body['run']}"
        if body["step"] != int(path.name):
            return f"it was taken at step {body['step']}"
        if chain and chain(body["seq"]) != body["fingerprint"]:
            return f"the run's records before {body['seq']} have changed since it was written"
        return _examine_files(path, body["files"])
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return f"the disk cannot read it back ({error})"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{CHECKPOINT_MANIFEST} cannot be read ({type(error).__name__}: {error})"


def _examine_files(path: Path, files: Mapping[str, Mapping[str, Any]]) -> str:
    there = set(_files(path)) - {CHECKPOINT_MANIFEST}
    if missing := sorted(files.keys() - there):
        return f"{missing[0]} is missing"
    if extra := sorted(there - files.keys()):
        return f"{extra[0]} is not in its manifest"
    for name, facts in sorted(files.items()):
        if (size := (path / name).stat().st_size) != facts["size"]:
            return f"{name} has {size} bytes instead of {facts['size']}"
        if digest(path / name) != facts["sha256"]:
            return f"{name} has changed since it was written"
    return ""


def load(path: Path, skipped: tuple[str, ...]) -> Checkpoint:
    """Load a checkpoint that `examine` has verified."""
    body = _manifest(path)
    state = json.loads((path / CHECKPOINT_STATE).read_bytes())
    where = {name: body[name] for name in ("step", "seq", "fingerprint")}
    return Checkpoint(path=path, state=state, skipped=skipped, **where)


def quarantine(folder: Path, path: Path) -> Path:
    """Move a checkpoint to the quarantine folder. Returns: its new path."""
    aside = folder / QUARANTINE
    aside.mkdir(exist_ok=True)
    target = aside / f"{path.name}-{uuid4().hex[:8]}"
    failpoint("quarantine:before-rename")
    os.rename(path, target)
    sync(aside)
    sync(path.parent)
    return target


def retire(folder: Path, newest: Path, keep: int) -> None:
    """Delete old checkpoints, except the last `keep`, that of step 0 and `newest`."""
    others = [path for path in checkpoint_folders(folder) if path != newest]
    for path in others[max(keep, 1) - 1 :]:
        if int(path.name) == 0:
            continue
        trash = path.parent / f".trash-{path.name}-{uuid4().hex[:8]}"
        failpoint("retire:before-rename")
        os.rename(path, trash)
        failpoint("retire:before-delete")
        shutil.rmtree(trash, ignore_errors=True)


def clean(folder: Path) -> None:
    """Remove folders that a killed writer left incomplete."""
    root = folder / CHECKPOINTS
    for pattern in (".tmp-*", ".trash-*"):
        for leftover in root.glob(pattern):
            shutil.rmtree(leftover, ignore_errors=True)


def _files(path: Path) -> Iterator[str]:
    for inner in sorted(path.rglob("*")):
        if inner.is_symlink() or not (inner.is_file() or inner.is_dir()):
            raise ValueError(f"{inner.name} is neither a plain file nor a folder")
        if inner.is_file():
            yield inner.relative_to(path).as_posix()


def _measure(path: Path) -> dict[str, Any]:
    sync(path)
    return {"size": path.stat().st_size, "sha256": digest(path)}


def _manifest(path: Path) -> dict[str, Any]:
    body = json.loads((path / CHECKPOINT_MANIFEST).read_bytes())
    if not isinstance(body, dict):
        raise ValueError("it is not a table")
    return body


def _seal(body: Mapping[str, Any]) -> str:
    return sha256(canonical(body)).hexdigest()
