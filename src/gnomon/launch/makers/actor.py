"""The actor: who collects what an objective trains on, against whom, and under which limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from gnomon.config import RunConfig
from gnomon.engines.base import Engine
from gnomon.engines.embedded import Embedded
from gnomon.envs.base import Env
from gnomon.errors import ConfigError
from gnomon.launch.makers.learner import make_precision
from gnomon.launch.makers.workers import make_workers
from gnomon.learners.base import Learner
from gnomon.models.folder import model_folder
from gnomon.models.past import Past
from gnomon.models.policy import Policy
from gnomon.models.tokenizer import Tokenizer
from gnomon.objectives import Data, Objective
from gnomon.rendering import Renderer
from gnomon.rollout.actor import Actor, Limits
from gnomon.rollout.demonstrations import Mixed, Teacher
from gnomon.rollout.feedback import Conditioned
from gnomon.rollout.opponents import Opponents
from gnomon.rollout.refill import Refilled
from gnomon.rollout.splice import Splicer
from gnomon.rollout.uncertain import Uncertain
from gnomon.types import Sampling

__all__ = ["make_actor"]

COLLECTORS: dict[Data, Callable[..., Actor]] = {
    Data.SAMPLED: Actor,
    Data.DEMONSTRATED: Teacher,
    Data.MIXED: Mixed,
    Data.SPLICED: Splicer,
}
"""Who collects what an objective trains on, unless a setting changes it."""


def make_actor(
    config: RunConfig,
    env: Env,
    row: Objective,
    engine: Engine,
    tokenizer: Tokenizer,
    renderer: Renderer,
    learner: Learner,
    *,
    played: Env,
) -> Actor:
    """Args: played: the environment that the workers play; `env` may hold only some of its tasks."""
    return collector(config, row, learner)(
        env,
        tokenizer,
        engine,
        group=config.rollout.group,
        sampling=make_sampling(config),
        renderer=renderer,
        workers=make_workers(config, played),
        limits=make_limits(config),
    )


def make_sampling(config: RunConfig) -> Sampling:
    rollout = config.rollout
    return Sampling(max_tokens=rollout.max_tokens, temperature=rollout.temperature, stop=tuple(rollout.stop))


def make_limits(config: RunConfig) -> Limits:
    return Limits(
        turns=config.rollout.turns or None,
        context=config.rollout.context,
        seconds=config.rollout.seconds,
        failures=config.workers.failures,
    )


def collector(config: RunConfig, row: Objective, learner: Learner) -> Callable[..., Actor]:
    """The class of the actor, with what the settings say of it."""
    if config.players.opponent:
        return opposed(config, row, make_past(config))
    if row.data is Data.CONDITIONED:
        offline = round(config.rollout.offline * config.budget.steps)
        return partial(Conditioned, base=learner.publish().copied(), offline=offline)
    if row.data is Data.SAMPLED and config.rollout.refill:
        shared = config.players.baseline == "shared"
        return partial(Refilled, rounds=config.rollout.refill, among=config.rollout.tasks, shared=shared)
    if row.data is Data.SAMPLED and config.rollout.candidates > 1:
        return partial(Uncertain, candidates=config.rollout.candidates, among=config.rollout.tasks)
    return COLLECTORS[row.data]


def make_past(config: RunConfig) -> Past | None:
    """Earlier weights of the policy, where it plays against itself."""
    if config.players.opponent != "past":
        return None
    return Past(every=config.players.every, keep=config.players.keep)


def opposed(config: RunConfig, row: Objective, past: Past | None) -> Callable[..., Actor]:
    """An actor whose policy plays one seat against an opponent. Raises: ConfigError E182, E180."""
    if row.data is not Data.SAMPLED or config.rollout.refill or config.rollout.candidates > 1:
        raise ConfigError(
            "E182",
            f"{row.name} also trains on replies that the policy did not sample, which excludes an opponent",
            where="players.opponent",
            fix="objective=rae, without rollout.refill and rollout.candidates",
        )
    folder = model_folder(config.policy.path if past is not None else config.players.opponent)
    opponent = Policy.load(folder, make_precision(config).alone)
    require_same_tokens(model_folder(config.policy.path), folder)
    return partial(Opponents, opponent=Embedded(opponent), past=past)


def require_same_tokens(ours: Path, theirs: Path) -> None:
    """Raises: ConfigError E180, where two policies have not the same tokens."""
    if (ours / "tokenizer.json").read_bytes() != (theirs / "tokenizer.json").read_bytes():
        raise ConfigError(
            "E180",
            "the policy and its opponent have different tokenizers",
            where=f"{ours} and {theirs}",
            why="a game is stored as tokens, which each tokenizer would decode to different text",
            fix="use policies that were trained from the same base",
        )
