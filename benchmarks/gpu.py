"""What is measured on a GPU, as a queue of parts: python benchmarks/gpu.py (or: make gpu, make gpu PART=b)

Parts run in this order, each in a process of its own and for at most its time. A part writes every figure to
FOLDER/PART.json as it comes, with the date, the card, the version of torch and the commit, so a queue that is cut short
keeps what it has. A part that fails does not stop the next one; the exit code is then 1.

    a   correctness: gradients against float64, replayed passes, tests of devices
    b   the trainer alone, beside the table that prime-rl publishes
    c   a whole step beside TRL, both in processes of their own, by turns
    d   SmolLM2 learns two tasks, with the recipe of a CPU and with a larger one
    e   the embedded engine: tokens per second beside the limit of the memory, and the share of time that the GPU works
    f   vLLM beside the embedded engine; needs GNOMON_VLLM_PYTHON, the interpreter of an environment with vLLM
    g   the constants of `gnomon plan`, and plans beside runs
    h   learner processes by NCCL; needs several devices

Without a CUDA device every part runs in miniature on the CPU, as a test.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import torch
from on_gpu.record import ROOT, Record, Skipped


class Part(NamedTuple):
    module: str
    """In `on_gpu`."""
    seconds: int = 180
    """After which it is ended."""


PARTS = {
    "a": Part("correctness"),
    "b": Part("trainer"),
    "c": Part("whole_step"),
    "d": Part("learning", 300),
    "e": Part("sampling"),
    "f": Part("beside_vllm"),
    "g": Part("plans"),
    "h": Part("several"),
}


def run(name: str, path: Path, device: str) -> bool:
    """Run a part in this process. Returns: whether it did not fail."""
    record = Record(path, device)
    try:
        import_module(f"on_gpu.{PARTS[name].module}").measure(record)
    except Skipped as reason:
        record.end("skipped", str(reason))
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        record.end("failed", f"{type(error).__name__}: {error}")
        return False
    else:
        record.end("done")
    return True


def queue(names: list[str], out: Path, device: str) -> int:
    """Run parts one after the other, each in its own process. Returns: how many failed."""
    failed = 0
    for name in names:
        path, began = out / f"{name}.json", time.monotonic()
        print(f"{name} {PARTS[name].module}", flush=True)
        command = [sys.executable, __file__, "--one", name, "--out", str(out), "--device", device]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(command, cwd=ROOT, timeout=PARTS[name].seconds)
        found = json.loads(path.read_text()) if path.exists() else {"status": "failed", "reason": "it wrote nothing"}
        if found["status"] == "running":  # It was ended at its limit, or died.
            found |= {"status": "cut short", "reason": f"after {time.monotonic() - began:.0f} s"}
            path.write_text(json.dumps(found, indent=1) + "\n")
        failed += found["status"] not in ("done", "skipped")
        reason = f": {found['reason']}" if found["reason"] else ""
        print(f"{name} {found['status']}{reason} ({time.monotonic() - began:.0f} s)\n", flush=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="in the order given; all if there are none")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu", help="folder of the figures")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--one", choices=list(PARTS), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        sys.exit(not run(chosen.one, chosen.out / f"{chosen.one}.json", chosen.device))
    sys.exit(bool(queue(chosen.parts or list(PARTS), chosen.out.resolve(), chosen.device)))


if __name__ == "__main__":
    main()
