"""The learner, with the reference and the critic that the objective and the settings ask for, and its learning rate."""

from __future__ import annotations

import torch

from gnomon.config import RunConfig
from gnomon.launch.makers.objective import full_kl
from gnomon.learners.critic import Critic
from gnomon.learners.local import Adam, LocalLearner, Terms
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.objectives import Need, Objective
from gnomon.training.schedule import Schedule

__all__ = ["make_learner", "make_precision", "make_schedule"]


def make_learner(config: RunConfig, row: Objective) -> LocalLearner:
    """A learner with a policy of its own."""
    folder, precision, full = model_folder(config.policy.path), make_precision(config), full_kl(config)
    return LocalLearner(
        Policy.load(folder, precision),
        optimizer=Adam(weight_decay=config.optim.weight_decay, max_grad_norm=config.optim.max_grad_norm),
        terms=Terms(entropy=config.regularize.entropy, full_kl=full),
        reference=Policy.load(folder, precision.alone) if row.needs_reference or full else None,
        critic=make_critic(config) if Need.VALUES in row.asks else None,
    )


def make_critic(config: RunConfig) -> Critic:
    body = Policy.load(model_folder(config.policy.path), make_precision(config))
    return Critic(body, lr=config.critic.lr, max_grad_norm=config.critic.max_grad_norm)


def make_schedule(config: RunConfig) -> Schedule:
    steps, optim = config.budget.steps * config.optim.updates, config.optim
    return Schedule(lr=optim.lr, steps=steps, warmup=optim.warmup, min_lr_ratio=optim.min_lr_ratio)


def make_precision(config: RunConfig) -> Precision:
    """Of a policy that is trained; `Precision.alone` is that of the others."""
    return Precision(compute=getattr(torch, config.policy.dtype))
