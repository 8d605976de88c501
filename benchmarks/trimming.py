"""Speed of decoding with a whole and with a trimmed vocabulary: python benchmarks/trimming.py WHOLE TRIMMED

Both sample the same numbers of tokens for the same prompts of an environment, as a run does, in float32 on one thread.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from itertools import islice
from time import process_time

import torch

from gnomon.engines.embedded import Embedded
from gnomon.envs import CharCount
from gnomon.models.policy import Policy
from gnomon.rendering import choose, joined
from gnomon.training.loop import first
from gnomon.types import Request, Sampling


def seconds(folder: str, rows: int, tokens: int) -> tuple[int, float]:
    """Tokens that were sampled, and processor time."""
    engine = Embedded(Policy.load(folder))
    renderer = choose(engine.policy.tokenizer)
    prompts = [joined(renderer.start(task.messages)) for _, task in first(CharCount(shots=4).tasks("train"), 8)]
    sampling = Sampling(max_tokens=tokens, stop=(), stop_ids=())
    asked = [
        Request(prompt_ids=prompts[place % len(prompts)], key=bytes([place]) * 16, sampling=sampling)
        for place in range(rows)
    ]
    asyncio.run(sampled(engine, list(islice(asked, 2))))
    began = process_time()
    found = asyncio.run(sampled(engine, asked))
    return found, process_time() - began


async def sampled(engine: Embedded, asked: Sequence[Request]) -> int:
    return sum(len(found.token_ids) for found in await asyncio.gather(*map(engine.sample, asked)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=12)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for folder in chosen.folders:
        tokens, spent = seconds(folder, chosen.rows, chosen.tokens)
        print(f"{folder}: {tokens} tokens, {spent:.1f} s of processor time, {tokens / spent:.0f} tokens/s")


if __name__ == "__main__":
    main()
