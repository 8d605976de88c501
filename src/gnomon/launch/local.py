"""One process: build the parts of a run, and run it."""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from gnomon.audit import Finding, Severity, preflight
from gnomon.config import RunConfig, recorded, resolve, to_toml
from gnomon.engines.base import Tier
from gnomon.engines.embedded import Embedded, Progress, unseen
from gnomon.envs.base import Env, confined
from gnomon.envs.blame import quoted
from gnomon.errors import ConfigError, ConfigErrors, ModelError, NumericsError
from gnomon.keys import Key
from gnomon.launch.data import anchored_data, data_hashes, digest, require_same_data
from gnomon.launch.exactness import reasons, tolerated
from gnomon.launch.find import check_env_config, make_env
from gnomon.launch.loops import finished
from gnomon.launch.objects import OBJECT, require_same_object, source_facts
from gnomon.launch.trial import defined
from gnomon.launch.trust import signature
from gnomon.launch.weights import weigh
from gnomon.learners.critic import Critic
from gnomon.learners.local import LocalLearner
from gnomon.models.folder import model_folder
from gnomon.models.past import Past
from gnomon.models.policy import Policy
from gnomon.models.weights import Weights
from gnomon.monitoring.alarms import Monitor
from gnomon.objectives import Data, Need, Objective, less_overlong, objective, penalties
from gnomon.rates import rates
from gnomon.rendering import Renderer, choose, joined
from gnomon.rollout.actor import Actor, Limits
from gnomon.rollout.demonstrations import Mixed, Teacher, demonstrations
from gnomon.rollout.feedback import Conditioned
from gnomon.rollout.opponents import Opponents
from gnomon.rollout.referee import Referee
from gnomon.rollout.refill import Refilled
from gnomon.rollout.splice import Splicer
from gnomon.rollout.uncertain import Uncertain
from gnomon.sandbox import capabilities
from gnomon.store import Record, Run, RunReader
from gnomon.store.checkpoints import stored
from gnomon.store.layout import RECIPE
from gnomon.training import Recorder, Watch, evaluate, train
from gnomon.training.evaluate import Evaluation
from gnomon.training.loop import first
from gnomon.training.sanity import BAND, OWN, ROLLOUTS, WINDOW, Sanity, answered, gate, solvable
from gnomon.types import Sampling

__all__ = ["Parts", "build", "manifest", "measure", "opening", "resume", "sampler", "sanity", "start"]


PROBES = 6
"""Prompts on which sampler and learner are compared before a run."""


ACTORS: dict[Data, Callable[..., Actor]] = {
    Data.SAMPLED: Actor,
    Data.DEMONSTRATED: Teacher,
    Data.MIXED: Mixed,
    Data.SPLICED: Splicer,
}
"""Who collects what an objective trains on, where no setting has a say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the page is handed."""

    env: Env
    actor: Actor
    learner: LocalLearner
    objective: Objective
    gap: float
    """Largest difference between a sampled and a scored log-probability, measured before the run."""


def build(config: RunConfig, env: Env | None = None, progress: Progress = unseen) -> Parts:
    """The parts of a run, each with its own copy of the policy."""
    torch.set_num_threads(config.threads)
    env = make_env(config.env) if env is None else env
    confined(env)
    engine, renderer, gap = sampler(config, env, progress)
    theirs, folder, dtype = engine.policy, model_folder(config.policy.path), getattr(torch, config.policy.dtype)
    mine = Policy.load(folder)
    sampling = Sampling(
        max_tokens=config.rollout.max_tokens,
        temperature=config.rollout.temperature,
        stop=tuple(config.rollout.stop),
    )
    chosen = config.objective.model_dump()
    row = objective(chosen.pop("type"), **chosen)
    referee = Referee(
        env,
        workers=config.referee.workers,
        seconds=config.referee.seconds,
        memory=config.referee.memory_mib * 2**20,
        retries=config.referee.retries,
    )
    limits = Limits(
        turns=config.rollout.turns or None,
        context=config.rollout.context,
        seconds=config.rollout.seconds,
        failures=config.referee.failures,
    )
    if row.data in (Data.DEMONSTRATED, Data.MIXED):
        env = demonstrations(Path(config.rollout.demonstrations), env)
    past = remembered(config)
    if beyond := [index for index in config.rollout.tasks if index >= len(env.tasks("train"))]:
        raise ConfigError(
            "E040",
            f"the train split has {len(env.tasks('train'))} tasks, and none with index {beyond[0]}",
            where="rollout.tasks",
            fix=f"indices from 0 to {len(env.tasks('train')) - 1}",
        )
    full = config.regularize.kl if config.regularize.estimator == "full" else 0.0
    if config.regularize.kl and not full:
        if row.penalty is not None:
            raise ConfigError(
                "E041",
                f"{row.name} has a pull of its own, which regularize.kl would replace",
                where="regularize.kl",
                fix=f"no regularize.kl with objective={row.name}",
            )
        pull = getattr(penalties, config.regularize.estimator)
        row = replace(row, penalty=pull, penalty_weight=config.regularize.kl)
    if config.regularize.overlong:
        buffer = max(1, round(config.regularize.overlong * sampling.max_tokens))
        row = replace(row, credit=less_overlong(row.credit, max_tokens=sampling.max_tokens, buffer=buffer))
    learner = LocalLearner(
        mine,
        compute=dtype,
        lr=config.optim.lr,
        steps=config.budget.steps * config.optim.updates,
        floor=config.optim.floor,
        warmup=config.optim.warmup,
        clip=config.optim.clip,
        weight_decay=config.optim.weight_decay,
        entropy=config.regularize.entropy,
        full_kl=full,
        reference=Policy.load(folder, dtype) if row.needs_reference or full else None,
        critic=Critic(Policy.load(folder), compute=dtype, lr=config.critic.lr, clip=config.critic.clip)
        if Need.VALUES in row.asks
        else None,
        shared=config.seats.baseline == "shared",
        past=past,
    )
    actor = actor_of(config, row, learner)(
        env,
        theirs.tokenizer,
        engine,
        group=config.rollout.group,
        sampling=sampling,
        renderer=renderer,
        referee=referee,
        limits=limits,
    )
    return Parts(env=env, actor=actor, learner=learner, objective=row, gap=gap)


def sampler(config: RunConfig, env: Env, progress: Progress = unseen) -> tuple[Embedded, Renderer, float]:
    """The engine of a run, with a policy of its own, and how conversations become its tokens.

    Returns: last, the largest difference between a decoded and a scored log-probability, in nats. The engine's tier
        follows from this one measurement. It is not repeated when the difference is not zero: a second one that
        finds nothing does not undo the first.
    Raises: ModelError E306; NumericsError E204, when the difference is no rounding.
    """
    dtype = getattr(torch, config.policy.dtype)
    policy = Policy.load(model_folder(config.policy.path), dtype)
    if not policy.tokenizer.encode("0"):
        raise ModelError("E306", "the tokenizer turns a digit into nothing", where=str(policy.tokenizer.folder))
    engine = Embedded(policy, progress)
    probes = [task for _, task in first(env.tasks("train"), PROBES)]
    renderer = choose(policy.tokenizer, config.policy.renderer, turns=env.max_turns)
    gap = engine.measure([joined(renderer.start(task.messages)) for task in probes])
    bound = 0.05 if dtype == torch.float32 else 0.5
    if not gap <= bound:
        raise NumericsError(
            "E204",
            f"decoding and scoring differ by {gap:.2g} in log-probability",
            where=f"{type(policy.model).__name__} in {config.policy.dtype}",
            why=f"over {bound} is no rounding: the model mixes tokens in a way this engine does not know",
            fix="use a model whose layers are attention and feed-forward only",
        )
    engine.tier = Tier.EXACT if gap == 0.0 else Tier.MEASURED
    return engine, renderer, gap


def actor_of(config: RunConfig, row: Objective, learner: LocalLearner) -> Callable[..., Actor]:
    """Who collects what an objective trains on, with what the settings say of it."""
    if config.seats.opponent:
        return opposed(config, row, learner.past)
    if row.data is Data.CONDITIONED:
        offline = round(config.rollout.offline * config.budget.steps)
        return partial(Conditioned, base=copied(learner.weights()), offline=offline)
    if row.data is Data.SAMPLED and config.rollout.refill:
        shared = config.seats.baseline == "shared"
        return partial(Refilled, rounds=config.rollout.refill, among=config.rollout.tasks, shared=shared)
    if row.data is Data.SAMPLED and config.rollout.candidates > 1:
        return partial(Uncertain, candidates=config.rollout.candidates, among=config.rollout.tasks)
    return ACTORS[row.data]


def copied(weights: Weights) -> Weights:
    """Weights that stay as they are while a learner goes on."""
    return replace(weights, state={name: value.clone() for name, value in weights.state.items()})


def remembered(config: RunConfig) -> Past | None:
    """Where a run keeps the opponents that it makes itself."""
    if config.seats.opponent != "past":
        return None
    return Past(every=config.seats.every, keep=config.seats.keep)


def opposed(config: RunConfig, row: Objective, past: Past | None) -> Callable[..., Actor]:
    """Who plays one seat against an opponent's others."""
    if row.data is not Data.SAMPLED or config.rollout.refill or config.rollout.candidates > 1:
        raise ConfigError(
            "E182",
            f"{row.name} learns from more than what the policy itself sampled, and an opponent sits at no such table",
            where="seats.opponent",
            fix="objective=rae, or another that learns from sampled rollouts, without rollout.refill or candidates",
        )
    folder = model_folder(config.policy.path if past is not None else config.seats.opponent)
    opponent = Policy.load(folder, getattr(torch, config.policy.dtype))
    same_tokens(model_folder(config.policy.path), folder)
    return partial(Opponents, opponent=Embedded(opponent), past=past)


def same_tokens(ours: Path, theirs: Path) -> None:
    """Raises: ConfigError E180, where two policies have not the same tokens."""
    if (ours / "tokenizer.json").read_bytes() != (theirs / "tokenizer.json").read_bytes():
        raise ConfigError(
            "E180",
            "two policies that shall play each other have different tokenizers",
            where=f"{ours} and {theirs}",
            why="a conversation is kept as tokens, and it would not say the same to both",
            fix="policies that were trained from the same base",
        )


def manifest(config: RunConfig, parts: Parts, env: Env) -> dict[str, Any]:
    """What the run stands on: versions, hardware, code, hashes. Beside the chain, for a reader."""
    libraries = ("gnomon", "torch", "transformers", "tokenizers", "numpy", "safetensors", "pydantic")
    return {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in libraries},
        "machine": {
            "system": platform.platform(),
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "isa": torch.backends.cpu.get_cpu_capability(),
        },
        "threads": config.threads,
        "env": source_facts(parts.env, config.env.type),
        "data": data_hashes(config, env),
        "sandbox": capabilities(isolation).body() if (isolation := getattr(env, "isolation", ())) else {},
        "policy": hashes(model_folder(config.policy.path)),
        "code_sha256": code_hash(),
        "tier": parts.actor.engine.tier.value,
        "logp_mismatch": parts.gap,
    }


def start(folder: Path, config: RunConfig, watch: Watch, env: Env | None = None) -> RunReader:
    """Run a configuration in a new folder, to its end or until it is told to stop."""
    env = make_env(config.env) if env is None else env
    config = anchored(config, env)
    for sentence in getattr(env, "remarks", ()):
        watch.message(f"Data: {sentence}")
    watch.message(weigh(env, config.audit.acknowledge))
    usual = rates(config.policy.path)
    watch.message(f"Learning rate {config.optim.lr:g}: {usual.why if config.optim.lr == usual.policy else 'as set'}.")
    parts = build(config, env, watch.progress)  # Before the audit, which takes longer.
    try:
        receipt = audited(config, env, watch)
    except BaseException:
        parts.actor.referee.close()
        raise
    recipe = to_toml(config)
    facts = {**manifest(config, parts, env), "audit": receipt, "signed": signature(recipe)}
    why = "; ".join(reasons(config, parts.env, parts.actor.engine.tier))
    store = Run.create(folder, recipe=recipe, manifest=facts, genesis=opening(config, env), varies=why)
    try:
        with store:
            go(store, config, parts, watch)
    except BaseException:
        store.discard_unused()
        raise
    return RunReader(folder)


def audited(config: RunConfig, env: Env, watch: Watch) -> dict[str, Any]:
    """The receipt of the audit before a run. Raises: ConfigErrors with a finding each, where one blocks."""
    report = preflight(env, acknowledge=config.audit.acknowledge, max_tokens=config.rollout.max_tokens)
    if report.blocking:
        broken = [finding for finding in report.blocking if finding.rule in BROKEN]
        raise ConfigErrors([refused(finding, config.env.type, env) for finding in broken or report.blocking])
    for finding in report.findings:
        if finding.severity is Severity.WARNING:
            watch.message(f"Audit: {finding.rule}: {finding.what}")
    return report.receipt()


BROKEN = ("failure.raised", "failure.no_verdict", "failure.not_finite", "failure.out_of_range", "failure.no_end")
"""Findings that are errors of the code: whatever else was found follows from them, and none is a matter of opinion."""


def refused(finding: Finding, name: str, env: Env) -> ConfigError:
    """A finding that stops a run, as an error; one that may be meant says how to accept it."""
    accept = f"gnomon audit {name} shows it; audit.acknowledge='[\"{finding.rule}\"]' accepts it"
    if name.startswith(OBJECT):
        accept = f'audit={{"acknowledge": ["{finding.rule}"]}} in the call accepts it'
    where = quoted(finding.where) or (defined(env) if name.startswith(OBJECT) else name)
    fix = finding.fix if finding.rule in BROKEN else accept
    return ConfigError("E124", f"{finding.rule}: {finding.what}", where=where, why=finding.why, fix=fix)


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
        now = manifest(config, parts, env)
        store.tolerate = tolerated(reader, config, parts.env, now, accept_divergence)
        store.rewind(0)
        store.append([Record(kind="genesis", body=opening(config, env))])  # E403 if recipe or model have changed.
        for difference in changes(reader.manifest, now):
            watch.message(f"Not as when the run began: {difference}.")
        go(store, config, parts, watch)
    return RunReader(folder)


def anchored(config: RunConfig, made: Env) -> RunConfig:
    """The configuration with the paths of what it reads made absolute: a run resumes from anywhere."""
    config = anchored_data(config, made)
    policy, env = config.policy, config.env
    seats = config.seats
    if seats.opponent not in ("", "past", "tiny"):
        seats = seats.model_copy(update={"opponent": str(Path(seats.opponent).resolve())})
    if policy.path != "tiny":
        policy = policy.model_copy(update={"path": str(Path(policy.path).resolve())})
    file, _, name = env.type.rpartition(":")
    if file.endswith(".py"):
        env = env.model_copy(update={"type": f"{Path(file).resolve()}:{name}"})
    return config.model_copy(update={"policy": policy, "env": env, "seats": seats})


def measure(config: RunConfig, progress: Progress = unseen) -> Evaluation:
    """The policy's evaluation on held-out tasks."""
    parts = build(config, progress=progress)
    parts.actor.engine.load(parts.learner.weights())
    held_out = first(parts.env.tasks("test"), config.eval.tasks)
    return finished(evaluate(parts.actor, held_out, Key(config.seed).at("eval"), config.eval))


def sanity(folder: Path, config: RunConfig, watch: Watch, *, candidates: int, keep: int) -> Sanity:
    """Find tasks that the policy solves sometimes, train on those alone in a new run, and judge its curve.

    What an objective trains on is not always what the policy answers. Where some of it was given, the curve is
    that of its own answers to the same tasks: after the run, and a window of steps before its end.
    Raises: ConfigError E038 when fewer than eight of the candidates are solved sometimes.
    """
    parts = build(config, progress=watch.progress)
    parts.actor.engine.load(parts.learner.weights())
    low, high = BAND
    watch.message(f"Playing {candidates} tasks {ROLLOUTS} times each, to find those solved in {low:.0%} to {high:.0%}.")
    offered = first(parts.env.tasks("train"), candidates)
    found = finished(solvable(parts.actor, offered, Key(config.seed).at("sanity")))
    if len(found) < 8:
        raise ConfigError(
            "E038",
            f"the policy solves only {len(found)} of {candidates} tasks sometimes",
            where=f"{config.env.type} with {config.policy.path}",
            why="an objective cannot be judged on tasks that are always or never solved",
            fix="more candidates with --candidates 1024, an easier env.*, or another policy=",
        )
    kept = sorted(found[:keep])
    chosen = config.rollout.model_copy(update={"tasks": kept})
    given = parts.objective.data in (Data.SPLICED, Data.DEMONSTRATED, Data.MIXED)
    save = config.save.model_copy(update={"every": WINDOW, "keep": 2} if given else {})
    with start(folder, config.model_copy(update={"rollout": chosen, "save": save}), watch) as reader:
        right = [step["metrics"]["correct"] for step in reader.metrics()]
    if given and len(right) >= 2 * WINDOW:
        watch.message(f"Playing the {len(kept)} tasks {OWN} times each: what was trained on was partly given.")
        tasks = parts.env.tasks("train")
        asked, key = [(index, tasks[index]) for index in kept], Key(config.seed).at("sanity", after=len(right))
        last, before = stored(folder)[:2]
        for checkpoint, end in ((before, len(right) - WINDOW), (last, len(right))):
            parts.learner.load_state(checkpoint)
            parts.actor.engine.load(parts.learner.weights())
            right[end - WINDOW : end] = [finished(answered(parts.actor, asked, key))] * WINDOW
    return gate(right, tasks=len(kept), candidates=candidates)


def go(store: Run, config: RunConfig, parts: Parts, watch: Watch) -> None:
    sentinel = getattr(parts.env, "sentinel", None)
    recorder = Recorder(store, config, watch, Monitor(parts.env.tasks("train").__getitem__, sentinel))
    watch.message(numerics(parts.actor.engine.tier, parts.gap))
    with gentle_interrupt(recorder, watch):
        finished(
            train(
                config,
                env=parts.env,
                actor=parts.actor,
                learner=parts.learner,
                objective=parts.objective,
                run=recorder,
            )
        )


def numerics(tier: Tier, gap: float) -> str:
    """What was measured before the run, for its reader."""
    if tier is Tier.EXACT:
        return "Tier exact: log-probabilities of sampler and learner are equal in every bit."
    return (
        f"Tier measured: log-probabilities of sampler and learner differ by up to {gap:.2g}. "
        "This run does not require equal bits; every step records its largest difference (docs/numerics.md)."
    )


@contextmanager
def gentle_interrupt(recorder: Recorder, watch: Watch) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the run after this step, saved; the second ends it now."""

    def handler(number: int, frame: FrameType | None) -> None:
        if recorder.stop:
            raise KeyboardInterrupt
        recorder.stop = True
        os.write(
            2, b"\nStopping after this step. Once more to stop now; gnomon resume goes on from the last checkpoint.\n"
        )

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, was in old.items():
            signal.signal(number, was)


def opening(config: RunConfig, env: Env) -> dict[str, Any]:
    """The first record of a run: the settings that decide its bytes, and the policy it starts from.

    How often to save, what an audit may find, limits of time and the number of processes decide nothing; files are
    known by their hashes, not their paths.
    """
    body = config.model_dump()
    del body["save"], body["audit"], body["budget"]["seconds"], body["policy"]["path"]
    del body["rollout"]["seconds"], body["referee"]["workers"]
    body["env"]["type"] = body["env"]["type"].rpartition("/")[2]
    for setting, known in data_hashes(config, env).items():
        table, _, option = setting.partition(".")
        body[table][option] = known
    if (other := config.seats.opponent) not in ("", "past"):
        body["seats"]["opponent"] = hashes(model_folder(other))
    return {"config": body, "policy": hashes(model_folder(config.policy.path))}


def hashes(folder: Path) -> dict[str, str]:
    """Of every file of a model folder that decides what it computes."""
    names = {"config.json", "generation_config.json", "tokenizer.json"}
    paths = sorted(p for p in folder.iterdir() if p.name in names or p.suffix in (".safetensors", ".bin"))
    return {path.name: digest(path) for path in paths}


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What of a manifest is not what it was."""
    for key, value in now.items():
        if before.get(key) != value:
            yield f"{key} was {before.get(key)} and is {value}"


def code_hash() -> str:
    """One hash over the source of the package, as it is installed."""
    root = Path(sys.modules["gnomon"].__file__ or "").parent
    total = sha256()
    for path in sorted(root.rglob("*.py")):
        total.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
