"""Part h: learner processes that sum gradients by NCCL, beside one process."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import torch

from on_gpu.commands import gnomon, step_seconds
from on_gpu.record import Record, Skipped


def measure(record: Record) -> None:
    devices = torch.cuda.device_count()
    if devices < 2 and not record.small:
        raise Skipped("there is one device")
    words = ["char_count", "group=4", "steps=3", f"policy.device={record.device}"]
    words += ["prompts=2", "max_tokens=4", "eval.tasks=1"] if record.small else ["prompts=8", "eval.tasks=8"]
    words += [] if record.small else ["policy.dtype=bfloat16"]
    with tempfile.TemporaryDirectory() as scratch:
        for ranks in (1, max(2, devices)):
            run = Path(scratch) / str(ranks)
            gnomon("train", *words, f"ranks={ranks}", f"run={run}")
            record.add(f"{ranks} processes", step_seconds=statistics.median(step_seconds(run)))
