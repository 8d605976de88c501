"""Memory of long training passes, as planned and as measured: python benchmarks/long_passes.py

A random model of Qwen3-0.6B's shape with two of its 28 layers, in bfloat16 on the CPU. Each figure is of a process of
its own: how far the resident memory rose in a forward and backward pass above that of the learner with its gradients.
The C library returns freed memory to the system at once there, so the figure is that of the tensors which are alive. A
tenth of each row is its reply. The plan counts the same pass on tensors without values, as `gnomon plan` does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from against_trl import status
from head import random_batch

SHORT = 512
RETURNS = {"MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}


def model(at: Path, layers: int) -> Path:
    """A random model; its tokenizer is the shipped policy's."""
    from transformers import AutoModelForCausalLM, Qwen3Config

    import gnomon
    from gnomon.models.folder import TINY

    shape = json.loads((Path(gnomon.__file__).parent / "recipes/shapes/Qwen3-0.6B/config.json").read_text())
    shape |= {"num_hidden_layers": layers, "layer_types": ["full_attention"] * layers}
    AutoModelForCausalLM.from_config(Qwen3Config(**shape)).save_pretrained(at)
    (at / "tokenizer.json").write_bytes((TINY / "tokenizer.json").read_bytes())
    return at


def figures(at: str, lengths: list[int], rank: int, again: bool) -> tuple[float, float]:
    """GiB of a pass: planned, and measured in this process."""
    from gnomon.config import Source, resolve
    from gnomon.objectives import objective
    from gnomon.plans.devices import GPUS
    from gnomon.plans.passes import meta_policy, training
    from gnomon.run.makers import make_learner
    from gnomon.run.makers.learner import sparing
    from gnomon.run.makers.policy import make_adapter, make_precision

    policy: dict[str, Any] = {"path": at, "dtype": "bfloat16", "device": "cpu", "activation_checkpointing": again}
    policy["lora"] = {"rank": rank}
    settings = {"env": "char_count", "policy": policy, "optim": {"micro_batch": sum(lengths)}}
    config, _ = resolve([Source(settings, {})])
    row, learner = objective("reinforce"), make_learner(config, objective("reinforce"))
    size = learner.policy.vocabulary
    learner.forward_backward(random_batch([SHORT], size), row)  # The gradients are there after it.
    batch = random_batch(lengths, size, prompt=0.9)
    Path("/proc/self/clear_refs").write_text("5")  # The largest resident memory is the present one.
    before = status("VmRSS")
    learner.forward_backward(batch, row)
    rose = status("VmHWM") - before
    cpu = replace(GPUS["l4"], name="cpu")  # Only bytes are of interest.
    blank = sparing(config, meta_policy(Path(at), make_precision(config), make_adapter(config, True)))
    return training(blank, batch.sequences, cpu, micro_batch=sum(lengths)).peak / 2**30, rose / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="*", default=[8192, 16384])
    parser.add_argument("--rows", type=int, nargs="*", default=[SHORT, 0], help="tokens of a row; 0 makes one row")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(figures(**json.loads(chosen.one))))
        return
    print(f"{'rows':>12} {'trained':12} {'activations':12} {'plan':>6} {'measured':>9}  GiB")
    with tempfile.TemporaryDirectory() as scratch:
        at = str(model(Path(scratch), chosen.layers))
        for tokens, rank, again in product(chosen.tokens, (0, 32), (False, True)):
            for lengths in ([row or tokens] * (tokens // row if row else 1) for row in chosen.rows):
                one = json.dumps({"at": at, "lengths": lengths, "rank": rank, "again": again})
                command = [sys.executable, __file__, "--one", one]
                done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **RETURNS})
                if done.returncode:
                    raise SystemExit(done.stderr[-3000:])
                planned, measured = json.loads(done.stdout.splitlines()[-1])
                rows, trained = f"{len(lengths)} x {lengths[0]}", f"LoRA {rank}" if rank else "all weights"
                kept = "recomputed" if again else "kept"
                print(f"{rows:>12} {trained:12} {kept:12} {planned:6.2f} {measured:9.2f}", flush=True)


if __name__ == "__main__":
    main()
