"""`gradient(batch)` of TRL 1.16: its own trainers take one optimiser step on rollouts that are already sampled.

Runs in the environment of TRL, without Gnomon. All that is replaced is the sampling; rewards, advantages, masks,
micro-batches and loss are TRL's code, in the loop of its `train()`.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from typing import Any

__all__ = ["OBJECTIVES", "gradient"]

OBJECTIVES = {
    "grpo": "grpo",
    "dapo": "dapo",
    "bnpo": "dapo",
    "dr_grpo": "dr_grpo",
    "dr_grpo, scale_rewards=none": "dr_grpo",
    "grpo, sequence level": "gspo",
    "cispo": "cispo",
    "sapo": "sapo",
    "rloo": "rloo",
}
"""What TRL calls an objective, and the row that it stands for."""
SETTINGS = {
    "dr_grpo, scale_rewards=none": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "grpo, sequence level": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
}
"""Of objectives whose name is not a loss type."""
OPTIONS = {
    "clip_low": "epsilon", "clip_high": "epsilon_high", "gain": "sapo_temperature_pos",
    "loss": "sapo_temperature_neg",
}  # fmt: skip


@cache
def parts() -> dict[str, Any]:
    """Trainers whose completions are those of a batch, and a callback that keeps what the optimiser would apply."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    import torch
    from transformers import TrainerCallback
    from trl import GRPOTrainer, RLOOTrainer

    class Sampled:
        batch: Any

        def _tokenize_prompts(self, prompts: list[Any]) -> tuple[Any, ...]:
            return [row.prompt for row in self.batch.rows], None, {}

        def _generate_single_turn(self, *_: Any, **__: Any) -> Any:
            ids = [row.completion for row in self.batch.rows]
            return ids if isinstance(self, RLOOTrainer) else (ids, None)

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            scored = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
            rows = self.batch.rows
            if rows[0].behavior_logp:
                old = [torch.tensor(row.behavior_logp, dtype=torch.float64) for row in rows]
                scored["old_per_token_logps"] = torch.nn.utils.rnn.pad_sequence(old, batch_first=True)
            return scored

    class Kept(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            self.gradient = {name: value.grad.clone() for name, value in model.named_parameters()}

    kinds = {"grpo": type("GRPO", (Sampled, GRPOTrainer), {}), "rloo": type("RLOO", (Sampled, RLOOTrainer), {})}
    return kinds | {"kept": Kept}


def config(batch: Any, folder: str) -> Any:
    from trl import GRPOConfig, RLOOConfig

    common = {
        "output_dir": folder, "max_steps": 1, "learning_rate": 0.0, "max_grad_norm": 0.0, "use_cpu": True,
        "bf16": False, "per_device_train_batch_size": batch.micro_batch,
        "gradient_accumulation_steps": len(batch.rows) // batch.micro_batch, "num_generations": batch.group_size,
        "max_completion_length": batch.max_tokens, "beta": batch.kl, "temperature": batch.temperature,
        "mask_truncated_completions": batch.mask_truncated, "report_to": [], "save_strategy": "no",
        "logging_strategy": "no", "disable_tqdm": True, "shuffle_dataset": False, "gradient_checkpointing": False,
    }  # fmt: skip
    if batch.objective == "rloo":
        return RLOOConfig(**common)
    options = {OPTIONS[name]: value for name, value in batch.options.items() if name in OPTIONS}
    if batch.objective == "cispo":
        options["epsilon_high"] += 1  # It is the ceiling of the ratio itself.
    return GRPOConfig(**common, **options, **SETTINGS.get(batch.objective, {"loss_type": batch.objective}))


def gradient(batch: Any) -> dict[str, Any]:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback

    tools = any(0 in row.mask for row in batch.rows)
    if batch.group_size < 2:
        raise NotImplementedError("TRL refuses num_generations=1")
    if tools and batch.objective == "rloo":
        raise NotImplementedError("RLOOTrainer has no mask for the tokens of tools")
    callback = parts()["kept"]()
    groups = {row.group for row in batch.rows}
    with tempfile.TemporaryDirectory() as folder:
        trainer = parts()["rloo" if batch.objective == "rloo" else "grpo"](
            model=AutoModelForCausalLM.from_pretrained(batch.model, dtype=torch.float64),
            reward_funcs=lambda **_: [row.reward for row in batch.rows], args=config(batch, folder),
            train_dataset=Dataset.from_list([{"prompt": "ab"} for _ in groups]), callbacks=[callback],
            processing_class=AutoTokenizer.from_pretrained(batch.model),
        )  # fmt: skip
        trainer.remove_callback(PrinterCallback)
        trainer.batch = batch
        if batch.kl:
            anchor = AutoModelForCausalLM.from_pretrained(batch.reference, dtype=torch.float64)
            trainer.ref_model.load_state_dict(anchor.state_dict())
        if tools:
            trainer.rollout_func = lambda *_: {
                "prompt_ids": [row.prompt for row in batch.rows], "logprobs": None,
                "completion_ids": [row.completion for row in batch.rows], "env_mask": [row.mask for row in batch.rows],
            }  # fmt: skip
        trainer.train()
    return dict(callback.gradient)
