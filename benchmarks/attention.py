"""What bit-equal attention costs: the same sampler and learner with torch's fused attention in its place.

    python benchmarks/attention.py

Both sample and train the shipped policy on the same prompts with the same lengths, by turns; prints the ratio
by hand / fused of neighbouring rounds (1.05 is 5 % slower) and the largest difference of sampled and scored
log-probabilities. The fused sampler keeps a cache of prompt and completion per row, without padded queries or
blocks; everything around attention is the same code.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as fused

from gnomon.engines import embedded
from gnomon.engines.base import Tier, sample_all
from gnomon.envs import ENVS
from gnomon.keys import Key
from gnomon.learners import Batch, Row
from gnomon.learners.local import LocalLearner
from gnomon.models import policy as policies
from gnomon.models.attention import Decode, Packed, causal, gather, spread
from gnomon.models.policy import Policy
from gnomon.objectives import Denominators, objective
from gnomon.types import Request, Sampling


class FusedPacked(Packed):
    """Every row attends to its prompt's keys and its own in one fused call."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        cut = self.prefix.tokens
        pq, pk, pv = (self.prefix.padded(x[:cut]).transpose(1, 2) for x in (query, key, value))
        prompt = fused(pq, pk, pv, is_causal=True, scale=scale).transpose(1, 2).flatten(0, 1)
        outs = []
        for rows, flat, place in self.bands:
            shape = (len(rows.group), rows.size)
            q, k, v = (spread(gather(x[cut:], flat), place, shape).transpose(1, 2) for x in (query, key, value))
            own = causal(rows.place, torch.arange(rows.size), None).expand(shape[0], 1, -1, -1)
            far = self.prefix.real[rows.group][:, None, None, :].expand(-1, -1, rows.size, -1)
            keys, values = torch.cat([pk[rows.group], k], 2), torch.cat([pv[rows.group], v], 2)
            out = fused(q, keys, values, attn_mask=torch.cat([far, own], -1), scale=scale)
            outs.append(gather(out.transpose(1, 2).flatten(0, 1), place))
        return torch.cat([gather(prompt, self.prefix.place), gather(torch.cat(outs), self.order)])


class FusedDecode(Decode):
    """A cache per row, its prompt copied in front; one fused call a token."""

    cache: list[tuple[Tensor, Tensor]]
    seen: Tensor

    def advance(self, group: Tensor, keep: Tensor | None = None) -> None:
        self.step += 1
        width = self.prefix.real.shape[1]
        if self.step == 0:
            self.cache = [
                tuple(torch.nn.functional.pad(x[group], (0, 0, 0, 256)) for x in pair)  # type: ignore[misc]
                for pair in self.prompt
            ]
            self.seen = torch.nn.functional.pad(self.prefix.real[group], (0, 256), value=True)
        elif keep is not None:
            self.cache = [(keys[keep], values[keep]) for keys, values in self.cache]
            self.seen = self.seen[keep]
        self.end = width + self.step + 1
        self.mask = self.seen[:, None, None, : self.end]
        self.positions = self.prefix.lengths[group] + self.step

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        if self.step < 0:
            return super().attend(layer, query, key, value, scale, window)
        keys, values = self.cache[layer]
        keys[:, :, self.end - 1], values[:, :, self.end - 1] = key, value
        near = (x[:, :, : self.end] for x in (keys, values))
        return fused(query[:, :, None], *near, attn_mask=self.mask, scale=scale)[:, :, 0]


@contextmanager
def using(decode: type[Decode], packed: type[Packed]) -> Iterator[None]:
    was = policies.Decode, policies.Packed
    policies.Decode, policies.Packed = decode, packed  # type: ignore[misc, attr-defined]
    try:
        yield
    finally:
        policies.Decode, policies.Packed = was  # type: ignore[misc, attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=96, help="longest completion; lengths are drawn from 1 to it")
    options = parser.parse_args()
    torch.set_num_threads(2)
    policy = Policy.load("tiny")
    policy.tokenizer.eos = frozenset()
    engine, learner = embedded.Embedded(policy), LocalLearner(Policy.load("tiny"))
    engine.tier = Tier.MEASURED
    row, rng = objective("reinforce"), random.Random(0)
    tasks = ENVS["countdown"]().tasks("train")
    asked = [policy.tokenizer.encode(tasks[i].messages[0].content + "\n") for i in range(options.prompts)]
    requests = [
        Request(prompt_ids=prompt, key=Key(0).at("bench", task=i, sample=s).bytes, sampling=Sampling(max_tokens=limit))
        for i, prompt in enumerate(asked)
        for s in range(options.group)
        for limit in [rng.randint(1, options.tokens)]
    ]

    def one() -> tuple[float, float, float]:
        began = time.perf_counter()
        done = asyncio.run(sample_all(engine, requests))
        middle = time.perf_counter()
        rows = tuple(
            Row(
                prompt_ids=request.prompt_ids,
                token_ids=found.token_ids,
                behavior_logp=found.logprobs,
                advantage=1.0,
                sequence=place,
                group=place // options.group,
            )
            for place, (request, found) in enumerate(zip(requests, done, strict=True))
        )
        total = sum(len(r.token_ids) for r in rows)
        sizes = Denominators(groups=options.prompts, sequences=len(rows), tokens=total, max_tokens=options.tokens)
        batch = Batch(rows=rows, denominators=sizes, temperature=1.0, exact=False)
        stats = learner.forward_backward(batch, row)
        for parameter in learner.parameters.values():
            parameter.grad = None
        return middle - began, time.perf_counter() - middle, stats["logp_mismatch"].value

    kinds = {"by hand": (Decode, Packed), "fused": (FusedDecode, FusedPacked)}
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in kinds}
    for turn in range(options.rounds + 1):
        for name, (decode, packed) in list(kinds.items())[:: 1 if turn % 2 else -1]:
            with using(decode, packed):
                measured = one()
            if turn:  # The first round warms up.
                found[name].append(measured)
    print(f"{platform.platform()}, {os.cpu_count()} cores, 2 threads, load {os.getloadavg()[0]:.2f}")
    print(f"{len(requests)} rows, {sum(r.sampling.max_tokens for r in requests)} tokens, {options.rounds} rounds")
    for what, pick in (("sampling", lambda t: t[0]), ("training", lambda t: t[1]), ("both", lambda t: t[0] + t[1])):
        mine, other = ([pick(t) for t in found[name]] for name in kinds)
        ratios = sorted(a / b for a, b in zip(mine, other, strict=True))
        print(
            f"{what:<9} by hand {statistics.median(mine):.3f} s  fused {statistics.median(other):.3f} s  "
            f"ratio {ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f} (min / median / max)"
        )
    for name, rounds in found.items():
        print(f"{name:<9} largest |sampler - learner| log-probability {max(t[2] for t in rounds):.3g}")


if __name__ == "__main__":
    main()
