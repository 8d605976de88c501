"""`gradient(batch)` of verl 0.9: its advantages, policy losses, KL penalty and aggregation, on padded tensors.

Runs in the environment of verl, without Gnomon. What verl's engine does (log-probabilities, packing) needs a GPU and is
not tested. `batch_num_tokens` and `global_batch_size` are those of the whole step, as verl's `ppo_loss` sets them.
"""

from __future__ import annotations

from typing import Any

__all__ = ["OBJECTIVES", "gradient"]

SETTINGS = {
    "grpo": ("grpo", "grpo", "vanilla", "token-mean"),
    "grpo, seq-mean-token-mean": ("grpo", "grpo", "vanilla", "seq-mean-token-mean"),
    "dapo": ("dapo", "grpo", "vanilla", "token-mean"),
    "dr_grpo": ("dr_grpo", "grpo", "vanilla", "seq-mean-token-sum-norm"),
    "gspo": ("gspo", "grpo", "gspo", "seq-mean-token-mean"),
    "cispo": ("cispo", "grpo", "cispo", "token-mean"),
    "cispo, clip_ratio_low=10": ("cispo", "grpo", "cispo", "token-mean"),
    "sapo": ("sapo", "grpo", "sapo", "seq-mean-token-mean"),
    "geo_mean": ("gmpo", "grpo", "geo_mean", "seq-mean-token-mean"),
    "rloo": ("rloo", "rloo", "vanilla", "seq-mean-token-sum"),
}
"""Of each objective: the row, `adv_estimator`, `loss_mode` and `loss_agg_mode`. `grpo` has verl's defaults; the others
what verl's documentation and examples name for the paper."""
OBJECTIVES = {name: settings[0] for name, settings in SETTINGS.items()}


def config(batch: Any, masks: Any) -> Any:
    from verl.workers.config import ActorConfig, PolicyLossConfig

    _, _, loss, divided = SETTINGS[batch.objective]
    low = 10.0 if "clip_ratio_low" in batch.objective else batch.options.get("clip_low", 0.2)
    clip = {"clip_ratio_low": low, "clip_ratio_high": batch.options.get("clip_high", 0.2)}
    taus = {"tau_pos": batch.options["gain"], "tau_neg": batch.options["loss"]} if loss == "sapo" else {}
    actor = ActorConfig(
        strategy="fsdp", rollout_n=batch.group_size, ppo_micro_batch_size_per_gpu=batch.micro_batch,
        loss_agg_mode=divided, policy_loss=PolicyLossConfig(loss_mode=loss), use_kl_loss=bool(batch.kl),
        kl_loss_coef=batch.kl, loss_scale_factor=batch.max_tokens, **clip, **taus,
    )  # fmt: skip
    actor.global_batch_info.update(
        dp_size=1, batch_num_tokens=masks.sum(), global_batch_size=len(masks), loss_scale_factor=actor.loss_scale_factor
    )
    return actor


def advantages(batch: Any, masks: Any) -> Any:
    """[rows, longest] The reward stands at the last token, in float32, as verl's reward managers put it."""
    import numpy as np
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    estimator = SETTINGS[batch.objective][1]
    rewards = torch.zeros(masks.shape, dtype=torch.float32)
    for at, row in enumerate(batch.rows):
        rewards[at, len(row.completion) - 1] = row.reward
    options = {"norm_adv_by_std_in_grpo": not batch.objective.startswith("dr_grpo")} if estimator == "grpo" else {}
    index = np.array([str(row.group) for row in batch.rows], dtype=object)
    values, _ = get_adv_estimator_fn(estimator)(
        token_level_rewards=rewards, response_mask=masks, index=index, **options
    )
    return values


def gradient(batch: Any) -> dict[str, Any]:
    from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn, kl_penalty

    batch.of_loss_alone()
    if any(row.reward is None for row in batch.rows):
        raise NotImplementedError("a reward of verl is a number; it has no word for a verifier that failed")
    if batch.mask_truncated:
        raise NotImplementedError("verl has no option that masks truncated responses")
    model, masks = batch.policy(), batch.pad("mask")
    actor, credit = config(batch, masks), advantages(batch, masks)
    anchor = batch.logp(batch.anchor()).detach()
    for start in range(0, len(masks), batch.micro_batch):
        rows = slice(start, start + batch.micro_batch)
        now = batch.logp(model)
        loss, _ = get_policy_loss_fn(actor.policy_loss.loss_mode)(
            old_log_prob=batch.old_logp(now)[rows], log_prob=now[rows], advantages=credit[rows], config=actor,
            response_mask=masks[rows], loss_agg_mode=actor.loss_agg_mode,
        )  # fmt: skip
        if actor.use_kl_loss:
            apart = kl_penalty(now[rows], anchor[rows], actor.kl_loss_type)
            loss = loss + actor.kl_loss_coef * agg_loss(
                apart, masks[rows], actor.loss_agg_mode, **actor.global_batch_info
            )
        loss.backward()
    return {name: value.grad.clone() for name, value in model.named_parameters()}
