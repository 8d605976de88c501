"""Everything that needs a GPU, in order: python benchmarks/gpu.py (or: make gpu)

Where there is no CUDA device it prints what it would do. Every command runs even if one before it fails; the end lists
the failures, and the exit code is 1 if there are any.

GNOMON_VLLM_PYTHON names the interpreter of an environment with vLLM (docs/engines.md). Steps with vLLM and steps of
several devices are left out where there is none, and the list says so. Recipes run whose model is in the hub's cache.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import torch

from gnomon.engines import Tier
from gnomon.models.flex import Flex
from gnomon.models.hub import HubName, cached
from gnomon.models.packed import Packed
from gnomon.models.trie import Trie

DEVICE = "h200" if torch.cuda.is_available() and "H200" in torch.cuda.get_device_name() else "h100"
"""Of the table of `gnomon plan`; change it if another one is there."""
SMALL = "prompts=8 group=4 steps=3 eval.tasks=16 policy.device=cuda"
VLLM = "GNOMON_VLLM_PYTHON"
QWEN = "Qwen/Qwen3-0.6B"
"""The model whose sampling is timed, if it is in the hub's cache; else a random model of its shape."""


def commands(runs: Path) -> Iterator[tuple[str, str]]:
    """What is checked, and its command."""
    yield (
        "tests of devices, of the attention for GPUs and of engines that compute otherwise",
        (
            "python -m pytest -q tests/models/test_flex.py tests/engines/test_embedded.py tests/engines/test_replay.py "
            "tests/learners/test_device.py tests/training/test_engine_apart.py tests/launch/test_attention.py "
            "tests/plans"
        ),
    )
    yield "gradients of flex_attention alone", "python -m pytest -q tests/models/test_flex.py -k gpu"
    yield "gradients of whole models against float64", "python benchmarks/model_gradients.py --device cuda"
    yield "figures that replace the assumptions of gnomon plan", "python benchmarks/gpu.py --measure"
    yield "plans beside runs", f"python benchmarks/plan.py --device {DEVICE}"
    yield "speed of sampling and training, embedded", "python benchmarks/gpu.py --speed"
    yield "sampler against learner, by dtype", "python -m gnomon mismatch tiny env=char_count policy.device=cuda"
    for dtype in ("float32", "bfloat16", "float16"):
        run = runs / dtype
        yield f"a run in {dtype}", f"python -m gnomon train char_count {SMALL} policy.dtype={dtype} run={run}"
        yield "its records, hashed again", f"python -m gnomon verify {run}"
    run = runs / "lora"
    yield "a run of an adapter", f"python -m gnomon train char_count {SMALL} policy.lora.rank=8 run={run}"
    for attention in ("exact", "flex"):
        run = runs / attention
        train = f"python -m gnomon train char_count {SMALL} policy.dtype=bfloat16 policy.attention={attention}"
        yield f"a run with the attention {attention}", f"{train} run={run}"
    yield from with_vllm(runs)
    yield from with_ranks(runs)
    for recipe, model, needed in (
        ("gsm8k-qwen3-0.6b", "Qwen/Qwen3-0.6B", 1),
        ("math-qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B", 1),
        ("countdown-qwen2.5-3b", "Qwen/Qwen2.5-3B", 8),
    ):
        if torch.cuda.device_count() >= needed and cached(HubName(repo=model)):
            run = runs / recipe
            yield f"three steps of {recipe}.toml", f"python -m gnomon train {recipe}.toml steps=3 run={run}"
            yield "its plan beside what came true", f"python -m gnomon plan {run} --device {DEVICE}"


def with_vllm(runs: Path) -> Iterator[tuple[str, str]]:
    """What needs the environment of vLLM."""
    python = os.environ.get(VLLM, "")
    if not python and torch.cuda.is_available():
        print(f"# left out: steps with vLLM, since {VLLM} is not set\n")
        return
    # Whatever else is on the device, vLLM gets memory for keys and values and no more.
    engine = f"engine.type=vllm engine.python={python or f'${VLLM}'} engine.cache_gib=4"
    yield "tests of the engine vLLM", "python -m pytest -q tests/engines/test_vllm.py"
    mismatch = "python -m gnomon mismatch tiny env=char_count policy.device=cuda"
    yield "sampler against learner with vLLM", f"{mismatch} {engine}"
    for dtype in ("bfloat16", "float16"):
        run = runs / f"vllm-{dtype}"
        train = f"python -m gnomon train char_count {SMALL} policy.dtype={dtype} {engine}"
        yield f"a run with vLLM in {dtype}", f"{train} run={run}"
        yield "the same, with an engine that sleeps", f"{train} engine.sleep=true run={run}-asleep"
    yield "speed of sampling, embedded beside vLLM", f"python benchmarks/gpu.py --speed {python or f'${VLLM}'}"


def with_ranks(runs: Path) -> Iterator[tuple[str, str]]:
    """What needs several devices: learner processes that sum gradients by NCCL."""
    there = torch.cuda.device_count()
    if there == 1:
        print("# left out: learner processes by NCCL, since there is one device\n")
        return
    ranks = there or 2
    train = f"python -m gnomon train char_count {SMALL} policy.dtype=bfloat16 ranks={ranks}"
    yield f"a run of {ranks} learner processes by NCCL", f"{train} run={runs / 'ranks'}"
    yield "the same with one process", f"{train.replace(f'ranks={ranks}', 'ranks=1')} run={runs / 'one-rank'}"


def speed(python: str) -> None:
    """Print how fast a model samples and trains in bfloat16. Args: python: of an environment with vLLM, or empty."""
    from plan import folder

    with tempfile.TemporaryDirectory() as scratch:
        path = QWEN if cached(HubName(repo=QWEN)) else folder("qwen3-0.6b", Path(scratch))
        sampling(path, python)
        for lengths, attentions, sizes in (
            ([512] * 64, ("flex", "exact"), (3072, 16384)),
            ([8192] * 4, ("flex",), (16384,)),  # The exact attention takes many times as long: `measure`.
        ):
            for attention, rank, micro_batch in product(attentions, (0, 32), sizes):
                seconds, peak = training(path, lengths, attention, rank, micro_batch)
                torch.cuda.empty_cache()
                what = f"{len(lengths)} rows of {lengths[0]}, {'LoRA 32' if rank else 'all weights'}, {attention}"
                print(
                    f"{what:40} micro-batches of {micro_batch:6}: {sum(lengths) / seconds:9,.0f} tokens/s,"
                    f" {peak / 2**30:5.2f} GiB above weights",
                    flush=True,
                )


def sampling(path: str, python: str) -> None:
    """512 replies of 256 tokens to 64 prompts of 150 tokens, by each engine."""
    from gnomon.api import configure
    from gnomon.engines import sample_all
    from gnomon.keys import Key
    from gnomon.launch.loops import finished
    from gnomon.launch.makers import make_engine, make_learner, make_objective
    from gnomon.types import Request, Sampling

    policy = {"path": path, "dtype": "bfloat16", "device": "cuda"}
    asked = Sampling(max_tokens=256, temperature=1.0)
    for engine in ({"type": "embedded"}, {"type": "vllm", "python": python, "cache_gib": 16}):
        if engine["type"] == "vllm" and not python:
            continue
        config, _ = configure("countdown", {"policy": policy, "engine": engine, "rollout": {"context": 512}})
        learner = make_learner(config, make_objective(config))
        made = make_engine(config, learner)
        if engine["type"] == "embedded":
            gap = made.measure([(5, 6, 7)])
            made.tier = Tier.EXACT if gap == 0 else Tier.MEASURED
            print(f"largest difference between sampler and learner: {gap:.2g}")
        made.load(learner.publish())
        for turn in ("warm", "timed"):
            requests = [
                Request(
                    prompt_ids=tuple(3 + (number // 8 * 7 + place) % 900 for place in range(150)),
                    key=Key(0).at(turn, number=number).bytes,
                    sampling=asked,
                )
                for number in range(512)
            ]
            began = time.perf_counter()
            found = finished(sample_all(made, requests))
            seconds, tokens = time.perf_counter() - began, sum(len(each.token_ids) for each in found)
        made.close()
        print(f"{engine['type']:<9} {tokens / seconds:,.0f} tokens/s: {tokens:,} in {seconds:.1f} s", flush=True)


def training(path: str, lengths: list[int], attention: str, rank: int, micro_batch: int) -> tuple[float, int]:
    """Seconds of a gradient, the third of its process, and bytes above those of the weights and their gradients."""
    from head import random_batch

    from gnomon.api import configure
    from gnomon.launch.makers import make_learner
    from gnomon.objectives import objective

    policy = {"path": path, "dtype": "bfloat16", "device": "cuda", "attention": attention, "lora": {"rank": rank}}
    config, _ = configure("countdown", {"policy": policy, "optim": {"micro_batch": micro_batch}})
    row = objective("reinforce")
    learner = make_learner(config, row)
    batch, found = random_batch(lengths, learner.policy.vocabulary), []
    for _ in range(3):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before, began = torch.cuda.memory_allocated(), time.perf_counter()
        learner.forward_backward(batch, row)
        torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return found[-1], torch.cuda.max_memory_allocated() - before


def measure() -> None:
    """Print what this GPU reaches, beside what a plan assumes."""
    from gnomon.engines.noise import Noise, sampled
    from gnomon.plans.devices import CONTEXT, GPUS, PER_OPERATION, REACHED_BANDWIDTH, REACHED_FLOPS
    from gnomon.plans.passes import drawing

    size, count = 8192, 2**28
    free, total = torch.cuda.mem_get_info()
    one, other = torch.ones(count, device="cuda"), torch.ones(count, device="cuda")
    empty = torch.ones(1, device="cuda")
    print(f"device               {torch.cuda.get_device_name()}, {total / 2**30:.1f} GiB")
    print(f"in use before        {(total - free) / 2**30:.2f} GiB (a plan assumes {CONTEXT / 2**30:.2f})")
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        left = torch.ones(size, size, device="cuda", dtype=dtype)
        rate = 2 * size**3 / timed(lambda left=left: left @ left)
        print(f"products {dtype!s:16} {rate / 1e12:.1f} TFLOPs (a plan assumes {REACHED_FLOPS:.0%} of the data sheet)")
    rate = 12 * count / timed(lambda: one + other)
    print(f"memory traffic       {rate / 1e9:.0f} GB/s (a plan assumes {REACHED_BANDWIDTH:.0%} of the data sheet)")
    many = timed(lambda: [empty + empty for _ in range(1000)]) / 1000
    logp, streams = torch.zeros(64, 151_936, device="cuda"), [Noise(bytes([row]) * 16, 151_936) for row in range(64)]
    noise = timed(lambda: sampled(logp, streams))
    planned = drawing(*logp.shape, GPUS[DEVICE]).seconds
    print(f"noise of 64 tokens   {noise * 1e3:.1f} ms (a plan counts {planned * 1e3:.1f} for {DEVICE})")
    print(f"a small operation    {many * 1e6:.1f} µs (a plan assumes {PER_OPERATION * 1e6:.1f})")
    for kind in (Packed, Flex):
        seconds, peak = attention(kind)
        print(f"{kind.__name__:<6} of one row     {seconds * 1e3:.1f} ms, {peak / 2**30:.2f} GiB, forward and backward")


def attention(kind: type[Packed | Flex], tokens: int = 8192) -> tuple[float, float]:
    """Seconds and bytes of the attention of one row in bfloat16, with the heads of Qwen3-0.6B, and of its gradient."""
    layout = kind(Trie([torch.arange(tokens)]), "cuda")
    query, key, value = (
        torch.randn(tokens, heads, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True) for heads in (16, 8, 8)
    )

    def work() -> None:
        layout.attend(0, query, key, value, 128**-0.5, None, None).sum().backward()

    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    return timed(work), torch.cuda.max_memory_allocated() - before


def timed(work: Callable[[], object]) -> float:
    """Seconds of the fastest of five repetitions, after one that is not counted."""
    found = []
    for _ in range(6):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return min(found[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="only print what this GPU reaches")
    parser.add_argument(
        "--speed",
        metavar="PYTHON",
        nargs="?",
        const="",
        help="only time sampling and training; with an interpreter, sampling by its vLLM too",
    )
    chosen = parser.parse_args()
    if chosen.measure or chosen.speed is not None:
        measure() if chosen.measure else speed(chosen.speed)
        return
    there = torch.cuda.is_available()
    if not there:
        print("There is no CUDA device. With one, these commands would run:\n")
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        for what, command in commands(Path(scratch)):
            print(f"# {what}\n{command}", flush=True)
            words = [sys.executable if word == "python" else word for word in shlex.split(command)]
            if there and subprocess.run(words).returncode:
                failed.append(command)
    if failed:
        print("\nfailed:\n" + "\n".join(failed))
        sys.exit(1)


if __name__ == "__main__":
    main()
