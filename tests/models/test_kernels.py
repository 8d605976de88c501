"""The processor's type is known to MKL before two threads can ask for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, torch
library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "libtorch_cpu" in line))
detect = ctypes.cast(library.mkl_vml_serv_cpu_detect, ctypes.c_void_p).value
assert ctypes.string_at(detect, 2) == b"\\x8b\\x05"  # mov type(%rip), %eax
kind = ctypes.c_int.from_address(detect + 6 + ctypes.c_int.from_address(detect + 2).value)
print(kind.value)
import gnomon.models.policy
print(kind.value)
"""
"""Reads the variable in which MKL keeps the type: the detecting function begins by loading it. -1 is unknown."""


@pytest.mark.long
def test_one_thread_has_made_the_first_call_when_a_policy_can_be_loaded():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    if "AttributeError" in done.stderr or "AssertionError" in done.stderr:
        pytest.skip("this torch has no MKL of the kind whose first call is unsafe")
    before, after = map(int, done.stdout.split())
    assert before == -1 and after >= 0, done.stderr
