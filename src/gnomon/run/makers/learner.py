"""The learner, with the reference and the critic that the objective and the settings ask for, and its learning rate."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from torch.distributed.device_mesh import DeviceMesh

from gnomon.config import RunConfig
from gnomon.learners.critic import Critic
from gnomon.learners.local import LocalLearner, Terms
from gnomon.learners.optimisers import Adam, Sgd
from gnomon.learners.sharded import ShardedLearner
from gnomon.learners.sharded_critic import ShardedCritic
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.projection import Truncation
from gnomon.models.sharding import spread
from gnomon.objectives import Need, Objective
from gnomon.run.makers.engine import probe_tokens
from gnomon.run.makers.objective import full_kl
from gnomon.run.makers.policy import make_adapter, make_device, make_policy, make_precision, make_whole
from gnomon.run.teacher import reference_folder
from gnomon.training.schedule import Schedule

__all__ = ["make_learner", "make_schedule", "make_sharded"]


def make_learner(config: RunConfig, row: Objective) -> LocalLearner:
    """A learner with a policy of its own."""
    policy, full = make_trained(config, make_precision(config)), full_kl(config)
    return LocalLearner(
        policy,
        optimizer=make_optimizer(config),
        terms=Terms(entropy=config.regularize.entropy, full_kl=full),
        reference=make_reference(config, policy) if row.needs_reference or full else None,
        critic=make_critic(config) if Need.VALUES in row.asks else None,
        micro_batch=config.optim.micro_batch,
        probe=probe_tokens(config),
        truncation=Truncation(config.rollout.top_p, config.rollout.top_k),
        threads=config.threads,
    )


def make_sharded(config: RunConfig, row: Objective, mesh: DeviceMesh, published: Path) -> ShardedLearner:
    """This process's part of a learner that is spread over the processes of a mesh.

    Args: published: the folder for the weights of the newest version.
    """
    policy, full, reference = make_sharded_policy(config, mesh), full_kl(config), None
    if row.needs_reference or full:
        reference = make_sharded_reference(config, policy, mesh)
    return ShardedLearner(
        policy,
        optimizer=make_optimizer(config),
        terms=Terms(entropy=config.regularize.entropy, full_kl=full),
        reference=reference,
        critic=ShardedCritic(make_sharded_policy(config, mesh), **critic_settings(config))
        if Need.VALUES in row.asks
        else None,
        published=published,
        micro_batch=config.optim.micro_batch,
        probe=probe_tokens(config),
        truncation=Truncation(config.rollout.top_p, config.rollout.top_k),
    )


def make_optimizer(config: RunConfig) -> Adam | Sgd:
    """The settings of the policy's optimiser."""
    optim = config.optim
    if optim.type == "sgd":
        return Sgd(momentum=optim.momentum, max_grad_norm=optim.max_grad_norm)
    return make_adam(config)


def make_adam(config: RunConfig) -> Adam:
    optim = config.optim
    return Adam(weight_decay=optim.weight_decay, max_grad_norm=optim.max_grad_norm, states=optim.states)


def make_trained(config: RunConfig, precision: Precision) -> Policy:
    """A policy for an optimiser."""
    return sparing(config, make_policy(config, precision, whole=make_whole(config)))


def sparing(config: RunConfig, policy: Policy) -> Policy:
    """The policy, which computes again in a backward pass what the settings say."""
    if config.policy.activation_checkpointing:
        policy.checkpoint_activations()
    else:
        policy.recompute_conversions()
    return policy


def outline_policy(config: RunConfig, precision: Precision) -> Policy | None:
    """`make_trained` without the values of the weights, as `Policy.outline`."""
    folder, device = model_folder(config.policy.path), make_device(config.policy.device)
    policy = Policy.outline(folder, precision, device, make_adapter(config, True), make_whole(config))
    return sparing(config, policy) if policy else None


def make_sharded_policy(config: RunConfig, mesh: DeviceMesh) -> Policy:
    """As `make_trained`, spread over the processes of a mesh."""
    precision = make_precision(config)
    own = precision if config.policy.trains_adapter else Precision.only(precision.master)
    return spread(partial(make_trained, config, own), partial(outline_policy, config, own), mesh, precision)


def make_sharded_reference(config: RunConfig, policy: Policy, mesh: DeviceMesh) -> Policy:
    """As `make_reference`, spread over the processes of a mesh unless it shares the weights of the policy."""
    if policy.adapter and not config.policy.reference:
        return policy.without_adapter
    folder = reference_folder(config) if config.policy.reference else model_folder(config.policy.path)
    precision, device = make_precision(config).alone, make_device(config.policy.device)
    outline = partial(Policy.outline, folder, precision, device, whole=make_whole(config))
    return spread(partial(make_reference, config, policy), outline, mesh, precision, trainable=False)


def make_reference(config: RunConfig, policy: Policy) -> Policy:
    """The policy that `policy.reference` names, else the policy as the run began.

    Where an adapter is trained, the latter is the policy without the adapter.
    Raises: as `reference_folder`.
    """
    if config.policy.reference:
        alone, device = make_precision(config).alone, make_device(config.policy.device)
        return Policy.load(reference_folder(config), alone, device, whole=make_whole(config))
    if policy.adapter:
        return policy.without_adapter
    return make_policy(config, make_precision(config).alone, whole=make_whole(config))


def make_critic(config: RunConfig) -> Critic:
    return Critic(make_trained(config, make_precision(config)), **critic_settings(config))


def critic_settings(config: RunConfig) -> dict[str, Any]:
    critic = config.critic
    return {"lr": critic.lr, "max_grad_norm": critic.max_grad_norm, "states": config.optim.states}


def make_schedule(config: RunConfig) -> Schedule:
    steps, optim = config.budget.steps * config.optim.updates, config.optim
    return Schedule(lr=optim.lr, steps=steps, warmup=optim.warmup, min_lr_ratio=optim.min_lr_ratio)
