"""One process: make the parts of a run, and run it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from gnomon.config import RunConfig, recorded, resolve, to_toml
from gnomon.engines.base import Engine, Tier
from gnomon.engines.embedded import Embedded, Progress, unseen
from gnomon.envs.base import Env, confined
from gnomon.keys import Key
from gnomon.launch.data import require_same_data
from gnomon.launch.exactness import reasons, tolerated
from gnomon.launch.find import check_env_config, make_env
from gnomon.launch.interrupt import gentle_interrupt
from gnomon.launch.loops import finished
from gnomon.launch.makers import (
    make_actor,
    make_engine,
    make_learner,
    make_objective,
    make_schedule,
    make_tasks,
    measured,
)
from gnomon.launch.manifest import changes, manifest, opening
from gnomon.launch.objects import require_same_object
from gnomon.launch.paths import anchored
from gnomon.launch.preflight import audited
from gnomon.launch.trust import signature
from gnomon.launch.weights import weigh
from gnomon.learners.base import Learner
from gnomon.monitoring.alarms import Monitor
from gnomon.objectives import Objective
from gnomon.rates import rates
from gnomon.rendering import Renderer, choose
from gnomon.rollout.actor import Actor
from gnomon.rollout.credit import Crediting
from gnomon.store import Record, Run, RunReader
from gnomon.store.layout import RECIPE
from gnomon.training import Recorder, Watch, evaluate, train
from gnomon.training.evaluate import Evaluation
from gnomon.training.loop import first
from gnomon.training.schedule import Schedule

__all__ = ["Parts", "build", "measure", "numerics", "resume", "sampler", "start"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the page takes."""

    env: Env
    """What is trained on; it may hold only some tasks of the environment."""
    actor: Actor
    learner: Learner
    objective: Objective
    credit: Crediting
    schedule: Schedule
    mismatch: float
    """Largest difference between a sampled and a scored log-probability, measured before the run."""

    @property
    def engine(self) -> Engine:
        return self.actor.engine


def build(config: RunConfig, env: Env | None = None, progress: Progress = unseen) -> Parts:
    """The parts of a run, each with its own copy of the policy."""
    torch.set_num_threads(config.threads)
    env = make_env(config.env) if env is None else env
    confined(env)
    engine, renderer, mismatch = sampler(config, env, progress)
    row = make_objective(config)
    tasks = make_tasks(config, env, row)
    learner = make_learner(config, row)
    tokenizer = engine.policy.tokenizer
    actor = make_actor(
        config, tasks, row, engine=engine, tokenizer=tokenizer, renderer=renderer, learner=learner, played=env
    )
    return Parts(
        env=tasks,
        actor=actor,
        learner=learner,
        objective=row,
        credit=Crediting(row, shared=config.players.baseline == "shared"),
        schedule=make_schedule(config),
        mismatch=mismatch,
    )


def sampler(config: RunConfig, env: Env, progress: Progress = unseen) -> tuple[Embedded, Renderer, float]:
    """The engine, how conversations become its tokens, and the largest difference between it and the learner."""
    engine = make_engine(config, progress)
    renderer = choose(engine.policy.tokenizer, config.policy.renderer, turns=env.max_turns)
    return engine, renderer, measured(engine, renderer, env, config)


def start(folder: Path, config: RunConfig, watch: Watch, env: Env | None = None) -> RunReader:
    """Run a configuration in a new folder, to its end or until it is told to stop."""
    env = make_env(config.env) if env is None else env
    config = anchored(config, env)
    announce(config, env, watch)
    parts = build(config, env, watch.progress)  # Before the audit, which takes longer.
    try:
        receipt = audited(config, env, watch)
    except BaseException:
        parts.actor.workers.close()
        raise
    recipe, tier = to_toml(config), parts.engine.tier
    facts = manifest(config, env, tier=tier.value, mismatch=parts.mismatch)
    facts |= {"audit": receipt, "signed": signature(recipe)}
    why = "; ".join(reasons(config, env, tier))
    store = Run.create(folder, recipe=recipe, manifest=facts, genesis=opening(config, env), varies=why)
    try:
        with store:
            go(store, config, parts, watch)
    except BaseException:
        store.discard_unused()
        raise
    return RunReader(folder)


def announce(config: RunConfig, env: Env, watch: Watch) -> None:
    """What a person should know before anything is computed."""
    for sentence in getattr(env, "remarks", ()):
        watch.message(f"Data: {sentence}")
    watch.message(weigh(env, config.audit.acknowledge))
    usual = rates(config.policy.path)
    watch.message(f"Learning rate {config.optim.lr:g}: {usual.why if config.optim.lr == usual.policy else 'as set'}.")


def resume(folder: Path, watch: Watch, env: Env | None = None, *, accept_divergence: bool = False) -> RunReader:
    """Go on with a run from its newest good checkpoint.

    An exact run must repeat every byte that it recorded after the checkpoint. A run that varies, and any run with
    `accept_divergence`, keeps what it does not repeat as an attempt and goes on.
    Raises: RunError E403 for an exact run that does not repeat what it recorded.
    """
    reader = RunReader(folder)
    if reader.complete:
        watch.message(f"{folder} is finished; there is nothing to resume.")
        return RunReader(folder)
    config, _ = resolve([recorded(folder / RECIPE)], [check_env_config] if env is None else [])
    if env is None:
        env = make_env(config.env)
    else:
        require_same_object(env, config.env, folder)
    require_same_data(config, env, reader.manifest.get("data", {}), folder)
    with Run.resume(folder) as store:
        parts = build(config, env, watch.progress)
        now = manifest(config, env, tier=parts.engine.tier.value, mismatch=parts.mismatch)
        store.tolerate = tolerated(reader, config, env, now, accept_divergence)
        store.rewind(0)
        store.append([Record(kind="genesis", body=opening(config, env))])  # E403 if recipe or model have changed.
        for difference in changes(reader.manifest, now):
            watch.message(f"Not as when the run began: {difference}.")
        go(store, config, parts, watch)
    return RunReader(folder)


def measure(config: RunConfig, progress: Progress = unseen) -> Evaluation:
    """The policy's evaluation on held-out tasks."""
    parts = build(config, progress=progress)
    parts.engine.load(parts.learner.publish())
    held_out = first(parts.env.tasks("test"), config.eval.tasks)
    return finished(evaluate(parts.actor, held_out, Key(config.seed).at("eval"), config.eval))


def go(store: Run, config: RunConfig, parts: Parts, watch: Watch) -> None:
    sentinel = getattr(parts.env, "sentinel", None)
    recorder = Recorder(store, config, watch, Monitor(parts.env.tasks("train").__getitem__, sentinel))
    watch.message(numerics(parts.engine.tier, parts.mismatch))
    with gentle_interrupt(recorder):
        page = train(
            config,
            env=parts.env,
            actor=parts.actor,
            learner=parts.learner,
            objective=parts.objective,
            credit=parts.credit,
            schedule=parts.schedule,
            run=recorder,
        )
        finished(page)


def numerics(tier: Tier, mismatch: float) -> str:
    """What was measured before the run, for its reader."""
    if tier is Tier.EXACT:
        return "Tier exact: log-probabilities of sampler and learner are equal in every bit."
    return (
        f"Tier measured: log-probabilities of sampler and learner differ by up to {mismatch:.2g}. "
        "This run does not require equal bits; every step records its largest difference (docs/numerics.md)."
    )
