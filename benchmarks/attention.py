"""What bit-equal attention costs: the same sampler and learner with torch's fused attention in its place.

    python benchmarks/attention.py

Both sample and train the shipped policy on the same prompts with the same lengths, by turns; prints the ratio
by hand / fused of neighbouring rounds (1.05 is 5 % slower) and the largest difference of sampled and scored
log-probabilities. The fused sampler makes one call per token over the keys of every row, without padded queries or
spans; the fused learner pads every text to the longest. Everything around attention is the same code. Prompts are
shorter than a span, so every row keeps its whole prompt.
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

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as fused

from gnomon.engines import embedded
from gnomon.engines.base import Tier, sample_all
from gnomon.envs import ENVS
from gnomon.keys import Key
from gnomon.learners import Batch, TokenSequence
from gnomon.learners.credit import Crediting
from gnomon.learners.local import LocalLearner
from gnomon.models import policy as policies
from gnomon.models.attention import SPAN, Form
from gnomon.models.decode import Decode, Slots
from gnomon.models.packed import Packed
from gnomon.models.policy import Policy
from gnomon.models.trie import Trie
from gnomon.objectives import Denominators, Rollouts, objective
from gnomon.types import Completion, Request, Sampling


class FusedPacked(Packed):
    """The new tokens of every text attend to its whole path in one fused call; prompts and replies apart."""

    def __init__(self, trie: Trie, device: torch.device | str = "cpu") -> None:
        super().__init__(trie, device)
        self.parts = [Padded([b for b in trie.branches if bool(b[1]) is later]) for later in (False, True)]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, form: Form) -> Tensor:
        out = torch.empty_like(query)
        for part in self.parts:
            if part.count:
                q, k, v = query[part.asked], key[part.held], value[part.held]
                q, k, v = (x.transpose(1, 2) for x in (q, k, v))
                found = fused(q, k, v, attn_mask=part.mask, scale=form.scale, enable_gqa=True)
                out = out.index_put((part.asked[part.real],), found.transpose(1, 2)[part.real])
        return out


class Padded:
    """Texts, each with the place of its new tokens and of all its tokens in the trie, padded to the longest."""

    def __init__(self, branches: list[tuple[np.ndarray, int]]) -> None:
        self.count = len(branches)
        if not branches:
            return
        asked, held = max(len(path) - old for path, old in branches), max(len(path) for path, _ in branches)
        shape = (self.count, asked)
        self.asked, self.held = torch.zeros(shape, dtype=torch.int64), torch.zeros(self.count, held, dtype=torch.int64)
        self.real, place = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.int64)
        for row, (path, old) in enumerate(branches):
            new = len(path) - old
            self.asked[row, :new], self.held[row, : len(path)] = torch.from_numpy(path[old:]), torch.from_numpy(path)
            self.real[row, :new], place[row, :new] = True, torch.arange(old, len(path))
        self.mask = (torch.arange(held) <= place[:, :, None])[:, None]


class FusedDecode(Decode):
    """One fused call a token."""

    def _rows(self, query: Tensor, prompts: Slots, own: Slots, form: Form) -> Tensor:
        if self.far_size:
            raise SystemExit(f"a prompt has {SPAN} tokens or more; this benchmark compares shorter ones")
        keys, values = own.first(len(query), self.near_size)
        return fused(query[:, :, None], keys, values, attn_mask=self.near, scale=form.scale, enable_gqa=True)[:, :, 0]


@contextmanager
def using(decode: type[Decode], packed: type[Packed]) -> Iterator[None]:
    was = policies.Decode, policies.Packed
    policies.Decode, policies.Packed = decode, packed  # type: ignore[misc, attr-defined]
    try:
        yield
    finally:
        policies.Decode, policies.Packed = was  # type: ignore[misc, attr-defined]


def sequence(request: Request, found: Completion, place: int, group: int) -> TokenSequence:
    """A rollout of one turn."""
    prompt, reply = list(request.prompt_ids), list(found.token_ids)
    zeros = torch.zeros(len(reply), dtype=torch.int64)
    return TokenSequence(
        token_ids=torch.tensor([*prompt, *reply]),
        trainable=torch.tensor([False] * len(prompt) + [True] * len(reply)),
        behavior_logp=torch.tensor(found.logprobs, dtype=torch.float64),
        version=zeros,
        turn=zeros,
        rollout=place,
        group=place // group,
        player=0,
    )


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
        sequences = tuple(
            sequence(request, found, place, options.group)
            for place, (request, found) in enumerate(zip(requests, done, strict=True))
        )
        lengths = torch.tensor([len(s) for s in sequences]).view(options.prompts, options.group)
        rollouts = Rollouts(rewards=torch.ones(lengths.shape, dtype=torch.float64), lengths=lengths)
        sizes = Denominators(
            groups=options.prompts, sequences=len(sequences), tokens=int(lengths.sum()), max_tokens=options.tokens
        )
        batch = Batch(sequences=sequences, rollouts=rollouts, denominators=sizes, temperature=1.0, exact=False)
        batch = Crediting(row)(batch, learner, updates=1)
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
