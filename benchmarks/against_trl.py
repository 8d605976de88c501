"""A whole RL step, side by side with TRL's GRPOTrainer: same model folder, prompts, lengths, threads and allocator.

    pip install -c constraints.txt -e ".[bench]" && python benchmarks/against_trl.py

Three shapes, runs alternating, one process each; prints seconds per step, by the clock and of processor time, and the
ratio TRL / Gnomon of neighbouring runs, with minimum, median and maximum. TRL's gradient checkpointing is off. A Gnomon
step here is what `gnomon train` does: it samples, judges, trains, synchronises and records.

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
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
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


@dataclass(frozen=True)
class Model:
    """What is trained, and how."""

    folder: str = "tiny"
    rank: int = 0
    """Of a LoRA adapter on every linear layer; 0 trains all weights."""
    alpha: int = 32
    checkpointing: bool = False
    """Whether activations are computed again in the backward pass."""
    threads: int = 2
    batch: int = 0
    """Rows of one backward pass in TRL; 0 takes all at once."""
    device: str = "cpu"
    dtype: str = "float32"


TINY = Model()


class Meter:
    """Time and memory of steps: resident memory, or that of tensors on a CUDA device."""

    def __init__(self, device: str = "cpu") -> None:
        self.seconds: list[float] = []
        self.processor: list[float] = []
        self.loaded = 0
        """Bytes in memory before the first step."""
        self._cuda = device == "cuda"

    def begin(self) -> None:
        import torch

        if not self.seconds and self._cuda:
            self.loaded = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        elif not self.seconds:
            self.loaded = status("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # The peak of loading is over.
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def end(self) -> None:
        import torch

        if self._cuda:
            torch.cuda.synchronize()
        self.seconds.append(time.perf_counter() - self._wall)
        self.processor.append(time.process_time() - self._processor)

    def found(self) -> dict[str, Any]:
        import torch

        if self._cuda:
            peak, whole = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        else:
            peak, whole = status("VmHWM"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        memory = {"loaded": self.loaded, "peak": peak, "whole": whole}
        return {"seconds": self.seconds, "processor": self.processor, **memory}


def status(name: str) -> int:
    """Bytes of a line of this process's status."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


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


def ours(shape: Shape, steps: int, model: Model) -> dict[str, Any]:
    import asyncio

    import torch

    from gnomon.config import overrides, resolve, to_toml
    from gnomon.engines.base import Tier, sample_all
    from gnomon.keys import Key
    from gnomon.learners.credit import Crediting
    from gnomon.objectives import objective
    from gnomon.rollout import pack
    from gnomon.run.makers import make_engine, make_learner
    from gnomon.store import Run
    from gnomon.training.record import Recorder
    from gnomon.types import Completion, Group, Part, Request, Rollout, Sampling, Status, Stop, Turn, Verdict

    torch.set_num_threads(1)
    settings = [
        f"threads={model.threads}",
        f"policy={model.folder}",
        f"policy.lora.rank={model.rank}",
        f"policy.lora.alpha={model.alpha}",
    ]
    settings += [f"policy.activation_checkpointing={str(model.checkpointing).lower()}"]
    settings += [f"policy.device={model.device}", f"policy.dtype={model.dtype}"]
    config, _ = resolve([overrides(settings)])
    row, sampling = objective("dr_grpo"), Sampling(max_tokens=shape.limit)
    learner = make_learner(config, row)
    engine = make_engine(config, learner)
    exact = engine.measure([engine.policy.tokenizer.encode("Use 1, 2, 3\n")], rows=2, tokens=16) == 0.0
    engine.tier = Tier.EXACT if exact else Tier.MEASURED
    if shape.fixed:
        engine.policy.tokenizer.eos = frozenset()
    asked = questions(shape, shape.prompts * steps)
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

    meter, tokens, trained = Meter(model.device), [], []
    for step in range(steps):
        meter.begin()
        count, share = one(step)
        meter.end()
        tokens.append(count / (shape.prompts * shape.group))
        trained.append(share)
    prompt = statistics.mean(len(engine.policy.tokenizer.encode(text)) for text, _ in asked)
    return {
        "length": statistics.mean(tokens),
        "prompt": prompt,
        "trained": statistics.mean(trained),
        **meter.found(),
    }


def theirs(shape: Shape, steps: int, model: Model) -> dict[str, Any]:
    import logging

    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from gnomon.models.folder import model_folder, table

    logging.disable(logging.WARNING)
    torch.set_num_threads(model.threads)
    asked, folder = questions(shape, shape.prompts * steps), model_folder(model.folder)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), padding_side="left")
    ends = table(folder / "config.json")
    tokenizer.eos_token, tokenizer.pad_token = tokenizer.convert_ids_to_tokens(
        [ends["eos_token_id"], ends["pad_token_id"]]
    )
    whole = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, model.dtype))
    adapter = None
    if model.rank:
        from peft import LoraConfig

        adapter = LoraConfig(r=model.rank, lora_alpha=model.alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    tasks = [task for _, task in asked]
    lengths: list[int] = []

    def score(completions: list[str], completion_ids: list[list[int]], index: list[int], **_: Any) -> list[float]:
        lengths.extend(map(len, completion_ids))
        return [reward(shape, tasks[i], reply) for i, reply in zip(index, completions, strict=True)]

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            meter.begin()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            meter.end()

    meter, rows = Meter(model.device), shape.prompts * shape.group
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=model.device == "cpu",
        bf16=model.dtype == "bfloat16",
        max_steps=steps,
        num_generations=shape.group,
        per_device_train_batch_size=model.batch or rows,
        gradient_accumulation_steps=rows // (model.batch or rows),
        max_completion_length=shape.limit,
        temperature=1.0,
        top_k=0,
        beta=0.0,
        loss_type="dr_grpo",
        scale_rewards="none",
        learning_rate=1e-6,
        gradient_checkpointing=model.checkpointing,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        shuffle_dataset=False,
        generation_kwargs={"min_new_tokens": shape.limit} if shape.fixed else {},
    )
    data = Dataset.from_dict({"prompt": [text for text, _ in asked], "index": list(range(len(asked)))})
    trainer = GRPOTrainer(
        model=whole,
        reward_funcs=score,
        args=config,
        train_dataset=data,
        processing_class=tokenizer,
        callbacks=[Clock()],
        peft_config=adapter,
    )
    trainer.train()
    prompt = statistics.mean(len(tokenizer(text)["input_ids"]) for text, _ in asked)
    return {"length": statistics.mean(lengths), "prompt": prompt, "trained": 1.0, **meter.found()}


def products(shape: Shape, threads: int) -> tuple[float, float]:
    """Seconds of the linear layers' products alone: sampling every token, and training on every token."""
    import torch

    from gnomon.learners.local import TOKENS
    from gnomon.models.folder import model_folder
    from gnomon.models.policy import Policy

    torch.set_num_threads(threads)
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


def measure(system: str, shape: Shape, steps: int, model: Model = TINY) -> dict[str, Any]:
    """What one side needs, in a process of its own. Gnomon's threads share a step, TRL's are torch's."""
    command = [sys.executable, __file__, "--one", system]
    work = json.dumps({"shape": asdict(shape), "steps": steps, "model": asdict(model)})
    done = subprocess.run([*command, work], capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise SystemExit(f"{system} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def one(system: str, work: str) -> dict[str, Any]:
    values = json.loads(work)
    side = ours if system == "gnomon" else theirs
    return side(Shape(**values["shape"]), values["steps"], Model(**values["model"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="per run; the first is not counted")
    parser.add_argument("--threads", type=int, default=2, help="one on a busy machine, and see processor time there")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(*options.one)))
        return 0
    threads = options.threads
    print(f"{platform.platform()}, {os.cpu_count()} cores, {threads} threads each, load: {os.getloadavg()[0]:.2f}")
    model = replace(TINY, threads=threads)
    for name in options.shapes:
        pairs = [
            tuple(measure(system, SHAPES[name], options.steps, model) for system in ("gnomon", "trl"))
            for _ in range(options.runs)
        ]
        sizes = " / ".join(f"{statistics.mean(p[i]['length'] for p in pairs):.1f}" for i in (0, 1))
        shares = f"mean length {sizes}  tokens trained {statistics.mean(p[0]['trained'] for p in pairs):.0%}"
        for time_of in ("seconds", "processor"):
            mine, other = ([statistics.median(p[i][time_of][1:]) for p in pairs] for i in (0, 1))
            ratios = sorted(b / a for a, b in zip(mine, other, strict=True))
            spread = f"{ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f}"
            print(
                f"{name:<7} {time_of:<9} gnomon {statistics.median(mine):.3f} s  trl {statistics.median(other):.3f} s  "
                f"ratio {spread} (min/median/max of {len(ratios)})  {shares}",
                flush=True,
            )
    sampling, training = products(SHAPES["equal"], threads)
    print(f"linear layers alone at the equal shape: {sampling:.2f} s of sampling, {training:.2f} s of training")
    return 0


if __name__ == "__main__":
    sys.exit(main())
