"""Everything that needs a GPU, in order: python benchmarks/gpu.py (or: make gpu)

Where there is no CUDA device it prints what it would do. Every command runs even if one before it fails; the end lists
the failures, and the exit code is 1 if there are any. It has never been run on a GPU.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from gnomon.models.flex import Flex
from gnomon.models.packed import Packed
from gnomon.models.trie import Trie

DEVICE = "h100"
"""Of the table of `gnomon plan`; change it to the one that is there."""
SMALL = "prompts=8 group=4 steps=3 eval.tasks=16 policy.device=cuda"


def commands(runs: Path) -> Iterator[tuple[str, str]]:
    """What is checked, and its command."""
    yield (
        "tests of devices, of the attention for GPUs and of engines that compute otherwise",
        (
            "python -m pytest -q tests/models/test_flex.py tests/engines/test_embedded.py "
            "tests/learners/test_device.py tests/training/test_engine_apart.py tests/plans"
        ),
    )
    yield "figures that replace the assumptions of gnomon plan", "python benchmarks/gpu.py --measure"
    yield "sampler against learner, by dtype", "python -m gnomon mismatch tiny env=char_count policy.device=cuda"
    for dtype in ("float32", "bfloat16"):
        run = runs / dtype
        yield f"a run in {dtype}", f"python -m gnomon train char_count {SMALL} policy.dtype={dtype} run={run}"
        yield "its records, hashed again", f"python -m gnomon verify {run}"
    run = runs / "lora"
    yield "a run of an adapter", f"python -m gnomon train char_count {SMALL} policy.lora.rank=8 run={run}"
    for recipe, model in (
        ("gsm8k-qwen3-0.6b", "Qwen3-0.6B"),
        ("math-qwen2.5-1.5b", "Qwen2.5-1.5B"),
        ("countdown-qwen2.5-3b", "Qwen2.5-3B"),
    ):
        if Path("models", model).is_dir():
            run = runs / recipe
            yield f"three steps of {recipe}.toml", f"python -m gnomon train {recipe}.toml steps=3 run={run}"
            yield "its plan beside what came true", f"python -m gnomon plan {run} --device {DEVICE}"


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
    if parser.parse_args().measure:
        measure()
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
