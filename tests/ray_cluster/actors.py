"""A Ray cluster, the processes of its samplers and learners, and an observer that kills one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gnomon.store import StepRecord
from gnomon_ray import fleet
from gnomon_ray.own import OwnCluster


@contextmanager
def connected() -> Iterator[OwnCluster]:
    """A new cluster, with which this process is connected."""
    import ray

    found = OwnCluster(4)
    fleet.refresh_token()
    ray.init(address=found.address, log_to_driver=False, configure_logging=False, logging_level="ERROR")
    yield found
    ray.shutdown()
    found.close()


def actors(kind: str = "") -> list[int]:
    """The processes of samplers and trainers in a cluster that this process started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ours = os.environ["RAY_AUTH_TOKEN"].encode() in (path / "environ").read_bytes()
            words = (path / "cmdline").read_bytes().decode(errors="replace")
            if ours and words.startswith(f"ray::{kind}") and words.startswith(("ray::Sampler", "ray::Trainer")):
                found.append(int(path.name))
    return sorted(found)


def ended() -> bool:
    """Whether all samplers and trainers end. Ray kills a process without waiting for its end; that took up to 21 ms in
    twelve trials and may take ten seconds here."""
    deadline = time.monotonic() + 10.0
    while actors() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not actors()


class Killer:
    """An observer that kills an actor after a step. Args: kind: its class; interrupt: the step that ends the run."""

    def __init__(self, kind: str = "Sampler", step: int = 0, interrupt: int = -1) -> None:
        self.kind, self.at, self.interrupt, self.killed = kind, step, interrupt, 0

    def start(self, manifest: object) -> None: ...

    def step(self, record: StepRecord) -> None:
        if record.step == self.at:
            self.killed = actors(self.kind)[0]
            os.kill(self.killed, signal.SIGKILL)
        if record.step == self.interrupt:
            os.kill(os.getpid(), signal.SIGINT)

    def evaluation(self, record: object) -> None: ...

    def finish(self, status: object) -> None: ...
