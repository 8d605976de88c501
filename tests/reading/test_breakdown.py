"""The breakdown of the reward as a table: its order is that of the records, in every process."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from gnomon.reading.breakdown import breakdown_text
row = lambda part: {"part": part, "paid": 0.5, "return_share": None, "variance_share": None}
names = ["format", "answer", "length", "style", "tool"]
print(*breakdown_text({"first": [row(n) for n in ("old", *names)], "last": [row(n) for n in names]})[1:], sep="\\n")
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_parts_of_equal_means_have_the_order_of_the_records(seed: str) -> None:
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    parts = [line.split()[0] for line in done.stdout.splitlines()]
    assert parts == ["format", "answer", "length", "style", "tool", "old"]
