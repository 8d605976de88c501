"""The verbs of a learner for a process that shares no files with it: folders become dictionaries of bytes."""

from __future__ import annotations

import platform
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gnomon.errors import GnomonError, ResourceError, is_full
from gnomon.learners.base import Learner

__all__ = ["carried_out", "files_of", "write_files"]


def carried_out(learner: Learner, verb: str, arguments: tuple[Any, ...]) -> Any:
    """What a verb returns. A published version has its tensors in memory, and a state is the files of its folder.

    Raises: ValueError for a verb that there is not; ResourceError E514 where the disk of temporary files is full; what
        the learner raises.
    """
    with full_disk(), tempfile.TemporaryDirectory(prefix="gnomon-learner-") as name:
        folder = Path(name)
        match verb:
            case "score" | "forward_backward" | "optim_step":
                return getattr(learner, verb)(*arguments)
            case "publish":
                weights = learner.publish()
                return replace(weights, tensors=dict(weights.read()))
            case "save_state":
                learner.save_state(folder)
                return files_of(folder)
            case "load_state":
                write_files(folder, *arguments)
                return learner.load_state(folder)
    raise ValueError(f"there is no verb {verb!r}")


@contextmanager
def full_disk() -> Iterator[None]:
    """Raises: ResourceError E514 where the disk of temporary files is full."""
    try:
        yield
    except GnomonError:
        raise
    except Exception as error:
        if not is_full(error):
            raise
        folder = tempfile.gettempdir()
        raise ResourceError(
            "E514",
            "the learner cannot write its files, because the disk is full",
            where=f"{folder} on {platform.node()}",
            why="the records and checkpoints of the run are intact",
            fix=f"free disk space there (df -h {shlex.quote(folder)}), then: gnomon resume RUN",
        ) from error


def files_of(folder: Path) -> dict[str, torch.Tensor]:
    """The files of a folder by name, as bytes."""
    return {
        path.name: torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
        for path in sorted(folder.iterdir())
        if path.is_file() and path.stat().st_size
    }


def write_files(folder: Path, files: Mapping[str, torch.Tensor]) -> None:
    """Write files of other machines into a folder. Raises: ValueError for a name that leads out of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if name != Path(name).name or name in ("", ".", ".."):
            raise ValueError(f"not the name of a file: {name!r}")
        (folder / name).write_bytes(content.numpy().tobytes())
