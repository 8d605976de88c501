"""Mistakes in settings, in our words: what is wrong, where it was given, and what was meant. A key of another library
is answered with ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import tomli_w
from pydantic import ValidationError

from gnomon.config.sections import DEFAULTS, RunConfig
from gnomon.config.sources import SHORT, Origins, leaves, put, value_of, word_of
from gnomon.errors import ConfigError
from gnomon.objectives.declaration import Mistake
from gnomon.objectives.options import OBJECT, OPTIONS, REFUSED, declaration_of
from gnomon.objectives.options import RENAMED as RENAMED_OBJECTIVES
from gnomon.objectives.options import nearest_row as meant_objective
from gnomon.objectives.spelling import nearest

__all__ = [
    "ABSENT",
    "OURS",
    "SWITCHES",
    "as_setting",
    "explain_mistake",
    "likely_key",
    "unknown_objective",
    "wrong_option",
]


def explain_mistake(item: Any, origins: Origins) -> Iterator[ConfigError]:
    """The errors behind one mistake of pydantic's, in our words; of an unknown table, one for each of its keys."""
    key = ".".join(str(part) for part in item["loc"])
    table = item["type"] == "string_type" and isinstance(item["input"], dict)  # A key below a setting that is text.
    if item["type"] != "extra_forbidden" and not table:
        yield explain(item, origins)
        return
    for name, value in leaves({key: item["input"]}).items():
        yield unknown_key(name, value, origins.get(name, name))


def unknown_key(key: str, value: Any, where: str) -> ConfigError:
    """The mistake of setting what does not exist, with the name that it has here."""
    ours, absent = probable_key(key)
    if absent or not ours:
        why = absent or "gnomon config show lists every key"
        return ConfigError("E012", f"unknown key {key}", where=where, why=why, fix="leave it out")
    default = leaves(DEFAULTS).get(ours)
    value = SWITCHES.get(key.rpartition(".")[2], value) if value is True else value
    why = f"did you mean {ours}{'' if default is None else f' (default {default!r})'}?"
    value = value if default is None or takes(ours, value) else default
    table, _, name = ours.rpartition(".")
    in_recipe = re.search(r", line \d+$", where) and table == key.rpartition(".")[0]
    fix = tomli_w.dumps({name: value}).strip() if in_recipe else word_of(ours, value)
    return ConfigError("E012", f"unknown key {key}", where=where, why=why, fix=fix)


def as_setting(option: str, value: str) -> ConfigError | None:
    """The mistake of writing a setting as an option, `--steps 2`; None where no setting is like it.

    A word that is not a setting may be an option of the environment.
    """
    key, supplied = option.lstrip("-").replace("-", "_"), value_of(value) if value else True
    default = leaves(DEFAULTS).get(SHORT.get(key, key))
    if default is not None or key == "run":
        fix = word_of(key, supplied if default is None or takes(SHORT.get(key, key), supplied) else default)
    elif probable_key(key)[0]:
        fix = unknown_key(key, supplied, "").fix
    elif value:
        fix = word_of(f"env.{key}", supplied)
    else:
        return None
    why = "settings are written key=value, without dashes"
    return ConfigError("E003", f"{option} is not an option", where=f"the command line: {option}", why=why, fix=fix)


def takes(key: str, value: Any) -> bool:
    """Whether a setting accepts a value. Checks that involve other settings are left out."""
    values: dict[str, Any] = {}
    put(values, key, value)
    try:
        RunConfig.model_validate(values)
    except ValidationError:
        return False
    return key != "objective.type" or unknown_objective(value, "") is None


def explain(item: Any, origins: Origins) -> ConfigError:
    """One mistake of pydantic's, in our words."""
    key, what = ".".join(str(part) for part in item["loc"]), item["msg"][0].lower() + item["msg"][1:]
    for theirs, ours in WORDS.items():
        what = what.replace(theirs, ours)
    what = what.partition(", unable to parse")[0].partition(", got a number with")[0]
    default = leaves(DEFAULTS).get(key)
    fix = "leave it out" if default is None else f"{word_of(key, default)}, the default"
    return ConfigError("E011", f"{key} is {item['input']!r}: {what}", where=place_of(key, origins), fix=fix)


WORDS = {
    "input should be a valid string": "it must be text",
    "input should be a valid integer": "it must be a whole number",
    "input should be a valid number": "it must be a number",
    "input should be a valid boolean": "it must be true or false",
    "input should be a valid tuple": "it must be a list",
    "input should be a valid list": "it must be a list",
    "input should be a valid dictionary": "it must be a table",
    "input should be": "it must be",
    "input should have": "it must have",
}
"""Wording of pydantic to the wording of an error."""


def unknown_objective(name: Any, where: str) -> ConfigError | None:
    """The mistake of naming an objective that does not exist; None where it does."""
    if isinstance(name, str) and (name in OPTIONS or name.startswith(OBJECT)):
        return None
    if isinstance(name, str) and name in RENAMED_OBJECTIVES:
        former = RENAMED_OBJECTIVES[name]
        what = f"the objective {name!r} is now {former.words}"
        return ConfigError("E013", what, where=where, why=former.why, fix=former.words)
    if isinstance(name, str) and name in REFUSED:
        instead, reason = REFUSED[name]
        return ConfigError(
            "E013", f"there is no objective {name!r}", where=where, why=reason, fix=f"objective={instead}"
        )
    near = meant_objective(name)
    why = f"did you mean {near}?" if near else "gnomon objective prints the names"
    return ConfigError("E013", f"unknown objective {name!r}", where=where, why=why, fix=f"objective={near or 'grpo'}")


def wrong_option(mistake: Mistake, origins: Origins) -> ConfigError:
    """The mistake in an option of an objective, where it was given."""
    key = f"objective.{mistake.option}"
    where, expected = place_of(key, origins), mistake.requirement
    if expected:
        return ConfigError("E011", f"{key} is {mistake.value!r}; it must be {expected}", where=where, fix=mistake.fix)
    options = declaration_of(mistake.row).options
    ours = likely_key(key)[0].removeprefix("objective.")
    near = ours if ours in options else mistake.near
    if not near:
        names = ", ".join(f"objective.{name}" for name in options)
        why = f"its options are {names}" if names else "it has no options"
        return ConfigError("E012", f"{mistake.row} has no option {key}", where=where, why=why, fix="leave it out")
    default, value = options[near].default, mistake.value
    why = f"did you mean objective.{near} (default {default})?"
    fix = word_of(f"objective.{near}", value if options[near].takes(value) else default)
    return ConfigError("E012", f"{mistake.row} has no option {key}", where=where, why=why, fix=fix)


def place_of(key: str, origins: Origins) -> str:
    """Where a key, or one below it, was given."""
    return next((origin for name, origin in origins.items() if name == key or name.startswith(f"{key}.")), key)


def probable_key(key: str) -> tuple[str, str]:
    """The key that an unknown one probably stands for, or why there is none; two empty texts if neither is known."""
    ours, absent = likely_key(key)
    if ours or absent:
        return ours, absent
    options = {f"objective.{name}" for row in OPTIONS.values() for name in row.options}
    names = [*DEFAULTS, *leaves(DEFAULTS), *sorted(options)]
    parts = key.split(".")
    tails = [".".join(parts[start:]) for start in range(1, len(parts))]
    if near := next((tail for tail in tails if tail in names), "") or nearest(key, names):
        return near, ""
    ends = {name.rpartition(".")[2]: name for name in reversed(names)}
    return ends.get(nearest(key.rpartition(".")[2], ends), ""), ""


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
SAMPLING = (
    "rollout.temperature, rollout.top_p and rollout.top_k alone shape what is sampled, since it is what is trained"
)
ENGINE = "engine.type=vllm engine.python=PATH samples with vLLM, in a process of its own (docs/engines.md)"
REWARD = "a function is passed in Python, gnomon.train(rows, reward=f), and not on the command line"
TRACKER = "a run is recorded in its folder; gnomon show RUN reads it"

ABSENT = {
    "per_device_train_batch_size": BATCH, "gradient_accumulation_steps": BATCH, "generation_batch_size": BATCH,
    "ppo_micro_batch_size": BATCH, "ppo_micro_batch_size_per_gpu": BATCH, "micro_batch_size": BATCH,
    "log_prob_micro_batch_size_per_gpu": BATCH, "cuda": DEVICE, "gpus": DEVICE,
    "nnodes": DEVICE, "tensor_model_parallel_size": DEVICE,
    "gpu_memory_utilization": DEVICE, "deepspeed": DEVICE, "fsdp": DEVICE,
    "min_p": SAMPLING, "repetition_penalty": SAMPLING, "use_vllm": ENGINE, "vllm_mode": ENGINE,
    "rollout.name": ENGINE, "inference": ENGINE, "report_to": TRACKER, "logger": TRACKER, "wandb": TRACKER,
    "project_name": TRACKER, "logging_steps": TRACKER, "reward": REWARD, "reward_funcs": REWARD,
    "reward_function": REWARD, "reward_fn": REWARD,
}  # fmt: skip
"""Their key, whole or its end or its first table, to what is true here."""


def likely_key(key: str) -> tuple[str, str]:
    """Our key for one of theirs, or the sentence that says what is not here; two empty texts for neither."""
    parts = key.split(".")
    ends = [".".join(parts[start:]) for start in range(len(parts))]
    for end in ends:
        if end in OURS or end in ABSENT:
            return OURS.get(end, ""), ABSENT.get(end, "")
    return "", ABSENT.get(parts[0], "")
