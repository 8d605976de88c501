"""Earlier groups in the place of sampled ones: which objectives can learn from them, and which runs can be replayed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Any

from gnomon.config import RunConfig, recorded_recipe, resolve
from gnomon.envs import offers
from gnomon.envs.base import Env
from gnomon.errors import ConfigError
from gnomon.models.folder import model_folder
from gnomon.objectives import Data, Need, Objective, OffPolicy
from gnomon.rollout.batches import Batches
from gnomon.rollout.replay import Replay
from gnomon.store import RecordedGroups, RunReader, RunStatus
from gnomon.store.layout import RECIPE
from gnomon.types import Task

__all__ = ["ON_POLICY", "config_of", "groups_of", "make_replay", "replayed_tasks", "require_replay", "task_at"]

ON_POLICY = "replay.on_policy"
"""What `audit.acknowledge` names to train an objective that does not correct for the sampler."""
SAME = ("group", "max_tokens", "stop", "turns", "context")
"""Settings of `rollout` that a recorded run must share: they decide what a rollout is."""


def require_replay(config: RunConfig, env: Env, row: Objective) -> None:
    """Raises: ConfigError E078 for an objective that cannot learn from earlier rollouts, E165 for one that cannot learn
    from continuations, E079 for a run whose rollouts are not those of this environment, tokenizer and group size, E166
    for one without failed replies; RunError E404 where there is no run.
    """
    rollout = config.rollout
    replayed = objective_problems(config, row) if rollout.replay else ()
    continued = continuation_problems(env, row) if rollout.failure_prefix else ()
    for problem in chain(replayed, continued, source_problems(config, env)):
        raise problem


def objective_problems(config: RunConfig, row: Objective) -> Iterator[ConfigError]:
    """Why an objective cannot learn from earlier rollouts.

    With one update per step, the ratio compares the policy with the sampler that was recorded. With several, it
    compares the policy with the one that the step began with, and only a correction compares that with the sampler.
    """
    if row.data is not Data.SAMPLED:
        yield ConfigError(
            "E078",
            f"{row.name} cannot be trained on earlier rollouts",
            where="rollout.replay",
            why="it trains on replies that are shown, changed or asked for in a way of its own",
            fix="objective=topr, or rollout.replay=0",
        )
    several = config.optim.updates > 1
    correction = row.mismatch if several else row.mismatch_of_one_update
    if correction is OffPolicy.ON_POLICY and not row.any_sampler and ON_POLICY not in config.audit.acknowledge:
        fixes = ["objective=topr"]
        if several and row.off_policy is not OffPolicy.ON_POLICY:
            fixes = ["optim.epochs=1 optim.minibatches=1"]
        yield ConfigError(
            "E078",
            f"{row.name} does not correct for rollouts of an earlier policy"
            + (", with several updates per step" if several else ""),
            where="rollout.replay",
            why="its gradient would be that of the policy that sampled, and not the declared one",
            fix=f"{fixes[0]}; to train it regardless: 'audit.acknowledge=[\"{ON_POLICY}\"]'",
        )


def continuation_problems(env: Env, row: Objective) -> Iterator[ConfigError]:
    """Why failed replies cannot be continued in an environment, or with an objective."""
    if env.max_turns != 1 or offers.players(env) != 1:
        yield ConfigError(
            "E165",
            "rollout.failure_prefix supports one turn and one player only",
            where=type(env).__name__,
            why="the environment could not be brought to the state in which a later reply was given",
            fix="rollout.failure_prefix=0, or an environment of one turn",
        )
    if row.data is not Data.SAMPLED or row.asks & {Need.VISITS, Need.BASELINE}:
        yield ConfigError(
            "E165",
            f"rollout.failure_prefix cannot be used with {row.name}",
            where="rollout.failure_prefix",
            why="it compares rewards with those of earlier visits, and a continuation is rewarded for another prompt"
            if row.data is Data.SAMPLED
            else "it trains on replies that are shown, changed or asked for in a way of its own",
            fix="objective=rloo, or rollout.failure_prefix=0",
        )


def source_problems(config: RunConfig, env: Env) -> Iterator[ConfigError]:
    """Why the rollouts of the recorded run cannot be those of this run."""
    if not config.rollout.recorded:
        return
    folder = Path(config.rollout.recorded)
    with RunReader(folder) as reader:
        status, imported, genesis = reader.status, reader.import_format, reader.genesis

    def problem(what: str, why: str, fix: str) -> ConfigError:
        return ConfigError("E079", what, where=f"rollout.recorded = {folder}", why=why, fix=fix)

    if imported:
        why = "an imported log does not say how its rollouts were sampled"
        yield problem("imported rollouts cannot be replayed", why, "use a run of gnomon train")
        return
    if status is RunStatus.RUNNING:
        why = "its groups would depend on the time at which this run reads them"
        yield problem("the recorded run is still running", why, "wait for its end, or stop it with Ctrl-C")
        return
    before = config_of(folder)
    if differing := list(differences(config, env, before, genesis)):
        name, was, now = differing[0]
        yield problem(
            f"the recorded run has {name} = {was!r:.60}, and this run {now!r:.60}",
            "its tokens and verdicts would mean something else here",
            f"{name} as in {folder / RECIPE}, or rollout.replay=0",
        )
        return
    source, count = groups_of(config, env), replayed_tasks(config)
    steps = source.steps()
    tasks = [task for task in steps if not config.rollout.tasks or task in config.rollout.tasks]
    if len(tasks) < count:
        yield problem(
            f"the recorded run has groups of {len(tasks)} tasks, and a step replays {count}",
            "the tasks of a step are different ones",
            f"rollout.prompts={max(1, int(len(tasks) / config.rollout.replay))}",
        )
        return
    if config.rollout.failure_prefix and not source.wrong():
        yield ConfigError(
            "E166",
            "the recorded run has no failed reply",
            where=f"rollout.recorded = {folder}",
            fix="rollout.failure_prefix=0, or a run with harder tasks or more rollouts",
        )
        return
    if not config.rollout.replay:
        return
    first = source.read(next(iter(steps[tasks[0]])), tasks[0])
    if any(isnan(logp) for g in first for r in g.rollouts for turn in r.turns for logp in turn.completion.logprobs):
        why = "their log-probabilities are not known, so nothing could correct for who wrote them"
        yield problem("the recorded rollouts were not sampled", why, "use a run that trained on sampled rollouts")


def differences(
    config: RunConfig, env: Env, before: RunConfig, genesis: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Settings that decide what a rollout is, with their values in the recorded run and in this one."""
    from gnomon.run.manifest import hashes, opening  # It imports the makers, and they this module.

    here, there = opening(config, env), genesis
    yield from differing("env", there["config"]["env"], here["config"]["env"])
    for name in SAME if config.rollout.replay else SAME[1:]:
        yield from differing(f"rollout.{name}", getattr(before.rollout, name), getattr(config.rollout, name))
    yield from differing("players.opponent", before.players.opponent, config.players.opponent)
    yield from differing("policy.renderer", before.policy.renderer, config.policy.renderer)
    tokenizer = hashes(model_folder(config.policy.path)).get("tokenizer.json")
    yield from differing("the tokenizer of policy.path", there["policy"].get("tokenizer.json"), tokenizer)


def differing(name: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    if was != now:
        yield name, was, now


def make_replay(config: RunConfig, env: Env, batches: Batches) -> Batches:
    """The batches, with earlier groups among them where the settings ask for any."""
    if not config.rollout.replay:
        return batches
    source = groups_of(config, env) if config.rollout.recorded else None
    return Replay(batches, replayed_tasks(config), recorded=source, among=config.rollout.tasks)


def replayed_tasks(config: RunConfig) -> int:
    """Tasks of a step that are earlier ones."""
    return round(config.rollout.replay * config.rollout.prompts)


def groups_of(config: RunConfig, env: Env) -> RecordedGroups:
    """The groups of the recorded run, with the tasks of the environment."""
    folder = Path(config.rollout.recorded)
    return RecordedGroups(folder, config_of(folder).seed, partial(task_at, env))


def config_of(folder: Path) -> RunConfig:
    return resolve([recorded_recipe(folder / RECIPE)])[0]


def task_at(env: Env, split: str, index: int) -> Task:
    return env.tasks(split)[index]
