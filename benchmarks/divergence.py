"""Twelve pairs of runs that differ in one planted stage: TRL against TRL, and TRL against Gnomon on its rollouts.

    pip install trl==1.16.0
    python benchmarks/divergence.py

The table has the stage that `gnomon diverge` names for each pair, and both values there.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import trl
from datasets import Dataset
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, PrinterCallback
from trl.trainer.utils import add_fused_lm_head

from gnomon import loop
from gnomon.comparison.diverge import Divergence, diverge
from gnomon.integrations.imports.rollout import Foreign
from gnomon.integrations.imports.run import ImportedRun
from gnomon.integrations.trl import record
from gnomon.learners.coefficients import coefficients
from gnomon.models.folder import model_folder
from gnomon.store import RunReader
from gnomon.types import Sampling

Planted = Callable[[Any], object]
TEMPERATURE = 0.9


def letters(completions: list[str], **_: Any) -> list[float]:
    return [sum(letter in "aeiou" for letter in text) / 8 for text in completions]


def vowels_and_digits(completions: list[str], **_: Any) -> list[float]:
    return [sum(letter in "aeiou0123456789" for letter in text) / 8 for text in completions]


def run_of_trl(
    folder: Path, plant: Planted = id, *, reward: Any = letters, prompts: list[str] | None = None, **settings: Any
) -> Path:
    """Two recorded steps of two groups of four, in micro-batches of four rows. Args: plant: changes the trainer."""
    torch.manual_seed(0)
    place = model_folder("tiny")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(place / "tokenizer.json"))
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(
        AutoModelForCausalLM.from_pretrained(place).config.eos_token_id
    )
    tokenizer.pad_token = tokenizer.eos_token
    known = {
        "max_steps": 2, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_generations": 4,
        "max_completion_length": 8, "temperature": TEMPERATURE, "learning_rate": 1e-3, "lr_scheduler_type": "constant",
        "shuffle_dataset": False, "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "seed": 3,
        "report_to": [], "save_strategy": "no", "disable_tqdm": True,
    }  # fmt: skip
    rows = [{"prompt": prompt} for prompt in prompts or ["1 + 1 = ", "2 + 2 = ", "3 + 3 = ", "4 + 4 = "]]
    trainer = trl.GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32), reward_funcs=reward,
        args=trl.GRPOConfig(output_dir=str(folder / "out"), **{**known, **settings}),
        train_dataset=Dataset.from_list(rows), processing_class=tokenizer,
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    plant(trainer)
    with record(trainer, folder / "run"):
        trainer.train()
    return folder / "run"


def scored_hot(trainer: Any) -> None:
    """The loss forgets the temperature of the sampler."""
    add_fused_lm_head(trainer.model, temperature=1.0, cast_lm_head_to_fp32=False, outputs=("log_probs", "entropy"))


def start_token(trainer: Any) -> None:
    """Every prompt begins with a token that the other run does not have."""
    plain = trainer._tokenize_prompts

    def doubled(prompts: Any) -> Any:
        ids, *rest = plain(prompts)
        return [[each[0], *each] for each in ids], *rest

    trainer._tokenize_prompts = doubled


def frozen(trainer: Any) -> None:
    """The input embeddings are not trained."""
    next(trainer.model.parameters()).requires_grad_(False)


def again_by_gnomon(run: Path, folder: Path, **objective: Any) -> Path:
    """The first step of a recorded run, learned from by Gnomon: its rollouts with our scores, credit and gradient."""
    config, _ = loop.configure("char_count", {"objective": objective, "max_tokens": 8, "optim": {"max_grad_norm": 1e9}})
    parts = loop.build(config)
    with RunReader(run) as reader:
        bodies = [each.body for each in reader.records("rollout", 0)]
        groups = list(reader.groups(0))
    flat = iter(bodies)
    known = [replace(group, rollouts=tuple(with_logp(each, next(flat)) for each in group.rollouts)) for group in groups]
    batch = loop.pack(known, sampling=Sampling(temperature=TEMPERATURE, max_tokens=8), exact=False)
    scores = parts.learner.score(batch.sequences, temperature=TEMPERATURE)
    logp = torch.cat([torch.as_tensor(each) for each in scores])
    batch = parts.credit(batch, parts.learner)
    kappa = coefficients(batch, logp, parts.objective).kappa
    parts.learner.forward_backward(batch, parts.objective)
    stats = parts.learner.optim_step(0.0)
    rows, start = [], 0
    for group in known:
        for rollout in group.rollouts:
            end = start + rollout.tokens
            assert batch.advantage is not None
            rows.append(
                Foreign(
                    task=group.task, turns=rollout.turns, source="", reward=rollout.reward, parts=rollout.verdict.parts,
                    advantage=float(batch.advantage[start]), policy_logp=tuple(logp[start:end].tolist()),
                    coefficients=tuple(kappa[start:end].tolist()),
                )
            )  # fmt: skip
            start = end
    with ImportedRun(folder, format="gnomon") as written:
        written.step(0, rows, grad_norm=stats["grad_norm"].value)
    return folder


def with_logp(rollout: Any, body: dict[str, Any]) -> Any:
    (turn,) = rollout.turns
    completion = replace(turn.completion, logprobs=tuple(body["policy_logp"]))
    return replace(rollout, turns=(replace(turn, completion=completion),))


IN_TRL: dict[str, tuple[str, dict[str, Any]]] = {
    "other order of the data": ("tasks", {"prompts": ["2 + 2 = ", "1 + 1 = ", "3 + 3 = ", "4 + 4 = "]}),
    "a start token twice": ("prompt tokens", {"plant": start_token}),
    "other sampler": ("sampled tokens", {"top_k": 3}),
    "temperature forgotten in the loss": ("log-probabilities", {"plant": scored_hot}),
    "other reward": ("verdict", {"reward": vowels_and_digits}),
    "no deviation": ("advantage", {"scale_rewards": "none"}),
    "divided by own length": ("coefficient", {"loss_type": "grpo"}),
    "divided by the micro-batch": ("coefficient", {"loss_type": "bnpo"}),
    "some weights frozen": ("gradient norm", {"plant": frozen}),
    "other learning rate": ("weights", {"learning_rate": 2e-3}),
}
"""What is planted in the second run, and the stage in which it begins."""

IN_GNOMON: dict[str, tuple[str, dict[str, Any]]] = {
    "TRL divides by the deviation, Gnomon does not": ("advantage", {"loss_type": "dr_grpo"}),
    "TRL divides by tokens, Gnomon by the length limit": (
        "coefficient",
        {"loss_type": "dapo", "scale_rewards": "none"},
    ),
}
"""What a run of TRL has that Gnomon's `dr_grpo` on its rollouts does not, and the stage in which it shows."""
STAGES = {name: stage for name, (stage, _) in (IN_TRL | IN_GNOMON).items()}
"""Of each pair."""


def parted(name: str, base: Path, folder: Path) -> Divergence:
    """Where the runs of a pair part. Args: base: of TRL, without a change."""
    if name in IN_TRL:
        return diverge(base, run_of_trl(folder, **IN_TRL[name][1]))
    run = run_of_trl(folder, **IN_GNOMON[name][1])
    return diverge(run, again_by_gnomon(run, folder / "gnomon", type="dr_grpo"), 1e-4)


def main() -> None:
    right = 0
    print("| planted | stage | found | A | B |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        base = run_of_trl(Path(place, "base"))
        for at, (name, stage) in enumerate(STAGES.items()):
            found = parted(name, base, Path(place, str(at)))
            right += (found.stage, found.step) == (stage, 0)
            a, b = (value[:40].replace("|", "\\|") for value in found.values)
            print(
                f"| {name} | {stage} | {', '.join(filter(None, (found.stage, found.where)))} | {a} | {b} |", flush=True
            )
    print(f"\n{right} of {len(STAGES)} at the planted stage")
    sys.exit(right < len(STAGES))


if __name__ == "__main__":
    main()
