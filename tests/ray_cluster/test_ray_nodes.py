"""A run in a Ray cluster whose nodes come and go. The nodes are processes of this machine, each with one place."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gnomon.store import RunReader

MARK = "GNOMON_TEST_NODES"
"""Environment variable by which the processes of a cluster are found: all its descendants inherit it."""
RECIPE = ["char_count", "prompts=4", "group=4", "eval.tasks=4", "eval.every=100", "save.every=2", "rollout.lag=1"]


class Cluster:
    """A head node without resources, and further nodes with a place for one process each."""

    def __init__(self) -> None:
        self.folder, self.mark = tempfile.mkdtemp(prefix="gn"), secrets.token_hex(8)
        self.address = f"127.0.0.1:{20000 + secrets.randbelow(10000)}"
        access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
        self.environment = {**os.environ, **access, MARK: self.mark, "OMP_NUM_THREADS": "1"}
        self.nodes = 1
        head = ["--head", f"--port={self.address.partition(':')[2]}", "--include-dashboard=false"]
        self.start(*head, "--num-cpus=0", f"--temp-dir={self.folder}")

    def start(self, *words: str) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *words]
        subprocess.run(command, env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def join(self) -> list[int]:
        """Start a node. Returns: its processes."""
        before, self.nodes = set(self.processes()), self.nodes + 1
        here = f"--node-ip-address=127.0.0.{self.nodes}"
        self.start(f"--address={self.address}", here, "--num-cpus=4", '--resources={"place": 1}')
        return [pid for pid in self.processes("raylet") if pid not in before]

    def processes(self, word: str = "") -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                ours = f"{MARK}={self.mark}".encode() in (path / "environ").read_bytes()
                if ours and word.encode() in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
        return found

    def run(self, folder: Path, *words: str) -> subprocess.Popen[bytes]:
        places = ["launch=ray", f"launch.address={self.address}", "launch.resources.place=1", "launch.episodes=4"]
        return begun(folder, *places, *words, environment=self.environment)

    def close(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def begun(folder: Path, *words: str, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gnomon", "train", *RECIPE, *words, f"run={folder}"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster()
    yield found
    found.close()


def until(holds: Callable[[], bool], run: subprocess.Popen[bytes]) -> None:
    """Wait, as long as the run goes on and for at most two minutes."""
    deadline = time.monotonic() + 120
    while not holds():
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)


def steps(folder: Path) -> int:
    with suppress(Exception), RunReader(folder) as reader:
        return reader.steps
    return 0


def fingerprint(folder: Path) -> str:
    with RunReader(folder) as reader:
        return reader.fingerprint


@pytest.mark.needs("ray")
@pytest.mark.long
def test_a_sampler_joins_when_a_node_does(tmp_path, cluster):
    """With room for one of two samplers the run begins; the second one comes with the second node."""
    assert begun(tmp_path / "local", "steps=20").wait() == 0
    cluster.join()
    run = cluster.run(tmp_path / "ray", "steps=20", "launch.samplers=2")
    until(lambda: steps(tmp_path / "ray") > 0, run)
    assert len(cluster.processes("ray::Sampler")) == 1
    cluster.join()
    until(lambda: len(cluster.processes("ray::Sampler")) == 2, run)
    assert run.wait(120) == 0
    assert fingerprint(tmp_path / "ray") == fingerprint(tmp_path / "local")


@pytest.mark.needs("ray")
@pytest.mark.long
def test_a_learner_moves_to_another_node(tmp_path, cluster):
    """Its node dies, and no other has room for it until one joins."""
    assert begun(tmp_path / "local", "steps=12").wait() == 0
    nodes = {pid: node for node in (cluster.join(), cluster.join()) for pid in node}
    words = ["steps=12", "launch.samplers=1", "learner=ray", "launch.learner.place=1"]
    run = cluster.run(tmp_path / "ray", *words)
    until(lambda: steps(tmp_path / "ray") > 2, run)
    (trainer,) = cluster.processes("ray::Trainer")
    for pid in nodes[above(trainer, set(nodes))]:
        os.kill(pid, signal.SIGKILL)
    until(lambda: trainer not in cluster.processes("ray::Trainer"), run)
    cluster.join()
    assert run.wait(120) == 0
    assert fingerprint(tmp_path / "ray") == fingerprint(tmp_path / "local")
    with RunReader(tmp_path / "ray") as reader:
        assert reader.events("learner_died")


def above(pid: int, wanted: set[int]) -> int:
    """The first ancestor that is one of these."""
    while pid not in wanted:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid
