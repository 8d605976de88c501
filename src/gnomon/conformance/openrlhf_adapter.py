"""`gradient(batch)` of OpenRLHF 0.11: its advantages, policy loss, KL penalty and aggregation, on padded tensors.

Runs in the environment of OpenRLHF, without Gnomon. What imports them imports DeepSpeed and flash-attn, which need a
GPU, and uses neither here: empty modules stand for them. The divisors are those of the whole step, as its trainer has
them.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import SimpleNamespace
from typing import Any

__all__ = ["OBJECTIVES", "gradient"]

SETTINGS = {
    "group_norm": ("grpo", "group_norm", "ppo", "token-mean"),
    "group_norm, seq-mean-token-mean": ("grpo", "group_norm", "ppo", "seq-mean-token-mean"),
    "group_norm, eps_clip_low_high": ("dapo", "group_norm", "ppo", "token-mean"),
    "dr_grpo": ("dr_grpo", "dr_grpo", "ppo", "token-mean"),
    "rloo": ("rloo", "rloo", "ppo", "token-mean"),
    "gspo": ("gspo", "group_norm", "gspo", "seq-mean-token-mean"),
}
"""Of each objective: the row, `algo.advantage.estimator`, `actor.policy_loss_type` and `actor.loss_agg_mode`. An
objective without a mode in its name has the default."""
OBJECTIVES = {name: settings[0] for name, settings in SETTINGS.items()}


def parts() -> SimpleNamespace:
    """The functions of OpenRLHF."""
    if "openrlhf.models" not in sys.modules:
        spec = find_spec("openrlhf.models")
        assert spec
        for name in ("deepspeed", "openrlhf.models", "openrlhf.trainer.ray", "openrlhf.trainer.ray.launcher"):
            sys.modules[name] = module_from_spec(ModuleSpec(name, None))
        sys.modules["openrlhf.models"].__path__ = spec.submodule_search_locations or []
        sys.modules["openrlhf.trainer.ray.launcher"].__dict__["RayActorGroup"] = object
    from openrlhf.models.loss import PolicyLoss, aggregate_loss
    from openrlhf.models.utils import compute_approx_kl
    from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

    return SimpleNamespace(loss=PolicyLoss, divide=aggregate_loss, kl=compute_approx_kl, maker=RemoteExperienceMaker)


def advantages(batch: Any, masks: Any, maker: Any) -> Any:
    """[rows, longest]"""
    import torch

    estimator = SETTINGS[batch.objective][1]
    args = SimpleNamespace(
        algo=SimpleNamespace(advantage=SimpleNamespace(estimator=estimator, gamma=1.0, no_std_norm=False)),
        rollout=SimpleNamespace(n_samples_per_prompt=batch.group_size, max_new_tokens=batch.max_tokens),
        reward=SimpleNamespace(clip_range=None, overlong_buffer_len=None, stop_properly_penalty_coef=None),
    )
    episodes = SimpleNamespace(
        index=list(range(len(masks))), rewards=torch.tensor([float(row.reward) for row in batch.rows]), info={},
        kl=torch.zeros(masks.shape), action_mask=masks, values=None,
    )  # fmt: skip
    trainer = SimpleNamespace(
        strategy=SimpleNamespace(args=args), kl_ctl=SimpleNamespace(value=0.0), advantage_estimator=estimator,
        get_cumulative_returns=lambda *arguments: maker.get_cumulative_returns(None, *arguments),
    )  # fmt: skip
    maker.compute_advantages_and_returns(trainer, [episodes])
    return episodes.advantages


def gradient(batch: Any) -> dict[str, Any]:
    batch.of_loss_alone()
    if any(row.reward is None for row in batch.rows):
        raise NotImplementedError("a reward of OpenRLHF is a number; it has no word for a verifier that failed")
    if batch.mask_truncated:
        raise NotImplementedError("OpenRLHF penalises truncated responses, and has no option that masks them")
    if batch.group_size < 2:
        raise NotImplementedError("OpenRLHF refuses n_samples_per_prompt=1 with these estimators")
    theirs, model, masks = parts(), batch.policy(), batch.pad("mask")
    _, _, kind, mode = SETTINGS[batch.objective]
    low, high = (batch.options.get(name, 0.2) for name in ("clip_low", "clip_high"))
    loss = theirs.loss(low, high, token_level_loss=mode == "token-mean", policy_loss_type=kind)
    credit, anchor = advantages(batch, masks, theirs.maker), batch.logp(batch.anchor()).detach()
    sizes = {"batch_num_tokens": float(masks.sum()), "global_batch_size": float(len(masks))}
    for start in range(0, len(masks), batch.micro_batch):
        rows = slice(start, start + batch.micro_batch)
        now = batch.logp(model)
        value, *_ = loss(now[rows], batch.old_logp(now)[rows], credit[rows], action_mask=masks[rows], **sizes)
        if batch.kl:
            apart = theirs.kl(now[rows], anchor[rows], kl_estimator="k3")
            value = value + batch.kl * theirs.divide(apart, masks[rows], **sizes)
        value.backward()
    return {name: value.grad.clone() for name, value in model.named_parameters()}
