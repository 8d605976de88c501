"""The engine that samples, and the measurement of how far it agrees with the learner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from gnomon.config import RunConfig
from gnomon.config.placement import EngineKind
from gnomon.engines.base import Engine, Sleeping, Tier, Versioned
from gnomon.engines.embedded import Embedded
from gnomon.engines.remote import RemoteEngine
from gnomon.engines.tinker import TinkerEngine
from gnomon.engines.vllm import VLLM
from gnomon.engines.vllm.engine import WORKER
from gnomon.envs.base import Env
from gnomon.errors import ConfigError, ModelError, NumericsError
from gnomon.keys import Key
from gnomon.learners.alternating import Alternating
from gnomon.learners.base import Learner
from gnomon.models.backends import has_experts, packs
from gnomon.models.folder import model_folder, table
from gnomon.models.policy import Policy
from gnomon.models.precision import require_range
from gnomon.models.projection import WHOLE, Truncation
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import LONG_PROBE, PROBE
from gnomon.rendering import Renderer, joined
from gnomon.run.loops import run_to_end
from gnomon.run.makers.policy import (
    attention_of,
    make_adapter,
    make_device,
    make_engine_precision,
    make_policy,
    make_precision,
    policy_of,
)
from gnomon.run.sample_stats import sample_stats
from gnomon.training.evaluate import first
from gnomon.types import Sampling

__all__ = [
    "alternating", "compare_with_learner", "engine_facts", "make_engine", "probe_tokens",
    "share_base",
]  # fmt: skip

PROBES = 6
"""Prompts on which sampler and learner are compared before a run."""
ROWS, TOKENS = 4, 32
"""Completions of each, and their length, for an engine in another process."""
DECODED = 72
"""Longest completion for an engine in this process; shorter if the replies of the run are shorter."""
ROUNDING = {torch.float32: 0.05}
"""Largest difference in log-probability that rounding can explain, by dtype."""
LOADED = {torch.float32: 1e-3}
"""The same for the few tokens of the probe after each load: smaller, so that an old layer is seen."""
COARSE = 0.5
"""The same for every other dtype."""


def make_engine(config: RunConfig, learner: Learner | None = None) -> Embedded | VLLM | TinkerEngine:
    """An engine with a policy of its own.

    Args: learner: whose frozen weights the engine may hold too.
    Raises: ModelError E306, E326.
    """
    tokenizer = Tokenizer(model_folder(config.policy.path))
    if not tokenizer.encode("0"):
        raise ModelError("E306", "the tokenizer turns a digit into nothing", where=str(tokenizer.folder))
    if config.placement.engine is EngineKind.SERVICE:
        return TinkerEngine(tokenizer, COARSE)
    where = "policy.dtype" if config.engine.dtype == "policy" else "engine.dtype"
    require_range(table(tokenizer.folder / "config.json").get("model_type", ""), config.dtypes.engine, where)
    return make_vllm(config) if config.placement.engine is EngineKind.VLLM else make_embedded(config, learner)


def make_embedded(config: RunConfig, learner: Learner | None = None) -> Embedded:
    """An engine in this process, whose adapter adds noise until it loads weights.

    Beside a learner in this process that trains an adapter, the frozen weights are in memory once.
    """
    bound, rounds = probe_bound(config), numbers_differ(config)
    if policy := beside(config, learner):
        return Embedded(policy, bound=bound, threads=config.threads)
    engine, rounding = config.engine, None if config.engine.round_weights == "no" else config.engine.round_weights
    precision = make_engine_precision(config)
    device = "" if engine.device == "policy" else engine.device
    policy = make_policy(config, precision, blank=False, device=device)
    return Embedded(
        policy,
        rounding=getattr(torch, rounding) if rounding else None,
        bound=bound,
        rounds=rounds,
        threads=config.threads,
    )


def beside(config: RunConfig, learner: Learner | None) -> Policy | None:
    """A policy with the frozen weights of a learner that has the model and the adapter of the settings; else None."""
    adapter, policy = make_adapter(config, blank=False), policy_of(learner)
    if adapter is None or numbers_differ(config) or policy is None or not policy.adapter:
        return None
    folder, blank = model_folder(config.policy.path), replace(adapter, blank=True)
    expected = (folder, make_precision(config), make_device(config.policy.device).type, blank)
    has = (policy.folder, policy.precision, policy.device.type, policy.adapter.adapter)
    return policy.twin(adapter) if has == expected else None


def probe_bound(config: RunConfig) -> float:
    """Largest difference of a probe between the learner and an engine of Gnomon's own. Two attentions differ by as much
    as the dtype rounds; in float32 by so little that an old layer is still seen."""
    coarse = make_precision(config).compute is not torch.float32 and attention_of(config) != "exact"
    return COARSE if coarse or numbers_differ(config) else LOADED[torch.float32]


def probe_tokens(config: RunConfig) -> int:
    """Number of tokens of the probe; more where the engine's log-probabilities are not the learner's in every bit."""
    return PROBE if may_be_exact(config) else min(LONG_PROBE, max(2, config.rollout.context - 1))


def may_be_exact(config: RunConfig) -> bool:
    """Whether the engine computes as the learner does, so that both may agree in every bit."""
    return config.placement.engine is EngineKind.EMBEDDED and not apart(config)


def apart(config: RunConfig) -> bool:
    """Whether the settings have an engine compute otherwise than the learner does."""
    return numbers_differ(config) or attention_of(config) != "exact"


def numbers_differ(config: RunConfig) -> bool:
    """Whether an engine has another dtype than the learner, rounded weights, or another device."""
    engine = config.engine
    if config.dtypes.differ or engine.round_weights != "no":
        return True
    own = make_device(config.policy.device)
    return engine.device != "policy" and make_device(engine.device, "engine.device") != own


def make_vllm(config: RunConfig) -> VLLM:
    """vLLM with the model, dtype and context of the run; its worker starts with the first load."""
    folder, engine = model_folder(config.policy.path), config.engine
    positions = table(folder / "config.json").get("max_position_embeddings")
    arguments = {
        "dtype": config.dtypes.engine,
        "max_model_len": min(config.rollout.context, positions or config.rollout.context),
        **({"kv_cache_memory_bytes": round(engine.cache_gib * 2**30)} if engine.cache_gib else {}),
        **({"tensor_parallel_size": len(engine.gpus)} if len(engine.gpus) > 1 else {}),
        **engine.arguments,
    }
    return VLLM(
        folder,
        (engine.python, str(WORKER)),
        arguments=arguments,
        adapter=make_adapter(config, blank=False),
        bound=COARSE if numbers_differ(config) else LOADED.get(make_precision(config).compute, COARSE),
        patience=engine.seconds,
        restarts=engine.restarts,
        threads=config.threads,
        batch_invariant=engine.batch_invariant,
        head=config.dtypes.learner,
        sleeps=engine.sleep,
        gpus=engine.gpus,
    )


def alternating(learner: Learner, engine: Engine) -> Learner:
    """The learner; an engine that can sleep does so while the learner computes."""
    return Alternating(learner, engine.sleep) if isinstance(engine, Sleeping) and engine.sleeps else learner


def share_base(engine: Engine, learner: Learner) -> None:
    """Have both use one copy of the frozen weights, if they are in one process."""
    if (own := policy_of(engine)) and (base := policy_of(learner)):
        own.share_base(base)


def engine_facts(engine: Engine) -> dict[str, Any]:
    """For a manifest: the versions of an engine that has an environment of its own."""
    return {"engine": dict(engine.versions)} if isinstance(engine, Versioned) and engine.versions else {}


def compare_with_learner(
    engine: Embedded | VLLM | TinkerEngine | RemoteEngine,
    learner: Learner,
    renderer: Renderer,
    env: Env,
    config: RunConfig,
) -> float:
    """The largest difference between a sampled and a scored log-probability, in nats; it decides the engine's tier.

    It is not repeated when the difference is not zero: a second measurement that finds nothing does not undo the first.
    Raises: NumericsError E204, when the difference is more than rounding; ConfigError E045 where a truncated
        distribution is sampled that the learner cannot find again.
    """
    prompts = probe_prompts(renderer, env, config.rollout.context)
    own = policy_of(engine)
    where = f"{type(own.model).__name__ if own else config.policy.path} in {config.dtypes.engine}"
    exact, gaps = may_be_exact(config), list[float]()
    if isinstance(engine, Embedded) and exact:
        one = 1 in (env.max_turns, config.rollout.turns) and not config.eval.sets
        reach = max(map(len, prompts)) + config.rollout.max_tokens if one else config.rollout.context
        gaps.append(engine.measure(prompts, tokens=min(DECODED, config.rollout.max_tokens), reach=reach))
    if not gaps or config.placement.learner_has_own_device:  # Another machine may have other kernels.
        engine.tier = Tier.MEASURED
        gaps.append(by_the_learner(engine, learner, prompts, config))
    if isinstance(engine, RemoteEngine):
        run_to_end(engine.ask_versions())
        gaps += [run_to_end(engine.measure(prompts))] if exact else []
    mismatch = max(gaps)
    if exact:
        engine.tier = tier_of(mismatch, config)
    differs = numbers_differ(config) or config.placement.engine is EngineKind.SERVICE
    bound = COARSE if differs else ROUNDING.get(make_precision(config).compute, COARSE)
    if not mismatch <= bound:
        raise NumericsError(
            "E204",
            f"log-probabilities of decoding and scoring differ by {mismatch:.2g}",
            where=where,
            why=f"more than {bound} is not a rounding error: a layer mixes tokens in a way the engine does not support",
            fix="use a model whose layers are attention and feed-forward only",
        )
    if engine.tier is Tier.MEASURED and Truncation(config.rollout.top_p, config.rollout.top_k) != WHOLE:
        raise ConfigError(
            "E045",
            "rollout.top_p and rollout.top_k need a sampler that agrees with the learner in every bit",
            where=where,
            why=f"log-probabilities differ by {mismatch:.2g}, so the two may keep other tokens",
            fix="rollout.top_p=1 rollout.top_k=0, or policy.attention=exact if the model has it (docs/real-models.md)",
        )
    return mismatch


def probe_prompts(renderer: Renderer, env: Env, context: int) -> list[tuple[int, ...]]:
    """The first prompts that leave room for a reply; of the first few, if there are none, the beginnings."""
    some = [joined(renderer.start(task.messages)) for _, task in first(env.tasks("train"), PROBES * PROBES)]
    fitting = [prompt for prompt in some if len(prompt) < context]
    return (fitting or [prompt[: context - 1] for prompt in some])[:PROBES]


def tier_of(mismatch: float, config: RunConfig) -> Tier:
    """Some models are never exact, which few prompts may not show: one that computes by its own forward, and one with
    experts on another device than a CPU or in less than float32, where rows of experts depend on others by rounding."""
    folder = model_folder(config.policy.path)
    steady = make_device(config.policy.device).type == "cpu" and config.dtypes.learner == "float32" and packs(folder)
    never = attention_of(config) == "transformers" or (has_experts(table(folder / "config.json")) and not steady)
    return Tier.MEASURED if mismatch or never else Tier.EXACT


def by_the_learner(engine: Engine, learner: Learner, prompts: list[tuple[int, ...]], config: RunConfig) -> float:
    """The largest difference over a few completions of the learner's present weights."""
    engine.load(learner.publish())
    rollout = config.rollout
    sampling = Sampling(
        max_tokens=min(TOKENS, rollout.max_tokens),
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
    )
    stats = sample_stats(engine, learner, prompts * ROWS, sampling, Key(config.seed).at("mismatch"))
    return stats["logp_mismatch"].value
