"""The learner, with the reference, critic and past weights that the objective and the settings ask for."""

from __future__ import annotations

import torch

from gnomon.config import RunConfig
from gnomon.launch.makers.objective import full_kl
from gnomon.learners.critic import Critic
from gnomon.learners.local import LocalLearner
from gnomon.models.folder import model_folder
from gnomon.models.past import Past
from gnomon.models.policy import Policy
from gnomon.objectives import Need, Objective

__all__ = ["make_learner"]


def make_learner(config: RunConfig, row: Objective) -> LocalLearner:
    """A learner with a policy of its own."""
    folder, dtype = model_folder(config.policy.path), getattr(torch, config.policy.dtype)
    full = full_kl(config)
    return LocalLearner(
        Policy.load(folder),
        compute=dtype,
        lr=config.optim.lr,
        steps=config.budget.steps * config.optim.updates,
        floor=config.optim.min_lr_ratio,
        warmup=config.optim.warmup,
        clip=config.optim.max_grad_norm,
        weight_decay=config.optim.weight_decay,
        entropy=config.regularize.entropy,
        full_kl=full,
        reference=Policy.load(folder, dtype) if row.needs_reference or full else None,
        critic=make_critic(config) if Need.VALUES in row.asks else None,
        shared=config.players.baseline == "shared",
        past=make_past(config),
    )


def make_critic(config: RunConfig) -> Critic:
    folder, dtype = model_folder(config.policy.path), getattr(torch, config.policy.dtype)
    return Critic(Policy.load(folder), compute=dtype, lr=config.critic.lr, clip=config.critic.max_grad_norm)


def make_past(config: RunConfig) -> Past | None:
    """Earlier weights of the policy, where it plays against itself."""
    if config.players.opponent != "past":
        return None
    return Past(every=config.players.every, keep=config.players.keep)
