"""Starts a run in a new folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gnomon.config import RunConfig, to_toml
from gnomon.config.choices import sentences
from gnomon.envs import offers
from gnomon.envs.agent import Agent, launch_of
from gnomon.envs.base import Env
from gnomon.models.folder import model_folder, table
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Proven, Renderer
from gnomon.rendering.choose import departure
from gnomon.rollout.programs import require_program
from gnomon.run.display import Console, Guarded, Teller
from gnomon.run.exactness import reasons
from gnomon.run.find import make_env
from gnomon.run.hub_models import pin_models
from gnomon.run.makers import engine_facts
from gnomon.run.makers.policy import attention_of
from gnomon.run.manifest import manifest, opening
from gnomon.run.own_parts import NOTHING, OwnParts, require_own_parts, source_of
from gnomon.run.parts import Parts, open_parts
from gnomon.run.paths import anchor
from gnomon.run.preflight import audit_receipt
from gnomon.run.prompt_tokens import without_room
from gnomon.run.reward_weights import weigh
from gnomon.run.session import train_until_stopped
from gnomon.run.trial import limits_of
from gnomon.run.trust import signature
from gnomon.store import Run, RunReader
from gnomon.types import EMPTY

__all__ = ["create", "start"]


def start(
    folder: Path,
    config: RunConfig,
    console: Console,
    env: Env | None = None,
    own: OwnParts = NOTHING,
    *,
    genesis: Mapping[str, Any] = EMPTY,
) -> RunReader:
    """Run a configuration in a new folder, until its end or a stop request.

    Args: genesis: additional fields of the first record, which determines the whole run.
    """
    require_own_parts(config, own, folder)
    env = make_env(config.env) if env is None else env
    config = anchor(config, env)
    fixed = pin_models(config)
    teller = Guarded(console)
    announce(config, env, teller)
    with open_parts(
        fixed, env, teller.progress, own, phase=teller.phase
    ) as parts:  # Before the audit: it takes longer.
        if parts.objective.observation and 1 in (env.max_turns, config.rollout.turns):
            teller.message(f"{parts.objective.name}: in episodes of one turn there are no observations to train on.")
        try:
            with teller.phase("auditing the verifier") as show:
                receipt = audit_receipt(config, env, teller, show)
        except BaseException:
            parts.actor.workers.close()
            raise
        with teller.phase("recording code, data and policy"):
            store = create(folder, config, parts, env, {"audit": receipt, "objects": source_of(own)}, genesis)
        try:
            with store:
                train_until_stopped(store, fixed, parts, console, own.observers)
        except BaseException:
            if store.discard_unused():
                teller.message(f"Nothing was recorded, and the run folder was deleted: {folder}")
            raise
    return RunReader(folder)


def create(
    folder: Path | str,
    config: RunConfig,
    parts: Parts,
    env: Env | None = None,
    facts: Mapping[str, Any] = EMPTY,
    genesis: Mapping[str, Any] = EMPTY,
) -> Run:
    """A new run folder for these parts, with its recipe, manifest and first record.

    Args: env: the environment that is played, if `parts` hold only some of its tasks; facts: more for the manifest;
        genesis: more for the first record.
    """
    env, recipe, tier = env or parts.env, to_toml(config), parts.engine.tier
    recorded = manifest(config, env, tier=tier.value, mismatch=parts.mismatch) | engine_facts(parts.engine)
    recorded |= {"signed": signature(recipe), **format_facts(parts.actor.renderer), **facts}
    why = "; ".join(reasons(config, env, tier))
    return Run.create(folder, recipe=recipe, manifest=recorded, genesis={**opening(config, env), **genesis}, varies=why)


def announce(config: RunConfig, env: Env, teller: Teller) -> None:
    """What a person should know before anything is computed. Raises: ConfigError E028 for a wrong offer."""
    offers.require_offers(env)
    for sentence in offers.remarks(env):
        teller.message(f"Data: {sentence}")
    for sentence in without_room(config, env):
        teller.message(f"Prompts: {sentence}")
    if why := departure(Tokenizer(model_folder(config.policy.path)), config.policy.renderer):
        teller.message(f"Prompts: {why}.")
    require_command(env)
    if attention_of(config) == "transformers":
        teller.message(own_forward(config))
    with teller.phase("trying the verifier"):
        reward = weigh(env, config.audit.acknowledge, limits_of(config.workers))
    if reward:
        teller.message(reward)
    for sentence in sentences(config):
        teller.message(sentence)


def require_command(env: Env) -> None:
    """Raises: ConfigError E525 where programs play the episodes and the first task's does not exist."""
    if isinstance(env, Agent) and env.command:
        require_program(env.launch(env.tasks("train")[0]), "env.command", env.command)
    elif command := getattr(env, "agent", ""):
        require_program(launch_of(command, env.tasks("train")[0]), "env.agent", command)


def format_facts(renderer: Renderer) -> dict[str, Any]:
    """For a manifest: what was proven of a chat template that no family knows."""
    return {"chat_template": asdict(renderer.proof)} if isinstance(renderer, Proven) else {}


def own_forward(config: RunConfig) -> str:
    """What computes a model whose passes are not packed, for the reader of a run."""
    family = table(model_folder(config.policy.path) / "config.json")["model_type"]
    return (
        f"Model: {family} is computed by the forward pass and the cache of transformers "
        "(policy.attention=transformers): with padded rows, on the tier measured."
    )
