"""Part c: a whole step beside TRL's GRPOTrainer, by turns, each in a process of its own."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from itertools import product

from against_trl import Model, Shape
from against_trl import measure as timed

from on_gpu.record import Record, Skipped
from on_gpu.shapes import model

GIB = 2**30


def measure(record: Record) -> None:
    if missing := [name for name in ("trl", "peft", "datasets") if find_spec(name) is None]:
        raise Skipped(f"{', '.join(missing)} is not installed")
    small, path = record.small, model(record)
    shape = Shape(2, 2, 8, True, 0) if small else Shape(16, 8, 256, True, 0)
    record.add("sizes", trl=version("trl"), prompts=shape.prompts, replies=shape.group, reply_tokens=shape.limit)
    # TRL's default computes activations again, and so does the recipe of a GPU.
    for rank, again in product((16,) if small else (16, 0), (True,)):
        settings = Model(
            folder=path, rank=rank, checkpointing=again, threads=1, batch=2 if small else 32, device=record.device,
            dtype="float32" if small else "bfloat16",
        )  # fmt: skip
        found = {}
        for system in ("gnomon", "trl"):
            found[system] = timed(system, shape, 2, settings)
            seconds, peak = found[system]["seconds"][-1], found[system]["peak"]
            name = f"{system}, {f'LoRA {rank}' if rank else 'all weights'}"
            record.add(name, step_seconds=seconds, peak_gib=peak / GIB, whole_gib=found[system]["whole"] / GIB)
        ours, theirs = found["gnomon"], found["trl"]
        record.add(
            f"TRL / Gnomon, {f'LoRA {rank}' if rank else 'all weights'}",
            times_as_fast=theirs["seconds"][-1] / ours["seconds"][-1],
            share_of_memory=ours["peak"] / theirs["peak"],
        )
