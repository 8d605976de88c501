"""One process: make the parts of a run, and run it."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import gnomon
from gnomon.config import RunConfig, Source, resolve, to_toml
from gnomon.config.choices import sentences
from gnomon.config.placement import EngineKind, LearnerPlace
from gnomon.engines.base import Engine, Grouping, Tier
from gnomon.engines.remote import RemoteEngine
from gnomon.envs import offers
from gnomon.envs.agent import Agent, launch_of
from gnomon.envs.base import Env, confined
from gnomon.keys import Key
from gnomon.learners.base import Closing, Learner
from gnomon.learners.credit import Crediting
from gnomon.models.folder import model_folder, table
from gnomon.models.tokenizer import Tokenizer
from gnomon.objectives import Objective
from gnomon.rendering import Proven, Renderer, choose
from gnomon.rendering.choose import departure
from gnomon.rollout.actor import Actor, Progress, unseen
from gnomon.rollout.batches import Batches
from gnomon.rollout.continuing import FailurePrefixes
from gnomon.rollout.conversation import beginning
from gnomon.rollout.finished import Kept
from gnomon.rollout.order import TaskOrder
from gnomon.rollout.programs import require_program
from gnomon.rollout.replay import Replay
from gnomon.run.data import require_same_data
from gnomon.run.display import Console, Guarded, Phase, Teller, no_phase
from gnomon.run.exactness import reasons, tolerated
from gnomon.run.extension import Extension, extension, genesis_settings
from gnomon.run.find import check_env_config, make_env
from gnomon.run.hub_models import pinned
from gnomon.run.interrupt import gentle_interrupt
from gnomon.run.loops import finished
from gnomon.run.losses import Losing, Losses
from gnomon.run.makers import (
    engine_facts,
    make_actor,
    make_batches,
    make_credit,
    make_engine,
    make_in_flight,
    make_learner,
    make_objective,
    make_observers,
    make_order,
    make_schedule,
    make_tasks,
    make_workers,
    measured,
)
from gnomon.run.makers.cluster import make_cluster_learner, make_fleet
from gnomon.run.makers.engine import alternating, share_base
from gnomon.run.makers.held_out import close_sets, make_sets
from gnomon.run.makers.policy import attention_of, with_attention
from gnomon.run.makers.served import make_served
from gnomon.run.makers.tinker import make_tinker_learner
from gnomon.run.manifest import changes, manifest, opening
from gnomon.run.memory import memory_errors
from gnomon.run.mismatch_advice import finer
from gnomon.run.objects import require_same_object
from gnomon.run.passed import NOTHING, Passed, require_passed, source_of
from gnomon.run.paths import anchored
from gnomon.run.preflight import audited
from gnomon.run.prompt_tokens import without_room
from gnomon.run.ranks import start_ranks
from gnomon.run.recorded_runs import require_replay
from gnomon.run.reward_weights import weigh
from gnomon.run.token_budgets import require_token_budgets
from gnomon.run.trust import signature, unsigned
from gnomon.store import Observer, Record, Recorded, RecordedGroups, Run, RunReader, RunStatus
from gnomon.training import Evaluation, EvaluationSet, Recorder, evaluate, first, train
from gnomon.training.schedule import Schedule
from gnomon.types import EMPTY, Task

if TYPE_CHECKING:
    from gnomon_ray.fleet import RayFleet

__all__ = [
    "Parts",
    "build",
    "built",
    "create",
    "here",
    "make_trainer",
    "measure",
    "numerics",
    "resume",
    "sampler",
    "start",
]


SAME = Source({}, {})
"""No other settings."""
REGISTERED = ("prediction", "study")
"""SHA-256 of what was registered before the run began; the first record holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the page takes."""

    env: Env
    """What is trained on; it may hold only some tasks of the environment."""
    actor: Actor
    batches: Batches
    order: TaskOrder
    learner: Learner
    objective: Objective
    credit: Crediting
    schedule: Schedule
    mismatch: float | None
    """Largest difference between a sampled and a scored log-probability, measured before the run; None for an engine
    that was passed as an object, which declares its tier."""
    fleet: RayFleet | None = None
    """The samplers in a cluster, if there are any."""
    sets: list[EvaluationSet]
    """The evaluations beside the main one."""

    @property
    def engine(self) -> Engine:
        return self.actor.engine


def build(
    config: RunConfig,
    env: Env | None = None,
    progress: Progress = unseen,
    passed: Passed = NOTHING,
    *,
    phase: Phase = no_phase,
) -> Parts:
    """The parts of a run, each with its own copy of the policy. Args: passed: parts that exist already."""
    torch.set_num_threads(config.threads)
    if gnomon.SPINNING and config.threads > 1:
        warnings.warn(
            "torch was imported before gnomon, so its threads spin while they wait: on a busy machine, a step can "
            "take 27 times as long. Import gnomon first, or set OMP_WAIT_POLICY=passive in the environment",
            stacklevel=2,
        )
    config = with_attention(config)
    env = make_env(config.env) if env is None else env
    confined(env)
    tokenizer = Tokenizer(model_folder(config.policy.path))
    asked = config.rollout.judged_by == "policy"  # The question about a reply is one more turn.
    renderer = choose(tokenizer, config.policy.renderer, turns=env.max_turns + asked)
    row = make_objective(config, passed.objective)
    require_token_budgets(config, env, row)
    tasks = make_tasks(config, env, row)
    if env.max_turns == 1:  # A prompt that the renderer refuses is refused before anything is made.
        beginning(env, renderer)(tasks.tasks("train")[0].messages)
    require_replay(config, tasks, row)
    with phase("loading the policy"):
        learner = passed.learner or make_trainer(config, row)
    with ExitStack() as undo:
        if not passed.learner:
            undo.callback(close, learner)
        fleet = make_fleet(config, env, tasks) if config.placement.samplers else None
        if fleet:
            undo.callback(fleet.close)
        with phase("comparing sampler and learner"):
            engine, mismatch = (
                (passed.engine, None) if passed.engine else sampler(config, env, renderer, learner, fleet)
            )
        if not passed.engine:
            undo.callback(engine.close)
        share_base(engine, learner)
        learner = alternating(learner, engine)
        if config.rollout.in_flight and not passed.engine:
            engine = make_in_flight(engine)
        workers = make_workers(config, env)
        undo.callback(workers.close)
        order = make_order(config, tasks, tokenizer, passed.curriculum)
        actor = make_actor(
            config,
            tasks,
            row,
            engine,
            tokenizer,
            renderer,
            learner,
            workers=workers,
            order=order,
            progress=progress,
        )
        batches = make_batches(config, tasks, row, actor, learner, order)
        credit = make_credit(config, tasks, row, renderer)
        sets = make_sets(config, env, actor)
        undo.pop_all()
    return Parts(
        env=tasks,
        actor=actor,
        batches=batches,
        order=order,
        learner=learner,
        objective=row,
        credit=credit,
        schedule=make_schedule(config),
        mismatch=mismatch,
        fleet=fleet,
        sets=sets,
    )


def make_trainer(config: RunConfig, row: Objective) -> Learner:
    """The learner of the settings: in this process or processes of its own, in a cluster, on a server or a service."""
    match config.placement.learner:
        case LearnerPlace.SERVER:
            return make_served(config)
        case LearnerPlace.SERVICE:
            return make_tinker_learner(config, row)
        case LearnerPlace.CLUSTER:
            return make_cluster_learner(config, row)
        case _:
            return start_ranks(config, row) if config.ranks else make_learner(config, row)


def here(config: RunConfig) -> RunConfig:
    """The settings with learner and sampler in this process."""
    launch = config.launch.model_copy(update={"type": "local"})
    engine = config.engine.model_copy(
        update={"type": "embedded"} if config.placement.engine is EngineKind.SERVICE else {}
    )
    return config.model_copy(update={"learner": "local", "ranks": 0, "launch": launch, "engine": engine})


def close(learner: Learner) -> None:
    """End the processes of a learner that has any."""
    if isinstance(learner, Closing):
        learner.close()


@contextmanager
def built(
    config: RunConfig,
    env: Env | None = None,
    progress: Progress = unseen,
    passed: Passed = NOTHING,
    *,
    phase: Phase = no_phase,
) -> Iterator[Parts]:
    """The parts of a run while it lasts. An engine and a learner that were made for it are closed at the end."""
    parts = build(config, env, progress, passed, phase=phase)
    try:
        yield parts
    finally:
        parts.batches.close()
        close_sets(parts.sets, parts.actor)
        if passed.engine is None:
            parts.engine.close()
        if parts.fleet is not None:
            parts.fleet.close()
        if passed.learner is None:
            close(parts.learner)


def sampler(
    config: RunConfig, env: Env, renderer: Renderer, learner: Learner, fleet: RayFleet | None = None
) -> tuple[Engine, float]:
    """The engine, and the largest difference in log-probability between it and the learner."""
    engine = make_engine(config, learner) if fleet is None else RemoteEngine(fleet)
    try:
        return engine, measured(engine, alternating(learner, engine), renderer, env, config)
    except BaseException:
        engine.close()
        raise


def start(
    folder: Path,
    config: RunConfig,
    console: Console,
    env: Env | None = None,
    passed: Passed = NOTHING,
    *,
    genesis: Mapping[str, Any] = EMPTY,
) -> RunReader:
    """Run a configuration in a new folder, until its end or a stop request.

    Args: genesis: additional fields of the first record, which determines the whole run.
    """
    require_passed(config, passed, folder)
    env = make_env(config.env) if env is None else env
    config = anchored(config, env)
    fixed = pinned(config)
    teller = Guarded(console)
    announce(config, env, teller)
    with built(fixed, env, teller.progress, passed, phase=teller.phase) as parts:  # Before the audit: it takes longer.
        if parts.objective.observation and 1 in (env.max_turns, config.rollout.turns):
            teller.message(f"{parts.objective.name}: in episodes of one turn there are no observations to train on.")
        try:
            with teller.phase("auditing the verifier"):
                receipt = audited(config, env, teller)
        except BaseException:
            parts.actor.workers.close()
            raise
        with teller.phase("recording code, data and policy"):
            store = create(folder, config, parts, env, {"audit": receipt, "objects": source_of(passed)}, genesis)
        try:
            with store:
                go(store, fixed, parts, console, passed.observers)
        except BaseException:
            store.discard_unused()
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
    known = manifest(config, env, tier=tier.value, mismatch=parts.mismatch) | engine_facts(parts.engine)
    known |= {"signed": signature(recipe), **format_facts(parts.actor.renderer), **facts}
    why = "; ".join(reasons(config, env, tier))
    return Run.create(folder, recipe=recipe, manifest=known, genesis={**opening(config, env), **genesis}, varies=why)


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
        reward = weigh(env, config.audit.acknowledge)
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


def resume(
    folder: Path,
    console: Console,
    env: Env | None = None,
    passed: Passed = NOTHING,
    *,
    accept_divergence: bool = False,
    ranks: int | None = None,
    learner: str = "",
    launch: Mapping[str, Any] = EMPTY,
    settings: Source = SAME,
) -> RunReader:
    """Go on with a run from its newest good checkpoint.

    An exact run must repeat every byte that it recorded after the checkpoint. A run that varies, and any run with
    `accept_divergence`, keeps what it does not repeat as an attempt and goes on.

    Args:
        ranks, learner, launch: in the place of those in the recipe: where the parts are does not change the run.
        settings: that change from here on, as `extension` lets them.
    Raises: RunError E403 for an exact run that does not repeat what it recorded; as `extension`.
    """
    reader, teller = RunReader(folder), Guarded(console)
    other = extension(reader, settings, [check_env_config] if env is None else [])
    if reader.complete and not other.recipe:
        more = f"gnomon resume {shlex.quote(str(folder))} steps={2 * max(1, reader.steps)}"
        teller.message(f"{folder} is finished; there is nothing to resume. To extend it: {more}")
        return RunReader(folder)
    supplied = {"ranks": ranks, "learner": learner, "launch": dict(launch)}
    elsewhere = {name: value for name, value in supplied.items() if value}
    places = {name: f"the command line: --{name} {value}" for name, value in elsewhere.items()}
    config, _ = resolve([Source(other.config.model_dump(), {}), Source(elsewhere, places)])
    began = reader.genesis["config"]["policy"].get("attention", "exact")  # `auto` may be another one on this machine.
    config = config.model_copy(update={"policy": config.policy.model_copy(update={"attention": began})})
    require_passed(config, passed, folder)
    if env is None:
        env = make_env(config.env)
    else:
        require_same_object(env, config.env, folder)
    require_same_data(config, env, reader.manifest.get("data", {}), folder)
    with Run.resume(folder) as store, built(config, env, teller.progress, passed, phase=teller.phase) as parts:
        now = manifest(config, env, tier=parts.engine.tier.value, mismatch=parts.mismatch) | engine_facts(parts.engine)
        store.tolerate = tolerated(reader, config, env, now, accept_divergence)
        store.rewind(0)
        first = opening(genesis_settings(reader, other.before, config), env)
        first |= {name: reader.genesis[name] for name in REGISTERED if name in reader.genesis}
        store.append([Record(kind="genesis", body=first)])  # E403 if recipe or model have changed.
        if other.recipe:
            signed = "" if unsigned(reader, config) else signature(other.recipe)
            store.extend(other.body, other.recipe, {"signed": signed})
            teller.message(f"Extended: {other.text}.{rate_text(other, reader.steps)}")
        if parts.engine.tier is Tier.MEASURED:
            for actor in (parts.actor, *parts.batches.actors, *(each.actor for each in parts.sets)):
                actor.earlier = Recorded(folder, partial(task_at, actor.env), store.note)
        for difference in changes(reader.manifest, now | {"objects": source_of(passed)}):
            store.unfinished.clear()
            teller.message(f"Not as when the run began: {difference}.")
        go(store, config, parts, console, passed.observers)
    return RunReader(folder)


def rate_text(other: Extension, done: int) -> str:
    """The last finished step whose learning rate would be another with this number of steps; empty if there is none."""
    steps, updates = other.config.budget.steps, other.config.optim.updates
    before, now = make_schedule(other.before), make_schedule(other.config)
    differs = (update for update in range(done * updates, 0, -1) if before(update) != now(update))
    if not (update := next(differs, 0)):
        return ""
    return (
        f" The learning rate decays until the last step: in step {(update - 1) // updates} it was "
        f"{before(update):.3g} instead of {now(update):.3g}. So the run differs from one that began with {steps} steps."
    )


def task_at(env: Env, split: str, index: int) -> Task:
    return env.tasks(split)[index]


def measure(
    config: RunConfig, progress: Progress = unseen, phase: Phase = no_phase, env: Env | None = None
) -> dict[str, Evaluation]:
    """The policy's evaluation on held-out tasks, under an empty name, and those of the evaluation sets.

    Nothing is trained, so the learner is in this process.
    """
    key = Key(config.seed)
    with built(here(config), env, progress, phase=phase) as parts:
        parts.engine.load(parts.learner.publish())
        held_out = first(parts.env.tasks("test"), config.eval.tasks)
        main = finished(evaluate(parts.actor, held_out, key.at("eval"), config.eval))
        return {"": main, **{each.name: finished(each.evaluate(key, parts.actor)) for each in parts.sets}}


def go(store: Run, config: RunConfig, parts: Parts, console: Console, observers: Sequence[Observer]) -> None:
    """The page, recorded and observed, until it ends or is stopped."""
    tell = Guarded(console).message
    tokenizer = parts.actor.tokenizer
    if there := [part for part in (parts.fleet, parts.learner) if isinstance(part, Losing)]:
        observers = [*observers, Losses(there, tell, store.note)]
    watching = make_observers(
        store, parts.env, parts.objective, tokenizer, console, tell, observers, finer=finer(config)
    )
    recorder = Recorder(store, config, watching, tell)
    for actor in (parts.actor, *parts.batches.actors, *(each.actor for each in parts.sets)):
        actor.finished = Kept(store.unfinished)
    for part in (parts.batches, parts.order):
        if isinstance(part, Replay | FailurePrefixes):
            part.own = RecordedGroups(store.folder, config.seed, partial(task_at, parts.env))
    tell(numerics(parts.engine.tier, parts.mismatch))
    if (format_text := continued(parts.actor.renderer)) and parts.actor.env.max_turns != 1:
        tell(format_text)
    if isinstance(parts.engine, Grouping) and parts.engine.grouping:
        tell(parts.engine.grouping)
    page = train(
        config,
        env=parts.env,
        actor=parts.actor,
        batches=parts.batches,
        order=parts.order,
        learner=parts.learner,
        objective=parts.objective,
        credit=parts.credit,
        schedule=parts.schedule,
        run=recorder,
        sets=parts.sets,
    )
    try:
        with gentle_interrupt(recorder), memory_errors(store.folder):
            finished(page)
    except BaseException as error:
        recorder.ended(RunStatus.FAILED if isinstance(error, Exception) else RunStatus.INTERRUPTED)
        raise


def format_facts(renderer: Renderer) -> dict[str, Any]:
    """For a manifest: what was proven of a chat template that no family knows."""
    return {"chat_template": asdict(renderer.proof)} if isinstance(renderer, Proven) else {}


def continued(renderer: Renderer) -> str:
    """The same, for the reader of a run."""
    if not isinstance(renderer, Proven):
        return ""
    proof = renderer.proof
    rewrites = f" It {', and '.join(proof.rewrites)}: a fork." if proof.rewrites else " It only appends."
    return f"Chat format: the model's template, proven on {proof.shapes} conversations.{rewrites}"


def own_forward(config: RunConfig) -> str:
    """What computes a model whose passes are not packed, for the reader of a run."""
    family = table(model_folder(config.policy.path) / "config.json")["model_type"]
    return (
        f"Model: {family} is computed by the forward pass and the cache of transformers "
        "(policy.attention=transformers): with padded rows, on the tier measured."
    )


def numerics(tier: Tier, mismatch: float | None) -> str:
    """What was measured before the run, for its reader."""
    if mismatch is None:
        return f"Tier {tier.value}, as the engine declares; every step records its largest difference."
    if tier is Tier.EXACT:
        return "Tier exact: log-probabilities of sampler and learner are equal in every bit."
    return (
        f"Tier measured: log-probabilities of sampler and learner differ by up to {mismatch:.2g}. "
        "This run does not require equal bits; every step records its largest difference (docs/numerics.md)."
    )
