"""Part f: vLLM on the same GPU: speed, mismatch with the learner, sleep, and adapters of several versions."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from gnomon.api import configure
from gnomon.engines import sample_all
from gnomon.run.loops import run_to_end
from gnomon.run.makers import make_engine, make_learner, make_objective
from on_gpu.commands import gnomon, step_seconds
from on_gpu.record import Record, Skipped
from on_gpu.sampling import REPLY, requests
from on_gpu.shapes import model

VLLM = "GNOMON_VLLM_PYTHON"


def measure(record: Record) -> None:
    python = os.environ.get(VLLM)
    if not python:
        raise Skipped(f"{VLLM} is not set")
    if record.small:
        raise Skipped("in miniature, tests/engines/test_vllm.py does this")
    settings = ["engine.type=vllm", f"engine.python={python}", "engine.cache_gib=8"]
    for name, engine in (("embedded", {"type": "embedded"}), ("vllm", {"python": python, "cache_gib": 16})):
        record.add(f"{name}, 256 rows", tokens_per_second=speed(model(record), {"type": name, **engine}))
    found = json.loads(gnomon("mismatch", "tiny", "env=char_count", "policy.device=cuda", *settings, "--json"))
    for line in found:
        what = f"mismatch of {line['engine']} {line['engine_dtype']} with a learner in {line['dtype']}"
        record.add(what, failed=line["failed"], **line["metrics"])
    small = [
        "char_count",
        "prompts=8",
        "group=4",
        "steps=3",
        "eval.tasks=16",
        "policy.device=cuda",
        "policy.dtype=bfloat16",
    ]
    runs = {"awake": [], "asleep": ["engine.sleep=true"], "adapter": ["policy.lora.rank=8"]}
    with tempfile.TemporaryDirectory() as scratch:
        for name, more in runs.items():
            run = Path(scratch) / name
            began = time.perf_counter()
            gnomon("train", *small, *settings, *more, f"run={run}")
            whole = time.perf_counter() - began
            record.add(f"a run, {name}", seconds=whole, step_seconds=statistics.median(step_seconds(run)))


def speed(path: str, engine: dict[str, object]) -> float:
    """Tokens per second of 256 replies, the second time."""
    policy = {"path": path, "dtype": "bfloat16", "device": "cuda"}
    config, _ = configure("countdown", {"policy": policy, "engine": engine, "rollout": {"context": 512}})
    learner = make_learner(config, make_objective(config))
    made = make_engine(config, learner)
    made.tier = made.tier.MEASURED
    made.load(learner.publish())
    for _ in range(2):
        began = time.perf_counter()
        found = run_to_end(sample_all(made, requests(256, REPLY)))
        seconds = time.perf_counter() - began
    made.close()
    return sum(len(each.token_ids) for each in found) / seconds
