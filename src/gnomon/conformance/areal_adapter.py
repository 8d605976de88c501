"""`gradient(batch)` of AReaL 1.0: its `PPOActor` computes advantages and takes one update, with an engine on the CPU.

Runs in the environment of AReaL, without Gnomon. The engine stands for AReaL's own, which needs a GPU: it computes
log-probabilities row by row, and weighs the loss of each micro-batch by `loss_weight_fn`, as those engines do.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

__all__ = ["OBJECTIVES", "gradient"]

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {}),
    "dapo": ("dapo", {}),
    "gspo": ("gspo", {"importance_sampling_level": "sequence"}),
    "sapo": ("sapo", {"use_sapo_loss": True}),
}
"""Of each objective: the row, and what differs from AReaL's defaults beside `reward_norm`, which is by group."""
OBJECTIVES = {name: settings[0] for name, settings in SETTINGS.items()}


def actor(batch: Any, engine: Any) -> Any:
    from areal.api.cli_args import NormConfig, PPOActorConfig
    from areal.trainer.ppo import actor as module

    logging.disable(logging.INFO)
    module.stats_tracker = MagicMock()  # It takes numbers in float32 alone.
    options = {"clip_low": "eps_clip", "clip_high": "eps_clip_higher", "gain": "sapo_tau_pos", "loss": "sapo_tau_neg"}
    keywords = {options[name]: value for name, value in batch.options.items() if name in options}
    norm = NormConfig(mean_level="group", std_level="group", group_size=batch.group_size)
    config = PPOActorConfig(
        experiment_name="conform", trial_name="conform", reward_norm=norm, ppo_n_minibatches=1, kl_ctl=0.0,
        max_new_tokens=batch.max_tokens, **keywords, **SETTINGS[batch.objective][1],
    )  # fmt: skip
    return module.PPOActor(config, engine)


def pad(batch: Any, logp: Any) -> dict[str, Any]:
    """What AReaL's workflows hand over: rows with prompt and completion, and 0 behind. Args: logp: at sampling."""
    import torch

    rows = list(batch.rows)
    longest = max(len(row.prompt) + len(row.completion) for row in rows)
    tensors = {
        "input_ids": torch.zeros(len(rows), longest, dtype=torch.long),
        "attention_mask": torch.zeros(len(rows), longest, dtype=torch.bool),
        "loss_mask": torch.zeros(len(rows), longest, dtype=torch.int32),
        "logprobs": torch.zeros(len(rows), longest, dtype=logp.dtype),
        "rewards": torch.tensor([float(row.reward) for row in rows]),
    }
    for at, row in enumerate(rows):
        start, end = len(row.prompt), len(row.prompt) + len(row.completion)
        tensors["input_ids"][at, :end] = torch.tensor([*row.prompt, *row.completion])
        tensors["attention_mask"][at, :end] = True
        tensors["loss_mask"][at, start:end] = torch.tensor(row.mask, dtype=torch.int32)
        tensors["logprobs"][at, start:end] = logp[at, : end - start]
    return tensors


def train_batch(batch: Any, model: Any, data: dict[str, Any], loss_fn: Any, loss_weight_fn: Any) -> dict[str, float]:
    import torch

    total = loss_weight_fn(data)
    for start in range(0, len(data["input_ids"]), batch.micro_batch):
        part = {name: value[start : start + batch.micro_batch] for name, value in data.items()}
        logits = [model(input_ids=ids[keep][None]).logits[0] for ids, keep in _rows(part)]
        scores = torch.nn.utils.rnn.pad_sequence([each.log_softmax(-1) for each in logits], batch_first=True)
        scores = torch.nn.functional.pad(scores, (0, 0, 0, part["input_ids"].shape[1] - scores.shape[1]))
        now = scores.gather(-1, part["input_ids"].roll(-1, dims=-1)[..., None])[..., 0]
        loss = loss_fn(now, torch.zeros_like(now), part)
        (loss * loss_weight_fn(part) / total).backward()
    return {}


def _rows(part: dict[str, Any]) -> Any:
    return zip(part["input_ids"], part["attention_mask"], strict=True)


def gradient(batch: Any) -> dict[str, Any]:
    if any(row.reward is None for row in batch.rows):
        raise NotImplementedError("a reward of AReaL is a number; it has no word for a verifier that failed")
    if batch.mask_truncated:
        raise NotImplementedError("AReaL sets the reward of truncated rollouts to 0, and has no option that masks them")
    if batch.kl:
        raise NotImplementedError("not tested: AReaL's penalty is a reward of each token, not of the completion")
    batch.of_loss_alone()
    model = batch.policy()
    old = batch.old_logp(batch.logp(model))
    engine = SimpleNamespace(
        train=lambda: None, get_version=lambda: 0,
        train_batch=lambda data, loss_fn, loss_weight_fn: train_batch(batch, model, data, loss_fn, loss_weight_fn),
    )  # fmt: skip
    trainer = actor(batch, engine)
    trainer._ppo_update(trainer._compute_advantages(pad(batch, old)))
    return {name: value.grad.clone() for name, value in model.named_parameters()}
