"""What `gnomon plan` says beside what a run needs: python benchmarks/plan.py [--device h100]

Random models, so no download. The reward is the toss of a coin, so every group trains. The plan is made for the lengths
that the run has recorded. Each run is a process of its own; its peak is the largest resident memory, its time the
median of its steps after the first, in processor time of one thread, so that other work on the machine counts little.
On a GPU, named as in `gnomon plan --device`, the models are larger, the peak is what torch has reserved there, and the
time is by the clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from gnomon.envs.char_count import CharCount
from gnomon.types import Part, Status, Task, Verdict

STEPS = 3
ACCEPTED = ["correctness.own_solution", "exploit.empty_reply", "exploit.empty_slot"]
"""What the audit finds about a reward by chance."""


@dataclass(frozen=True, kw_only=True)
class Coin(CharCount):
    """The reward is a number between 0 and 1 that follows from the reply."""

    def verify(self, task: Task, reply: str) -> Verdict:
        value = sha256((task.id + reply).encode()).digest()[0] / 255
        return Verdict(status=Status.WRONG, parts=(Part(name="correct", value=value),))


@dataclass(frozen=True)
class Pair:
    """A model and settings."""

    model: str
    settings: Sequence[str]


PAIRS = {
    "shipped policy, 256 rows of 64": Pair("tiny", ("prompts=32", "group=8", "rollout.max_tokens=64")),
    "GPT-2 shape, full": Pair("gpt2", ("prompts=4", "group=4", "rollout.max_tokens=96")),
    "GPT-2 shape, LoRA 8": Pair("gpt2", ("prompts=4", "group=8", "rollout.max_tokens=96", "policy.lora.rank=8")),
    "Qwen3 shape, full": Pair("qwen3", ("prompts=2", "group=4", "rollout.max_tokens=48")),
    "Qwen3 shape, LoRA 8, recomputed": Pair(
        "qwen3",
        (
            "prompts=4",
            "group=4",
            "rollout.max_tokens=96",
            "policy.lora.rank=8",
            "policy.activation_checkpointing=true",
        ),
    ),
}

HALF = "policy.dtype=bfloat16"
GPU_PAIRS = {
    "Qwen3-0.6B, full": Pair("qwen3-0.6b", ("prompts=32", "group=8", "rollout.max_tokens=256", HALF)),
    "Qwen3-0.6B, LoRA 32": Pair(
        "qwen3-0.6b", ("prompts=32", "group=16", "rollout.max_tokens=512", HALF, "policy.lora.rank=32")
    ),
    "Qwen3-0.6B, LoRA 32, flex": Pair(
        "qwen3-0.6b",
        ("prompts=16", "group=8", "rollout.max_tokens=256", HALF, "policy.lora.rank=32", "policy.attention=flex"),
    ),
    "Qwen2.5-1.5B, full, recomputed": Pair(
        "qwen2.5-1.5b",
        ("prompts=16", "group=8", "rollout.max_tokens=256", HALF, "policy.activation_checkpointing=true"),
    ),
}


def folder(kind: str, at: Path) -> str:
    """A random model: of the shape of Qwen3-0.6B, Qwen2.5-1.5B, GPT-2 with half its layers, or Qwen3-0.6B with half its
    width and a seventh of its layers; its vocabulary is whole. Its tokenizer is the shipped policy's, with a number for
    every further token."""
    if kind == "tiny":
        return kind
    import torch
    from transformers import AutoModelForCausalLM, GPT2Config, Qwen2Config, Qwen3Config

    from gnomon.models.folder import TINY

    place = at / kind
    if not place.exists():
        torch.manual_seed(0)
        ends = {"bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0}
        config = {
            "gpt2": GPT2Config(vocab_size=50_257, n_embd=768, n_layer=6, n_head=12, **ends),
            "qwen3": Qwen3Config(
                vocab_size=151_936, hidden_size=512, intermediate_size=1536, num_hidden_layers=4, head_dim=64,
                num_attention_heads=8, num_key_value_heads=4, tie_word_embeddings=True, **ends,
            ),
            "qwen3-0.6b": Qwen3Config(
                vocab_size=151_936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, head_dim=128,
                num_attention_heads=16, num_key_value_heads=8, tie_word_embeddings=True, **ends,
            ),
            "qwen2.5-1.5b": Qwen2Config(
                vocab_size=151_936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28,
                num_attention_heads=12, num_key_value_heads=2, tie_word_embeddings=True, **ends,
            ),
        }[kind]  # fmt: skip
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            model = AutoModelForCausalLM.from_config(config)
        model.save_pretrained(place)
        words = json.loads((TINY / "tokenizer.json").read_text())
        known = words["model"]["vocab"]
        known |= {f" {token}": token for token in range(len(known), config.vocab_size)}
        (place / "tokenizer.json").write_text(json.dumps(words))
    return str(place)


def measured(words: Sequence[str], run: Path, clock: str) -> tuple[float, float]:
    """Peak in bytes and seconds per step of a run. Args: clock: which seconds."""
    from gnomon.store import RunReader

    command = [sys.executable, "-m", "gnomon", "train", *words, f"run={run}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-4000:])
    with RunReader(run) as reader:
        rows = reader.timings()
    return max(row["peak_bytes"] for row in rows), statistics.median(row[clock] for row in rows[1:])


class Figures(NamedTuple):
    """Bytes and seconds of a step, as planned and as a run had them."""

    planned_peak: float
    peak: float
    planned_seconds: float
    seconds: float


def compared(pair: Pair, scratch: Path, device: str) -> Figures:
    """A plan and its run. Args: scratch: a folder for models and runs; device: as in `gnomon plan --device`."""
    recipe = [f"{__file__}:Coin", f"policy={folder(pair.model, scratch)}", *pair.settings]
    recipe += [f"steps={STEPS}", "eval.tasks=4", "rollout.stop=[]", f"audit.acknowledge={json.dumps(ACCEPTED)}"]
    run = Path(tempfile.mkdtemp(dir=scratch)) / "run"
    peak, seconds = measured(recipe, run, "cpu_seconds" if device == "cpu" else "seconds")
    command = [sys.executable, "-m", "gnomon", "plan", str(run), "--json", "--device", device]
    plan = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return Figures(plan["peak"], peak, plan["step_seconds"], seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", nargs="*")
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    pairs = PAIRS if chosen.device == "cpu" else GPU_PAIRS
    print(f"{'':34} {'peak, GiB':>20} {'':>6} {'s per step':>16}")
    with tempfile.TemporaryDirectory() as scratch:
        for name in chosen.pairs or pairs:
            found = compared(pairs[name], Path(scratch), chosen.device)
            print(
                f"{name:34} {found.planned_peak / 2**30:6.2f} of {found.peak / 2**30:6.2f}"
                f" {found.planned_peak / found.peak - 1:+7.0%}"
                f" {found.planned_seconds:7.2f} of {found.seconds:6.2f}"
                f" {found.planned_seconds / found.seconds - 1:+7.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
