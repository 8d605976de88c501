"""A learner in a Ray cluster dies while the disk of its node is full. The cluster has temporary files of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import gnomon
from gnomon.errors import ResourceError
from gnomon.store import RunReader, StepRecord
from ray_cluster.actors import connected

SMALL = {"steps": 6, "prompts": 4, "group": 4, "eval": {"tasks": 4, "every": 100}, "save": {"every": 2}, "quiet": True}
RAY = {"learner": "ray", "launch": {"type": "ray", "samplers": 1, "episodes": 4, "state_every": 100}}


@pytest.fixture()
def disk(tmp_path: Path) -> Iterator[Path]:
    """The temporary files of all processes of a cluster, with which this process is connected."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root: " + mounted.stderr.decode().strip())
    there = pytest.MonkeyPatch()
    there.setenv("RAY_TMPDIR", tempfile.gettempdir())  # Ray's own files are not on it.
    there.setenv("TMPDIR", str(folder))
    with connected():
        yield folder
    there.undo()
    subprocess.run(["umount", "-l", str(folder)], check=True)


class Killer:
    """An observer that kills the learner after a step, when it has filled the disk."""

    def __init__(self, step: int, disk: Path) -> None:
        self.at, self.disk = step, disk

    def start(self, manifest: object) -> None: ...

    def step(self, record: StepRecord) -> None:
        if record.step == self.at:
            fill(self.disk / "ballast")
            os.kill(trainer(), signal.SIGKILL)

    def evaluation(self, record: object) -> None: ...

    def finish(self, status: object) -> None: ...


def fill(path: Path) -> None:
    """Leave room for small files alone. Python takes another folder where no temporary file can be written at all."""
    with path.open("wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(bytes(2**12))
        file.truncate(file.tell() - 2**18)


def trainer() -> int:
    """The process of the learner in the cluster."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ours = os.environ["RAY_AUTH_TOKEN"].encode() in (path / "environ").read_bytes()
            if ours and (path / "cmdline").read_bytes().startswith(b"ray::Trainer"):
                return int(path.name)
    raise AssertionError("no learner")


@pytest.mark.needs("ray")
@pytest.mark.long
def test_a_new_learner_that_cannot_load_its_state_ends_the_run(tmp_path: Path, disk: Path) -> None:
    """It would go on with the weights of the beginning. With space again, the run ends with the same fingerprint."""
    with gnomon.train("calculator", run=tmp_path / "local", **SMALL) as run:
        wanted = run.fingerprint
    folder, killer = tmp_path / "ray", Killer(2, disk)
    with pytest.raises(ResourceError, match=r"(?s)E514.*the disk is full.*fix: free disk space there \(df -h "):
        gnomon.train("calculator", run=folder, **SMALL, **RAY, observers=[killer])
    with RunReader(folder) as reader:
        assert reader.steps == 3
    (disk / "ballast").unlink()
    with gnomon.resume(folder, quiet=True) as run:
        assert run.complete and run.fingerprint == wanted
