"""A whole RL step, side by side with TRL's GRPOTrainer: same model folder, prompts, lengths, threads and allocator.

    pip install -c constraints.txt -e ".[bench]" && python benchmarks/against_trl.py

Three shapes, runs alternating, one process each; prints seconds per step and the ratio TRL / Gnomon of
neighbouring runs, with minimum, median and maximum. TRL's gradient checkpointing is off. A Gnomon step here is
what `gnomon train` does: it samples, judges, trains, synchronises and records.

    equal    every completion has exactly the limit, every row trains: nothing can be skipped
    ragged   completions end by themselves, on average at about a quarter of the limit
    prefix   a 200-token prompt, groups of 16, short answers

The last line is what no system can go below at the equal shape: the matrix products of the linear layers alone,
timed by themselves with the same numbers of rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TASK = "countdown"


@dataclass(frozen=True)
class Shape:
    prompts: int
    group: int
    limit: int
    fixed: bool
    prompt_tokens: int
    """Prompts are padded in front to this many tokens; 0 leaves them as they are."""


SHAPES = {
    "equal": Shape(32, 8, 64, True, 0),
    "ragged": Shape(32, 8, 96, False, 0),
    "prefix": Shape(16, 16, 24, False, 200),
}


def questions(shape: Shape, count: int) -> list[tuple[str, Any]]:
    """Prompts as text, each with its task, in the order both systems see them."""
    from gnomon.envs import ENVS

    tasks = ENVS[TASK]().tasks("train")
    filler = "Numbers are put together with signs so that a sum comes out as asked. "
    result = []
    for index in range(count):
        text = tasks[index].messages[0].content + "\n"
        missing = max(0, shape.prompt_tokens - len(text))
        result.append(((filler * 9)[:missing] + text, tasks[index]))
    return result


def reward(shape: Shape, task: Any, reply: str) -> float:
    """The verdict's reward; in the fixed shape a number that differs for every reply, so that no row is idle."""
    from gnomon.envs import ENVS

    if shape.fixed:
        return (sum(map(ord, reply)) % 997) / 997
    return ENVS[TASK]().verify(task, reply).reward


def ours(shape: Shape, steps: int) -> dict[str, Any]:
    import asyncio

    import torch

    from gnomon.config import RunConfig, to_toml
    from gnomon.engines.base import Tier, sample_all
    from gnomon.engines.embedded import Embedded
    from gnomon.keys import Key
    from gnomon.learners.local import LocalLearner
    from gnomon.models.folder import model_folder
    from gnomon.models.policy import Policy
    from gnomon.objectives import objective
    from gnomon.rollout import pack
    from gnomon.rollout.credit import Crediting
    from gnomon.store import Run
    from gnomon.training.record import Recorder
    from gnomon.types import Completion, Group, Part, Request, Rollout, Sampling, Status, Stop, Turn, Verdict

    torch.set_num_threads(2)
    learner = LocalLearner(Policy.load(model_folder("tiny")))
    engine = Embedded(Policy.load(model_folder("tiny")))
    exact = engine.measure([engine.policy.tokenizer.encode("Use 1, 2, 3\n")]) == 0.0
    engine.tier = Tier.EXACT if exact else Tier.MEASURED
    if shape.fixed:
        engine.policy.tokenizer.eos = frozenset()
    row, sampling = objective("dr_grpo"), Sampling(max_tokens=shape.limit)
    asked = questions(shape, shape.prompts * steps)
    config = RunConfig()
    store = Run.create(Path(tempfile.mkdtemp()) / "run", recipe=to_toml(config), manifest={}, genesis={})

    recorder = Recorder(store, config)

    def judged(task: Any, sample: int, prompt: tuple[int, ...], completion: Completion) -> Rollout:
        value = reward(shape, task, completion.text)
        verdict = Verdict(
            status=Status.CORRECT if value >= 1 else Status.WRONG, parts=(Part(name="reward", value=value),)
        )
        return Rollout(
            task=task,
            sample=sample,
            turns=(Turn(prompt_ids=prompt, completion=completion),),
            verdict=verdict,
            stop=Stop.DONE,
        )

    def one(step: int) -> tuple[int, float]:
        with recorder.step(step) as log:
            engine.load(learner.publish())
            chosen = asked[step * shape.prompts : (step + 1) * shape.prompts]
            prompts = [engine.policy.tokenizer.encode(text) for text, _ in chosen]
            keys = [
                Key(0).at("bench", step=step, task=i, sample=s).bytes
                for i in range(len(chosen))
                for s in range(shape.group)
            ]
            requests = [
                Request(prompt_ids=prompts[n // shape.group], key=key, sampling=sampling) for n, key in enumerate(keys)
            ]
            done = asyncio.run(sample_all(engine, requests))
            groups = []
            for i, (_, task) in enumerate(chosen):
                mine = done[i * shape.group : (i + 1) * shape.group]
                rollouts = tuple(judged(task, s, prompts[i], c) for s, c in enumerate(mine))
                groups.append(Group(task=task, index=step * shape.prompts + i, rollouts=rollouts))
            batch = Crediting(row)(pack(groups, sampling=sampling, exact=exact), learner)
            log.rollouts(groups)
            log.credit(batch)
            stats = learner.forward_backward(batch, row)
            log.stats(stats)
            log.stats(learner.optim_step(1e-6))
        tokens = sum(len(c.token_ids) for c in done)
        return tokens, stats["trained"].value / tokens

    seconds, tokens, trained = [], [], []
    for step in range(steps):
        began = time.perf_counter()
        count, share = one(step)
        seconds.append(time.perf_counter() - began)
        tokens.append(count / (shape.prompts * shape.group))
        trained.append(share)
    return {"seconds": seconds[1:], "length": statistics.mean(tokens), "trained": statistics.mean(trained)}


def theirs(shape: Shape, steps: int) -> dict[str, Any]:
    import logging

    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from gnomon.models.folder import model_folder

    logging.disable(logging.WARNING)
    torch.set_num_threads(2)
    asked = questions(shape, shape.prompts * steps)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(model_folder("tiny") / "tokenizer.json"),
        eos_token="<eos>",
        pad_token="<pad>",
        padding_side="left",
    )
    model = AutoModelForCausalLM.from_pretrained(model_folder("tiny"), dtype=torch.float32)
    tasks = [task for _, task in asked]
    lengths: list[int] = []

    def score(completions: list[str], completion_ids: list[list[int]], index: list[int], **_: Any) -> list[float]:
        lengths.extend(map(len, completion_ids))
        return [reward(shape, tasks[i], reply) for i, reply in zip(index, completions, strict=True)]

    class Clock(TrainerCallback):
        def __init__(self) -> None:
            self.seconds: list[float] = []

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.seconds.append(time.perf_counter() - self.began)

    clock = Clock()
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=True,
        bf16=False,
        max_steps=steps,
        num_generations=shape.group,
        per_device_train_batch_size=shape.prompts * shape.group,
        gradient_accumulation_steps=1,
        max_completion_length=shape.limit,
        temperature=1.0,
        top_k=0,
        beta=0.0,
        loss_type="dr_grpo",
        scale_rewards="none",
        learning_rate=1e-6,
        gradient_checkpointing=False,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        shuffle_dataset=False,
        generation_kwargs={"min_new_tokens": shape.limit} if shape.fixed else {},
    )
    data = Dataset.from_dict({"prompt": [text for text, _ in asked], "index": list(range(len(asked)))})
    trainer = GRPOTrainer(
        model=model, reward_funcs=score, args=config, train_dataset=data, processing_class=tokenizer, callbacks=[clock]
    )
    trainer.train()
    return {"seconds": clock.seconds[1:], "length": statistics.mean(lengths), "trained": 1.0}


def products(shape: Shape) -> tuple[float, float]:
    """Seconds of the linear layers' products alone: sampling every token, and training on every token."""
    import torch

    from gnomon.learners.local import TOKENS
    from gnomon.models.folder import model_folder
    from gnomon.models.policy import Policy

    torch.set_num_threads(2)
    weights = [w.detach() for w in Policy.load(model_folder("tiny")).state().values() if w.dim() == 2][1:]
    rows = shape.prompts * shape.group

    def seconds(count: int, backward: bool) -> float:
        inputs = [torch.randn(count, w.shape[1]) for w in weights]
        grads = [torch.randn(count, w.shape[0]) for w in weights]

        def once() -> None:
            for w, x, g in zip(weights, inputs, grads, strict=True):
                x @ w.T
                if backward:
                    g @ w, g.T @ x

        once()
        began = time.perf_counter()
        for _ in range(20):
            once()
        return (time.perf_counter() - began) / 20

    return shape.limit * seconds(rows, False), rows * shape.limit / TOKENS * seconds(TOKENS, True)


def measure(system: str, shape: str, steps: int) -> dict[str, Any]:
    words = [sys.executable, __file__, "--one", system, "--shapes", shape, "--steps", str(steps)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{system} on {shape} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="per run; the first is not counted")
    parser.add_argument("--one", choices=["gnomon", "trl"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        (name,) = options.shapes
        print(json.dumps((ours if options.one == "gnomon" else theirs)(SHAPES[name], options.steps)))
        return 0
    print(f"{platform.platform()}, {os.cpu_count()} cores, 2 threads each, load before: {os.getloadavg()[0]:.2f}")
    for name in options.shapes:
        pairs = [
            (measure("gnomon", name, options.steps), measure("trl", name, options.steps)) for _ in range(options.runs)
        ]
        mine, other = ([statistics.median(p[i]["seconds"]) for p in pairs] for i in (0, 1))
        ratios = sorted(b / a for a, b in zip(mine, other, strict=True))
        sizes = " / ".join(f"{statistics.mean(p[i]['length'] for p in pairs):.1f}" for i in (0, 1))
        spread = f"{ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f}"
        print(
            f"{name:<7} gnomon {statistics.median(mine):.3f} s  trl {statistics.median(other):.3f} s  "
            f"ratio {spread} (min/median/max of {len(ratios)})  "
            f"mean length {sizes}  tokens trained {statistics.mean(p[0]['trained'] for p in pairs):.0%}",
            flush=True,
        )
    sampling, training = products(SHAPES["equal"])
    print(f"linear layers alone at the equal shape: {sampling:.2f} s of sampling, {training:.2f} s of training")
    return 0


if __name__ == "__main__":
    sys.exit(main())
