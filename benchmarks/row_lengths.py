"""Memory of a gradient for rows of equal and of unequal lengths: python benchmarks/row_lengths.py

A random model, so no download. Half of the tokens of the unequal rows are in one row, so rows times the longest row is
far more than there are tokens. Every figure is of a process of its own: how far the resident memory rose above that of
the loaded learner, with all tokens in one micro-batch and with the default micro-batch of 3,072 tokens. With `--count`,
it is the most bytes of a forward and backward pass, counted on tensors without values as `gnomon plan` does. With
`--sampling`, the figures are of a reply of 8 tokens to one long prompt, sampled by the embedded engine: GiB counted by
the plan and resident above the loaded policy, and seconds of processor time.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from head import folder, measured, peak

TOKENS = (1024, 4096, 16384)
PROMPTS, REPLY = (2000, 4000, 8000, 16000, 32000), 8
SHORT, EVEN = 32, 256
"""Tokens of a short row beside the long one, and of rows of equal lengths."""


def shapes(tokens: int) -> dict[str, list[int]]:
    """Lengths of rows that have so many tokens."""
    return {"equal": [EVEN] * (tokens // EVEN), "unequal": [tokens // 2] + [SHORT] * (tokens // 2 // SHORT)}


def counted(at: Path, lengths: list[int], micro_batch: int) -> float:
    """GiB of a forward and backward pass, without weights and their gradients; a quarter of each row is its prompt."""
    from gnomon.models.precision import Precision
    from gnomon.plans.devices import GPUS
    from gnomon.plans.passes import meta_policy, texts, training

    rows = [
        replace(text, token_ids=text.token_ids + 2 * place, rollout=place, group=0)
        for place, length in enumerate(lengths)
        for text in texts([length // 4], 1, length - length // 4)
    ]
    cpu = replace(GPUS["l4"], name="cpu")  # Which holds fewer scores at once; only bytes are of interest.
    return training(meta_policy(at, Precision()), rows, cpu, micro_batch=micro_batch).peak / 2**30


def foreseen(at: Path, prompt: int) -> float:
    """GiB of sampling a reply to a prompt of so many tokens, without weights."""
    from gnomon.models.precision import Precision
    from gnomon.plans.devices import GPUS
    from gnomon.plans.passes import decoding, meta_policy

    return decoding(meta_policy(at, Precision()), [prompt], 1, REPLY, replace(GPUS["l4"], name="cpu")).peak / 2**30


def sampled(at: Path, prompt: int) -> tuple[float, float]:
    """The same, resident, and seconds."""
    import torch

    from gnomon.engines.embedded import Embedded
    from gnomon.keys import Key
    from gnomon.models.policy import Policy
    from gnomon.types import Request, Sampling

    torch.set_num_threads(1)
    engine = Embedded(Policy.load(at))
    before, began = peak(), time.process_time()
    ids = torch.randint(2, 2000, (prompt,), generator=torch.Generator().manual_seed(1)).tolist()
    asyncio.run(engine.sample(Request(prompt_ids=tuple(ids), key=Key(0).bytes, sampling=Sampling(max_tokens=REPLY))))
    return (peak() - before) / 2**30, time.process_time() - began


def prompts(at: Path) -> None:
    """A line for each length of a prompt."""
    print(f"{'prompt':>7} {'counted':>12} {'resident':>12} {'seconds':>9}")
    for tokens in PROMPTS:
        done = subprocess.run(
            [sys.executable, __file__, str(at), str(tokens)], capture_output=True, text=True, check=True
        )
        gib, seconds = map(float, done.stdout.split())
        print(f"{tokens:7} {foreseen(at, tokens):8.2f} GiB {gib:8.2f} GiB {seconds:9.1f}", flush=True)


def main() -> None:
    count = sys.argv[1:] == ["--count"]
    if len(sys.argv) == 3:
        print(*sampled(Path(sys.argv[1]), int(sys.argv[2])))
        return
    if sys.argv[1:] == ["--sampling"]:
        with tempfile.TemporaryDirectory() as scratch:
            prompts(folder(Path(scratch), vocabulary=8192, layers=4, hidden=256))
        return
    if len(sys.argv) > 1 and not count:
        _, gib = measured(Path(sys.argv[1]), json.loads(sys.argv[2]), 0, False, "float32", int(sys.argv[3]))
        print(gib)
        return
    print(f"{'tokens':>7} {'rows':>8} {'rows x longest':>15} {'one micro-batch':>16} {'default':>9}")
    with tempfile.TemporaryDirectory() as scratch:
        at = folder(Path(scratch), vocabulary=8192, layers=4, hidden=256)
        for tokens in TOKENS:
            for name, lengths in shapes(tokens).items():
                found = []
                for micro_batch in (2 * tokens, 3072):
                    if count:
                        found.append(counted(at, lengths, micro_batch))
                        continue
                    command = [sys.executable, __file__, str(at), json.dumps(lengths), str(micro_batch)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    found.append(float(done.stdout))
                area = len(lengths) * max(lengths)
                print(f"{tokens:7} {name:>8} {area:15,} {found[0]:12.2f} GiB {found[1]:5.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
