"""Threads of torch that wait for each other: spinning takes processor time, sleeping takes none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gnomon.models.waiting import sleeps

START = """
import os, sys, threading, time, torch
import gnomon
from gnomon.models.waiting import Parked, libgomp, set_threads

gomp = libgomp()
if gomp is None or len(os.sched_getaffinity(0)) < 2:
    print("skip")
    sys.exit()
numbers = torch.randn(2**18)

def burnt():
    spent = 0.0
    for _ in range(30):
        numbers.exp()
        begun = time.process_time()
        time.sleep(0.03)  # Nothing is computed here; only a thread that spins takes time.
        spent += time.process_time() - begun
    return spent
"""


def printed(code: str, kept: dict[str, str]) -> list[str]:
    """What a new process prints, in which torch is imported before Gnomon."""
    done = subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True, check=True, env=kept)
    if done.stdout.strip() == "skip":
        pytest.skip("needs two cores, and a torch with GCC's OpenMP")
    return done.stdout.split()


@pytest.fixture
def kept(monkeypatch) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_", "KMP_"))}


def test_threads_sleep_as_long_as_a_team_is_parked(kept):
    code = """
torch.set_num_threads(2)
before = burnt()
parked = Parked(gomp)
during = burnt()
parked.end()
print(before, during, burnt())
"""
    before, during, after = map(float, printed(code, kept))
    assert during < before / 4 and during < after / 4


def test_threads_come_to_sleep_beside_busy_processes(kept):
    code = """
import subprocess
busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(3 * os.cpu_count())]
try:
    set_threads(2)
    end = time.monotonic() + 20
    asleep = lambda: "gnomon-parked" in {each.name for each in threading.enumerate()}
    while time.monotonic() < end and not asleep():
        numbers.exp()
    print(asleep())
finally:
    for each in busy:
        each.kill()
"""
    assert printed(code, kept) == ["True"]


@pytest.mark.parametrize(
    ("asleep", "ran", "waited", "found"),
    [
        (False, 0.4, 0.04, False),  # Alone.
        (False, 0.25, 0.22, True),  # Beside one busy process.
        (True, 0.3, 0.01, False),  # Alone again.
        (True, 0.15, 0.15, True),
        (True, 0.003, 0.0, True),  # Idle: nothing is known.
        (False, 0.0, 0.004, False),
        (True, 0.0, 0.25, True),  # Beside so much that it hardly runs.
    ],
)
def test_threads_sleep_where_they_wait_for_cores(asleep, ran, waited, found):
    assert sleeps(asleep, ran, waited) == found
