"""How many runs of a study are in progress together: no more than fit the free memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gnomon.types import Conclusion
from gnomon_lab.studies.command import look
from gnomon_lab.studies.folder import StudyFolder
from gnomon_lab.studies.memory import Room, fitting, free_memory, memory_of

MIB = 2**20


@pytest.mark.parametrize(
    ("jobs", "largest", "holding", "free", "fit"),
    [
        (7, 100, 0, 1000, 7),
        (7, 100, 0, 699, 6),
        (7, 100, 200, 100, 3),
        (7, 100, 0, 0, 1),
        (7, 100, 100, 99, 1),
        (7, 0, 0, 10, 7),
        (7, 100, 0, None, 7),
        (1, 100, 0, 1000, 1),
    ],
)
def test_what_fits(jobs: int, largest: int, holding: int, free: int | None, fit: int) -> None:
    assert fitting(jobs, largest, holding, free) == fit


def test_the_memory_of_a_process_is_that_of_its_children_too() -> None:
    """A child that touches 64 MiB adds at least that; the tolerance upwards is the interpreter itself."""
    code = "import subprocess, sys; x = bytearray(b'1' * (64 << 20)); print('ready', flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    before = memory_of(os.getpid())
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == b"ready\n"
        held = memory_of(child.pid)
        assert 64 * MIB <= held <= 128 * MIB
        assert memory_of(os.getpid()) >= before // 2 + 64 * MIB
        child.stdin.close()
    assert memory_of(child.pid) == 0


def host(folder: Path, available: int, group: str) -> Path:
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable: {available // 1024} kB\n")
    (folder / "proc/self/cgroup").write_text(group)
    return folder / "proc"


def limit(folder: Path, most: str, used: int, cache: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cache}\n")


def test_the_free_memory_is_the_least_of_the_host_and_of_every_group_above(tmp_path: Path) -> None:
    proc, groups = host(tmp_path, 900 * MIB, "0::/outer/inner\n"), tmp_path / "cgroup"
    assert free_memory(proc, groups) == 900 * MIB
    limit(groups / "outer/inner", "max", 10 * MIB, 0)
    assert free_memory(proc, groups) == 900 * MIB
    limit(groups / "outer", str(500 * MIB), 200 * MIB, 50 * MIB)
    assert free_memory(proc, groups) == 350 * MIB
    limit(groups / "outer/inner", str(100 * MIB), 40 * MIB, 0)
    assert free_memory(proc, groups) == 60 * MIB
    limit(groups / "outer/inner", str(100 * MIB), 140 * MIB, 0)
    assert free_memory(proc, groups) == 0
    assert free_memory(tmp_path / "none", groups) is None


def test_a_limit_of_a_group_of_version_1_counts(tmp_path: Path) -> None:
    proc, groups = host(tmp_path, 900 * MIB, "5:cpu:/a\n4:memory:/job\n"), tmp_path / "cgroup"
    folder = groups / "memory/job"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text(f"{300 * MIB}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{100 * MIB}\n")
    (folder / "memory.stat").write_text(f"total_inactive_file {20 * MIB}\n")
    assert free_memory(proc, groups) == 220 * MIB


def test_the_first_run_is_alone_and_the_number_is_lowered_in_one_line() -> None:
    said: list[str] = []
    sizes = {1: 100 * MIB, 2: 100 * MIB, 3: 300 * MIB}
    room = Room(7, said.append, free=lambda: 250 * MIB, measure=sizes.__getitem__)
    assert room.at_once([]) == 1 and room.at_once([1]) == 1 and not said
    room.first_ended()
    assert room.at_once([]) == 2
    assert said == ["2 at a time instead of 7: a run takes 100 MiB, and 250 MiB are free"]
    assert room.at_once([1, 2]) == 2 and len(said) == 1
    assert room.at_once([1, 3]) == 2 and len(said) == 1  # (250 + 400) / 300
    assert room.at_once([3]) == 1 and len(said) == 2


def test_after_its_time_the_first_run_is_no_longer_alone_and_with_one_job_nothing_is_measured() -> None:
    room = Room(3, print, free=lambda: None, measure=lambda process: 5, alone=0.0)
    assert room.at_once([1]) == 3
    assert Room(1, print, free=lambda: 1 // 0, measure=lambda process: 1 // 0).at_once([1]) == 1


STUDY = """
import time
from gnomon_lab.studies import Claim, Study


def held(seed):
    kept = bytearray(b"1" * (48 << 20))
    time.sleep(1.5)
    return {"size": float(len(kept)) + seed}


def none(seed):
    return {"size": float(seed)}


study = Study(
    question="Which arm is larger?",
    why="To measure memory.",
    arms={"held": held, "none": none},
    claims=[Claim(measure="size", arm="held", than="none")],
    prediction={"PASS": 1.0, "FAIL": 0.0, "INCONCLUSIVE": 0.0},
    exact=True,
)
"""


def test_a_study_runs_fewer_at_a_time_where_the_memory_is_short(tmp_path: Path) -> None:
    """With 1 MiB of free memory and four runs at a time; what the first run holds is measured."""
    (tmp_path / "sizes.py").write_text(STUDY)
    said: list[str] = []
    found = look(
        StudyFolder.register(tmp_path / "folder", tmp_path / "sizes.py"), 4, Room(4, said.append, free=lambda: MIB)
    )
    assert found.verdict is Conclusion.PASS
    assert len(said) == 1 and said[0].startswith("1 at a time instead of 4: a run takes "), said
    assert int(said[0].split("takes ")[1].split(" MiB")[0]) >= 48
