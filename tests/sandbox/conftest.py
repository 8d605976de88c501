"""One sandbox for all attacks, and the proof that none left anything on the host."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gnomon.sandbox import Job, Limits, Outcome, Sandbox

LIMITS = Limits(
    cpu_seconds=1, wall_seconds=8, memory_bytes=2**28, processes=8, file_bytes=4 * 2**20, output_bytes=2**16
)
HASTY = replace(LIMITS, wall_seconds=0.8)
"""For what does nothing but wait; on a busy machine, a job that works would be cut short by it."""
CANARY = "canary-5b1f0e7c"


def descendants() -> set[int]:
    """Processes that this one started, with all that those started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def confined(pids: set[int]) -> list[int]:
    """Those that run under a user id of a sandbox; none, where this process is not root."""
    found = []
    for pid in pids:
        try:
            if Path(f"/proc/{pid}").stat().st_uid >= 2_000_000_000:
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1, limits=LIMITS) as made:
        yield made


@pytest.fixture(scope="module")
def hasty() -> Iterator[Sandbox]:
    with Sandbox(workers=1, limits=HASTY) as made:
        yield made


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A service of the host."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen()
        made.setblocking(False)
        yield made


@pytest.fixture
def attacked(
    sandbox: Sandbox, hasty: Sandbox, listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Outcome]]:
    """Run one source in the sandbox; after it the host must be as before, and the next job must be served."""
    secret = tmp_path / "expected.json"
    secret.write_text(CANARY)
    monkeypatch.setenv("EXPECTED", CANARY)
    outcomes: list[Outcome] = []
    before = sorted(tmp_path.rglob("*")), descendants()

    def attack(source: str, *inputs: tuple[object, ...], where: Sandbox = sandbox) -> Outcome:
        job = Job(source=source, call="solve", inputs=inputs or ((),))
        began = time.monotonic()
        outcomes.extend(where.map([job]))
        # Its wall limit, the start of a sandbox, and patience with a busy machine.
        assert time.monotonic() - began < where.limits.wall_seconds + 5
        return outcomes[-1]

    yield attack
    assert outcomes, "nothing was attacked"
    (after,) = sandbox.map([Job(source="solve = lambda: 3", call="solve", inputs=((),))])
    assert after.values[0].json == 3  # type: ignore[union-attr]
    assert CANARY not in repr(outcomes)
    assert secret.read_text() == CANARY and sorted(tmp_path.rglob("*")) == before[0]
    with pytest.raises(BlockingIOError):
        listener.accept()
    # Per sandbox, the program that built it and its first process.
    new = descendants() - before[1]
    assert len(new) <= 4, "processes were left behind"
    assert len(confined(new)) <= 2
