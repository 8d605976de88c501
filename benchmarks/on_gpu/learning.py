"""Part d: SmolLM2-135M-Instruct learns two tasks, with the recipe of a CPU and with a larger one.

The weights are those of `policy=smollm2`. Where there is no network, `benchmarks/pieces.py` carries their file. The
reward and the questions are those of `examples/addition.py`, which is the run of a CPU; the second task subtracts.
"""

from __future__ import annotations

import importlib
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import gnomon
from gnomon.models.smollm2 import present
from gnomon.reading.summary import summary
from on_gpu.commands import step_seconds
from on_gpu.record import ROOT, Record, Skipped

SIZES = {"8x8, as on a CPU": (8, 8), "64x16": (64, 16)}
SECONDS = 50
"""Of a run, beside its start; four of them fill the part."""


def measure(record: Record) -> None:
    if not (record.small or present()):
        raise Skipped("the weights of SmolLM2 are not here: python benchmarks/pieces.py join FOLDER")
    sys.path.insert(0, str(ROOT / "examples"))  # Workers import the reward by its name.
    addition = importlib.import_module("addition")
    sizes = {"2x2": (2, 2)} if record.small else SIZES
    with tempfile.TemporaryDirectory() as scratch:
        for task, sign in (("addition", "+"), ("subtraction", "-")):
            for size, (prompts, group) in sizes.items():
                run = Path(scratch) / f"{task}-{prompts}"
                settings: dict[str, Any] = {"prompts": prompts, "group": group, "run": run, "quiet": True}
                settings |= small() if record.small else large(prompts * group)
                gnomon.train(asked(addition.rows(), sign), reward=addition.right, **settings).close()
                record.add(f"{task}, {size}", **curve(run))


def asked(rows: list[dict[str, str]], sign: str) -> list[dict[str, str]]:
    """The questions, or those of the difference of their numbers."""
    if sign == "+":
        return rows
    pairs = [sorted(map(int, re.findall(r"\d+", row["prompt"]))) for row in rows]
    found = {f"What is {b} - {a}? Reply with the number only.": str(b - a) for a, b in pairs}
    return [{"prompt": prompt, "answer": answer} for prompt, answer in found.items()]


def large(rows: int) -> dict[str, Any]:
    return {
        "policy": "smollm2", "lora": 16, "lr": 3e-4, "steps": 1000, "seconds": SECONDS,
        "rollout": {"max_tokens": 20}, "eval": {"tasks": 128, "every": max(1, 2000 // rows)},
    }  # fmt: skip


def small() -> dict[str, Any]:
    return {"policy": "tiny", "steps": 2, "rollout": {"max_tokens": 4}, "eval": {"tasks": 4}}


def curve(run: Path) -> dict[str, object]:
    """What a run did: the reward of every step, held-out pass@1 before and after, and the seconds of a step."""
    with gnomon.RunReader(run) as reader:
        found = summary(reader)
    return {
        "steps": found["steps"],
        "step_seconds": statistics.median(step_seconds(run)),
        "reward": found["curve"]["reward"],
        "held_out": {each["step"]: each["pass_at"]["1"]["value"] for each in found["evaluations"]},
    }
