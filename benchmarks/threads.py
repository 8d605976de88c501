"""A step's sampling and learning with one thread and with several, by turns, and whether all bits are equal.

    python benchmarks/threads.py smollm2 --threads 1 2 --rounds 3
    python benchmarks/threads.py tiny --prompts 32 --tokens 40

Prints the median seconds by the clock and of processor time, and how many times as fast the clock says that each
number of threads is as the first one. A pretrained model has a LoRA adapter, as by default.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable

import torch

from gnomon.config.choices import USUAL
from gnomon.engines.embedded import Embedded
from gnomon.keys import Key
from gnomon.learners.batch import pieces
from gnomon.models.adapter import Adapter
from gnomon.models.folder import SHIPPED
from gnomon.models.policy import Policy
from gnomon.models.scoring import pack_rows
from gnomon.models.threads import Threads
from gnomon.plans.passes import texts
from gnomon.types import Completion, Request, Sampling


def prompts_of(policy: Policy, count: int) -> list[tuple[int, ...]]:
    return [tuple(policy.tokenizer.encode(f"What is {10 + i} + {20 + 3 * i}? Reply.")) for i in range(count)]


def sampled(policy: Policy, requests: list[Request], threads: int) -> list[Completion]:
    engine = Embedded(policy, threads=threads)

    async def all_of_them() -> list[Completion]:
        return await asyncio.gather(*map(engine.sample, requests))

    return asyncio.run(all_of_them())


def learned(
    policy: Policy, prompts: list[tuple[int, ...]], replies: list[tuple[int, ...]], threads: int
) -> list[torch.Tensor]:
    """The gradient of the replies' mean log-probability, added up over micro-batches in order."""
    group, parameters = len(replies) // len(prompts), list(policy.state().values())
    lengths = [[len(reply) for reply in replies[i * group : (i + 1) * group]] for i in range(len(prompts))]
    own = [(i // group, reply) for i, reply in enumerate(replies)]
    cuts = pieces(texts([max(map(len, prompts))] * len(prompts), group, max(map(max, lengths))), USUAL)

    def gradient(places: list[int]) -> tuple[torch.Tensor, ...]:
        scored = policy(pack_rows(policy, prompts, [own[place] for place in places]))
        return torch.autograd.grad(scored.logp.sum() / len(replies), parameters)

    total = [torch.zeros_like(value) for value in parameters]
    for found in Threads(threads).results(gradient, cuts):
        for value, more in zip(total, found, strict=True):
            value += more
    return total


def timed(work: Callable[[int], object], threads: int) -> tuple[object, float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    return work(threads), time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("policy", nargs="?", default="smollm2")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    adapter = None if options.policy in SHIPPED else Adapter(rank=16, key=Key(0), blank=False)
    policy = Policy.load(options.policy, adapter=adapter)
    prompts = prompts_of(policy, options.prompts)
    requests = [
        Request(prompt_ids=prompt, key=bytes([i, j]) * 8, sampling=Sampling(max_tokens=options.tokens))
        for i, prompt in enumerate(prompts)
        for j in range(options.group)
    ]
    replies = [found.token_ids for found in sampled(policy, requests, 1)]
    work: dict[str, Callable[[int], object]] = {
        "sampling": lambda threads: sampled(policy, requests, threads),
        "learning": lambda threads: learned(policy, prompts, replies, threads),
    }
    for name, do in work.items():
        do(1)
        seen: dict[int, list[tuple[object, float, float]]] = {threads: [] for threads in options.threads}
        for _ in range(options.rounds):
            for threads, found in seen.items():
                found.append(timed(do, threads))
        results = [result for found in seen.values() for result, _, _ in found]
        equal = all(same(result, results[0]) for result in results)
        first = statistics.median(clock for _, clock, _ in seen[options.threads[0]])
        for threads, found in seen.items():
            clock, processor = (statistics.median(row[i] for row in found) for i in (1, 2))
            print(
                f"{name:9} threads {threads}: {clock:6.2f} s, processor {processor:6.2f} s, {first / clock:.2f} times"
                f" as fast, bits {'equal' if equal else 'DIFFER'}",
                flush=True,
            )


def same(one: object, other: object) -> bool:
    if isinstance(one, list) and one and isinstance(one[0], torch.Tensor):
        assert isinstance(other, list)
        return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    return one == other


if __name__ == "__main__":
    main()
