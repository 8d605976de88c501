"""What other libraries call our settings, and what of theirs is not here: for the error of an unknown key."""

from __future__ import annotations

__all__ = ["ABSENT", "OURS", "SWITCHES", "known"]

OURS = {
    # TRL 1.16, GRPOConfig and TrainingArguments
    "num_generations": "rollout.group", "max_completion_length": "rollout.max_tokens",
    "max_prompt_length": "rollout.context", "learning_rate": "optim.lr", "beta": "regularize.kl",
    "kl_beta": "regularize.kl", "num_iterations": "optim.epochs", "steps_per_generation": "optim.minibatches",
    "epsilon": "objective.clip_low", "epsilon_low": "objective.clip_low", "epsilon_high": "objective.clip_high",
    "loss_type": "objective.type", "scale_rewards": "objective.type", "max_steps": "budget.steps",
    "num_train_epochs": "budget.steps", "num_epochs": "budget.steps", "warmup_steps": "optim.warmup",
    "warmup_ratio": "optim.warmup", "lr_scheduler_type": "optim.min_lr_ratio", "max_grad_norm": "optim.max_grad_norm",
    "save_steps": "save.every", "save_total_limit": "save.keep", "eval_steps": "eval.every", "bf16": "policy.dtype",
    "fp16": "policy.dtype", "torch_dtype": "policy.dtype", "model_name_or_path": "policy.path",
    "model_name": "policy.path", "device": "policy.device", "device_map": "policy.device",
    "gradient_checkpointing": "policy.activation_checkpointing", "lora_r": "policy.lora.rank",
    "use_peft": "policy.lora.rank", "teacher_model": "policy.reference",
    "peft_config": "policy.lora.rank", "lora_target_modules": "policy.lora.targets", "dataset_name": "env.path",
    "output_dir": "run",
    # verl 0.7
    "actor_rollout_ref.rollout.n": "rollout.group", "data.train_batch_size": "rollout.prompts",
    "train_batch_size": "rollout.prompts", "data.max_response_length": "rollout.max_tokens",
    "max_response_length": "rollout.max_tokens", "data.train_files": "env.path", "data.val_files": "env.test",
    "actor_rollout_ref.model.path": "policy.path", "ppo_mini_batch_size": "optim.minibatches",
    "ppo_epochs": "optim.epochs", "kl_loss_coef": "regularize.kl", "use_kl_loss": "regularize.kl",
    "kl_coef": "regularize.kl", "use_kl_in_reward": "regularize.kl", "kl_loss_type": "regularize.estimator",
    "entropy_coeff": "regularize.entropy", "clip_ratio": "objective.clip_low",
    "clip_ratio_low": "objective.clip_low", "clip_ratio_high": "objective.clip_high",
    "loss_agg_mode": "objective.type", "adv_estimator": "objective.type", "algorithm.gamma": "objective.gamma",
    "algorithm.lam": "objective.lam", "total_epochs": "budget.steps", "total_training_steps": "budget.steps",
    "test_freq": "eval.every", "save_freq": "save.every", "critic.optim.lr": "critic.lr",
    "experiment_name": "run", "default_local_dir": "run", "custom_reward_function.path": "env.type",
    "enable_gradient_checkpointing": "policy.activation_checkpointing", "lora_rank": "policy.lora.rank",
    "n_gpus_per_node": "ranks", "lora_alpha": "policy.lora.alpha", "target_modules": "policy.lora.targets",
    # prime-rl 0.5
    "lora.rank": "policy.lora.rank", "lora.alpha": "policy.lora.alpha",
    "rollouts_per_example": "rollout.group", "orchestrator.batch_size": "rollout.prompts",
    "batch_size": "rollout.prompts", "seq_len": "rollout.context", "model.name": "policy.path",
    "environment.id": "env.type", "env.id": "env.type", "max_norm": "optim.max_grad_norm",
    "ckpt.interval": "save.every", "max_async_level": "rollout.lag", "async_level": "rollout.lag",
    "eval.interval": "eval.every", "loss.type": "objective.type",
    # what is meant by its plain name
    "algorithm": "objective.type", "estimator": "objective.type", "task": "env.type",
    "max_new_tokens": "rollout.max_tokens",
    "optimizer.lr": "optim.lr", "optimizer": "optim.type", "optimizer.type": "optim.type",
    "n_generations": "rollout.group", "epochs": "budget.steps", "verifier": "env.verifier",
}  # fmt: skip
"""Their key, whole or its end, to ours."""

SWITCHES = {"bf16": "bfloat16", "fp16": "float16"}
"""Their key that is true or false to our value where it is true."""

BATCH = "a step has rollout.prompts x rollout.group rollouts; the size of a micro-batch changes no result"
DEVICE = (
    "training runs on policy.device, in one process, or with ranks=N in N processes of one machine (docs/machines.md)"
)
SAMPLING = "replies are sampled from the full distribution at rollout.temperature, since that distribution is trained"
ENGINE = "engine.type=vllm engine.python=PATH samples with vLLM, in a process of its own (docs/engines.md)"
REWARD = "a function is passed in Python, gnomon.train(rows, reward=f), and not on the command line"
TRACKER = "a run is recorded in its folder; gnomon show RUN reads it"

ABSENT = {
    "per_device_train_batch_size": BATCH, "gradient_accumulation_steps": BATCH, "generation_batch_size": BATCH,
    "ppo_micro_batch_size": BATCH, "ppo_micro_batch_size_per_gpu": BATCH, "micro_batch_size": BATCH,
    "log_prob_micro_batch_size_per_gpu": BATCH, "cuda": DEVICE, "gpus": DEVICE,
    "nnodes": DEVICE, "tensor_model_parallel_size": DEVICE,
    "gpu_memory_utilization": DEVICE, "deepspeed": DEVICE, "fsdp": DEVICE, "top_p": SAMPLING,
    "top_k": SAMPLING, "min_p": SAMPLING, "repetition_penalty": SAMPLING, "use_vllm": ENGINE, "vllm_mode": ENGINE,
    "rollout.name": ENGINE, "inference": ENGINE, "report_to": TRACKER, "logger": TRACKER, "wandb": TRACKER,
    "project_name": TRACKER, "logging_steps": TRACKER, "reward": REWARD, "reward_funcs": REWARD,
    "reward_function": REWARD, "reward_fn": REWARD,
}  # fmt: skip
"""Their key, whole or its end or its first table, to what is true here."""


def known(key: str) -> tuple[str, str]:
    """Our key for one of theirs, or the sentence that says what is not here; two empty texts for neither."""
    parts = key.split(".")
    ends = [".".join(parts[start:]) for start in range(len(parts))]
    for end in ends:
        if end in OURS or end in ABSENT:
            return OURS.get(end, ""), ABSENT.get(end, "")
    return "", ABSENT.get(parts[0], "")
