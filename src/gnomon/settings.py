"""The settings of `gnomon.train` as an editor completes them. Written by `python docs/settings.py` from config.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

__all__ = [
    "AuditSettings",
    "BudgetSettings",
    "CriticSettings",
    "EvalSettings",
    "Objective",
    "OptimSettings",
    "PolicySettings",
    "RefereeSettings",
    "RegularizeSettings",
    "RolloutSettings",
    "SaveSettings",
    "SeatsSettings",
    "Settings",
]

Objective = Literal[
    "brpo",
    "brpo_released",
    "cispo",
    "cispo_cap",
    "dapo",
    "decoupled_ppo",
    "dppo",
    "dr_grpo",
    "dro",
    "dro_token",
    "dual_clip_ppo",
    "fcp",
    "geometric_rejection",
    "gfpo",
    "gfpo_efficiency",
    "gmpo",
    "grpo",
    "grpo_sample_std",
    "gspo",
    "gspo_token",
    "icepop",
    "loop",
    "luffy",
    "maxrl",
    "maxrl_control",
    "maxrl_released",
    "maxrl_sub",
    "online_dpo",
    "online_ipo",
    "online_simpo",
    "online_slic",
    "pass_at_all",
    "pass_at_k_analytic",
    "pass_at_k_centred",
    "pkpo",
    "pkpo_loo",
    "pkpo_marginal",
    "ppo",
    "ppo_whitened",
    "rae",
    "rebn",
    "reinforce",
    "reinforce_centred",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "reinforce_pp_loo",
    "rft",
    "rl2ml",
    "rloo",
    "sapo",
    "seed_grpo",
    "seed_grpo_loo",
    "sequence_is",
    "sequence_mis",
    "sequence_tis",
    "sft",
    "tis",
    "topr",
    "turn_ppo",
    "turn_reinforce",
    "turn_reinforce_discounted",
    "verifree",
    "verifree_advantage",
    "xpo",
]


class PolicySettings(TypedDict, total=False):
    path: str
    """`tiny` (ships with the package) or a hub-format folder."""
    dtype: Literal["float32", "bfloat16"]
    renderer: Literal["auto", "plain", "chatml", "qwen3", "gemma", "llama3", "harmony"]
    """Format of conversations; `auto` reads it off the model folder."""


class RolloutSettings(TypedDict, total=False):
    prompts: int
    """Tasks per step."""
    group: int
    """Rollouts per task; a batch is prompts × group, and no other size exists."""
    max_tokens: int
    temperature: float
    stop: list[str]
    tasks: list[int]
    """Indices of the train tasks to draw from; none means all."""
    turns: int
    """Replies per episode, of all seats together; 0 leaves it to the environment."""
    context: int
    """Tokens of a conversation, told and sampled."""
    seconds: float
    """Of wall-clock time for the episodes of a step. A limit that is met makes a run that no rerun equals."""
    demonstrations: str
    """A file of replies to train tasks, for objectives that learn from those: one JSON object a line."""
    offline: float
    """Share of the steps, the first, whose rollouts come from the policy that the run begins with; only fcp has any."""
    refill: int
    """Most times per step that further tasks are sampled in place of those all right or all wrong."""
    candidates: int
    """Tasks sampled for each that is trained on; those are, to which replies are the least sure."""


class RefereeSettings(TypedDict, total=False):
    """The processes that play an environment's side of episodes, and what a step of one may take."""

    workers: int
    seconds: float
    """Of processor time; ten times as long by the clock."""
    memory_mib: int
    """Address space of a process."""
    retries: int
    """How often a step is tried again on a fresh process when the environment broke."""
    failures: float
    """Share of the rollouts that may fail so before the run stops."""


class SeatsSettings(TypedDict, total=False):
    """Who sits where in an environment of several seats."""

    opponent: str
    """Empty: the policy plays every seat and learns in all. `past`: it learns in one, and an earlier version of it,
    drawn anew in every step, plays the others; or a model folder that does."""
    every: int
    """Steps from one version that is kept as an opponent to the next."""
    keep: int
    """Most of them, the first always among them; every checkpoint holds them all."""
    baseline: Literal["seat", "shared"]
    """What the rewards of a seat are compared with: those of the same seat, or those of all, in the group of a task as
    in the running mean of what the past expects."""


class RegularizeSettings(TypedDict, total=False):
    """Terms beside the objective, for any objective."""

    kl: float
    """Weight per token of the pull to the policy that the run began with."""
    estimator: Literal["k1_in_return", "k2", "k3", "ratio_weighted_k3", "full"]
    """`full` sums over the whole vocabulary at every token; the others look at the sampled one."""
    entropy: float
    """Weight per token of the entropy of the next-token distribution, in nats."""
    overlong: float
    """Share of `max_tokens`, the last, over which a reward falls by up to one."""


class OptimSettings(TypedDict, total=False):
    lr: float
    """Learning rate; where none is given, it follows the size of the model: 1e-3 up to ten million
    parameters, 1e-6 above."""
    floor: float
    """Share of `lr` left at the last step of the budget; 1 is constant."""
    warmup: int
    clip: float
    weight_decay: float
    epochs: int
    """How often the rollouts of a step are trained on."""
    minibatches: int
    """Optimiser steps per epoch, each with its share of the groups."""


class CriticSettings(TypedDict, total=False):
    """The value function of objectives that ask for one."""

    lr: float
    """Learning rate; where none is given, 1e-3 up to ten million parameters, 1e-5 above."""
    clip: float


class BudgetSettings(TypedDict, total=False):
    steps: int
    seconds: float
    """Of wall-clock time; the run stops, resumable, at the step that crosses it."""


class EvalSettings(TypedDict, total=False):
    every: int
    """Steps between evaluations on held-out tasks; one more at the end."""
    tasks: int
    samples: int
    """Rollouts per held-out task."""
    pass_at: list[int]


class SaveSettings(TypedDict, total=False):
    every: int
    keep: int


class AuditSettings(TypedDict, total=False):
    """What is asked of the environment before a run."""

    acknowledge: list[str]
    """Rules of `gnomon audit` whose findings are known and do not stop the run."""


class Settings(TypedDict, total=False):
    """Of a run; tables by name, and short names."""

    seed: int
    threads: int
    """Of the CPU; gradients are summed in another order with another count."""
    env: str | Mapping[str, Any]
    policy: PolicySettings | str | Path
    rollout: RolloutSettings
    referee: RefereeSettings
    seats: SeatsSettings
    objective: Objective | Mapping[str, Any]
    regularize: RegularizeSettings
    optim: OptimSettings
    critic: CriticSettings
    budget: BudgetSettings
    eval: EvalSettings
    save: SaveSettings
    audit: AuditSettings
    prompts: int
    """`rollout.prompts`."""
    group: int
    """`rollout.group`."""
    max_tokens: int
    """`rollout.max_tokens`."""
    steps: int
    """`budget.steps`."""
    seconds: float
    """`budget.seconds`."""
    lr: float
    """`optim.lr`."""
