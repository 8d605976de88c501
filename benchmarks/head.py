"""Time and memory of a gradient with a vocabulary of a real model: python benchmarks/head.py

A random model of Qwen3's shape, so no download. Every figure is of a process of its own: seconds of processor time of
one `forward_backward` after a first one that is not counted, and how far the resident memory rose above that of the
loaded learner.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.learners import Batch

ARMS = {"full": {}, "full, activations recomputed": {"again": True}, "LoRA rank 1": {"rank": 1}}


def folder(at: Path, vocabulary: int, layers: int, hidden: int) -> Path:
    """A random model; its tokenizer is the shipped policy's."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen3Config

    from gnomon.models.folder import TINY

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=layers,
        num_attention_heads=hidden // 64, num_key_value_heads=max(1, hidden // 128), head_dim=64,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(at)
    (at / "tokenizer.json").write_bytes((TINY / "tokenizer.json").read_bytes())
    return at


def measured(
    at: Path, lengths: Sequence[int], rank: int, again: bool, dtype: str, micro_batch: int = 3072
) -> tuple[float, float]:
    """Seconds of one gradient, and GiB above the loaded learner.

    Args: lengths: of the rows; a quarter of each is its prompt.
    """
    import torch

    from gnomon.config import Source, resolve
    from gnomon.objectives import objective
    from gnomon.run.makers import make_learner

    torch.set_num_threads(1)
    policy = {"path": str(at), "dtype": dtype}
    policy |= {"lora": {"rank": rank}} if rank else {}
    policy |= {"activation_checkpointing": True} if again else {}
    optim = {"micro_batch": micro_batch}
    config, _ = resolve([Source({"env": "char_count", "policy": policy, "optim": optim}, {})])
    row = objective("reinforce")
    learner = make_learner(config, row)
    batch = random_batch(lengths, learner.policy.vocabulary)
    before, began = peak(), 0.0
    for _ in range(2):
        began = time.process_time()
        learner.forward_backward(batch, row)
    return time.process_time() - began, (peak() - before) / 2**30


def random_batch(lengths: Sequence[int], vocabulary: int, prompt: float = 0.25) -> Batch:
    """Random rows of one group, with an advantage for every token.

    Args: prompt: share of each row that is its prompt, of at least one token.
    """
    import torch

    from gnomon.learners import Batch, TokenSequence
    from gnomon.objectives import Denominators, Rollouts

    generator = torch.Generator().manual_seed(1)
    replies, rows = [length - max(1, int(length * prompt)) for length in lengths], len(lengths)
    sequences = tuple(
        TokenSequence(
            token_ids=torch.randint(2, vocabulary, (length,), generator=generator),
            trainable=torch.arange(length) >= length - reply,
            behavior_logp=torch.full((reply,), -10.0, dtype=torch.float64),
            version=torch.zeros(reply, dtype=torch.int64),
            turn=torch.zeros(reply, dtype=torch.int64),
            rollout=place,
            group=0,
            player=0,
        )
        for place, (length, reply) in enumerate(zip(lengths, replies, strict=True))
    )
    tokens = sum(replies)
    return Batch(
        sequences=sequences,
        rollouts=Rollouts(
            rewards=torch.arange(rows, dtype=torch.float64)[None],
            lengths=torch.tensor([replies]),
            answers=torch.arange(rows)[None],
            segment=torch.zeros(tokens, dtype=torch.int64),
        ),
        denominators=Denominators(
            groups=1, sequences=rows, tokens=tokens, max_tokens=max(lengths), group_tokens=(tokens,)
        ),
        temperature=1.0,
        exact=False,
        advantage=torch.linspace(-1, 1, tokens, dtype=torch.float64),
    )


def peak() -> int:
    """Largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("vocabulary", 151_936), ("layers", 4), ("hidden", 512), ("rows", 4), ("length", 512)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--arms", nargs="*", default=list(ARMS))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        place, rank, again = given.one
        print(*measured(Path(place), [given.length] * given.rows, int(rank), again == "True", given.dtype))
        return
    with tempfile.TemporaryDirectory() as scratch:
        at = folder(Path(scratch), given.vocabulary, given.layers, given.hidden)
        for arm in given.arms:
            options = {"rank": 0, "again": False, **ARMS[arm]}
            command = [sys.executable, __file__, "--one", str(at), str(options["rank"]), str(options["again"])]
            command += ["--rows", str(given.rows), "--length", str(given.length), "--dtype", given.dtype]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, gib = map(float, done.stdout.split())
            print(f"{arm:32} {seconds:7.1f} s  {gib:6.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
