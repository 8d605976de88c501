"""Part a: gradients of the present version against float64, and replayed passes beside passes from Python."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import torch
from model_gradients import errors

from on_gpu.record import ROOT, Record

MOST = {torch.float32: 3e-6, torch.bfloat16: 0.05, torch.float16: 0.006}
"""Largest relative error of a gradient, from what was measured on an H200 with an older version."""
GRADIENTS = {
    "cuda": [("qwen3", torch.float32), ("qwen3", torch.bfloat16), ("llama", torch.float16)],
    "cpu": [("llama", torch.float32)],
}
TESTS = {
    "cuda": (
        "tests/engines/test_replay.py", "tests/learners/test_device.py", "tests/engines/test_embedded.py",
        "tests/run/test_attention.py", "tests/training/test_engine_apart.py",
    ),
    "cpu": ("tests/learners/test_device.py",),
}  # fmt: skip
"""Replaying with joining rows and without mixtures of experts, the kernel for noise, policies on other devices, and the
bounds of probes are among them."""


def measure(record: Record) -> None:
    wrong = []
    for family, dtype in GRADIENTS[record.device]:
        began, found = time.perf_counter(), [line.error for line in errors(family, dtype, record.device)]
        name = str(dtype).removeprefix("torch.")
        seconds = time.perf_counter() - began
        record.add(f"gradient of {family} in {name}", smallest=min(found), largest=max(found), seconds=seconds)
        wrong += [f"{family} {name}"] if not max(found) <= MOST[dtype] else []
    for path in TESTS[record.device]:
        passed, failed, seconds = tested(path)
        record.add(path, passed=passed, failed=failed, seconds=seconds)
        wrong += [path] if failed or not passed else []
    if wrong:
        raise RuntimeError(f"wrong: {', '.join(wrong)}")


def tested(path: str) -> tuple[int, int, float]:
    """How many tests of a file pass and fail, and the seconds."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x", "--cases", "3", path]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = done.stdout.strip()
    print(text[-1500:] if done.returncode else text.splitlines()[-1])
    passed, failed = (sum(map(int, re.findall(rf"(\d+) {word}", text))) for word in ("passed", "(?:failed|error)"))
    return passed, failed, time.perf_counter() - began
