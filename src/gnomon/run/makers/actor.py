"""The actor: who replies, which groups are trained on, what of them, and under which limits."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.engines.base import Engine, Playing
from gnomon.engines.embedded import Embedded
from gnomon.envs import offers
from gnomon.envs.base import Env
from gnomon.envs.workers import EnvWorkers
from gnomon.errors import ConfigError
from gnomon.learners.base import Learner
from gnomon.learners.credit import Crediting
from gnomon.models.folder import model_folder
from gnomon.models.past import Past
from gnomon.models.policy import Policy
from gnomon.models.tokenizer import Tokenizer
from gnomon.objectives import Data, Need, Objective
from gnomon.rendering import Renderer
from gnomon.rollout.actor import Actor, Progress, no_progress
from gnomon.rollout.continuing import Continuing, FailurePrefixes
from gnomon.rollout.conversation import beginning
from gnomon.rollout.demonstrations import Demonstrated, Shown
from gnomon.rollout.feedback import Asked
from gnomon.rollout.opponents import Against
from gnomon.rollout.order import TaskOrder
from gnomon.rollout.relabel import BehindFeedback, Relabel, WithSolution
from gnomon.rollout.remote_runner import RemoteRunner
from gnomon.rollout.reward import ByMajority, ByPolicy, Reward
from gnomon.rollout.runner import Limits
from gnomon.rollout.select import Candidates, Refill, Selector
from gnomon.rollout.solutions import SolutionShown
from gnomon.rollout.speakers import Own, Speakers
from gnomon.run.makers.engine import probe_bound
from gnomon.run.makers.policy import make_device, make_policy, make_precision
from gnomon.run.makers.sight import refusal_of_images
from gnomon.run.teacher import require_same_tokens
from gnomon.types import Sampling

__all__ = ["make_actor", "make_credit"]


def make_actor(
    config: RunConfig,
    env: Env,
    row: Objective,
    engine: Engine,
    tokenizer: Tokenizer,
    renderer: Renderer,
    learner: Learner,
    *,
    workers: EnvWorkers,
    order: TaskOrder | None = None,
    past: Past | None = None,
    progress: Progress = no_progress,
) -> Actor:
    """Args: workers: they play the environment of which `env` may hold only some tasks; order: of the run's tasks;
    past: earlier weights that the actor which evaluates keeps, for one that samples ahead.
    """
    own, shared = Own(engine, renderer, workers.players), {"renderer": renderer, "tokenizer": tokenizer}
    return Actor(
        env,
        tokenizer,
        engine,
        group=config.rollout.group,
        sampling=make_sampling(config),
        renderer=renderer,
        workers=workers,
        limits=make_limits(config),
        speakers=make_speakers(config, env, row, own, tokenizer, learner, order, past),
        selector=make_selector(config, env),
        reward=make_reward(config, env, engine, renderer),
        relabel=make_relabel(env, row, tokenizer, renderer),
        greedy=Need.GREEDY in row.asks,
        runner=RemoteRunner(engine, shared) if isinstance(engine, Playing) else None,
        progress=progress,
    )


def make_speakers(
    config: RunConfig,
    env: Env,
    row: Objective,
    own: Own,
    tokenizer: Tokenizer,
    learner: Learner,
    order: TaskOrder | None = None,
    past: Past | None = None,
) -> Speakers:
    """Who replies: the policy, and around it what the objective and the settings add.

    Args: past: as in `make_actor`.
    """
    speakers: Speakers = own
    if isinstance(order, FailurePrefixes):
        return Continuing(own, order)
    if row.data is Data.CONDITIONED:
        offline = round(config.rollout.offline * config.budget.steps)
        speakers = Asked(own, base=learner.publish().copy(), offline=offline, praise=offers.praise(env))
    if isinstance(env, Demonstrated):
        speakers = Shown(speakers, env, own.speaker.engine, tokenizer, players=own.players)
    if config.players.opponent:
        ahead = config.ahead if past else 0
        past = past or make_past(config)
        engine, renderer = own.speaker.engine, own.speaker.renderer
        if isinstance(engine, Playing):
            opponent: Engine = engine.opponent(fixed=past is None)
        else:
            embedded = make_opponent(config, past)
            embedded.tier, opponent = engine.tier, embedded  # The learner may compute on another machine.
        speakers = Against(speakers, opponent, renderer, players=own.players, past=past, ahead=ahead)
    return speakers


def make_selector(config: RunConfig, env: Env) -> Selector | None:
    """Which groups are trained on; None for all."""
    offered, among = env.tasks("train"), config.rollout.tasks
    if config.rollout.refill:
        shared = config.players.baseline == "shared"
        return Refill(offered=offered, rounds=config.rollout.refill, among=among, shared=shared)
    if config.rollout.candidates > 1:
        return Candidates(offered=offered, candidates=config.rollout.candidates, among=among)
    return None


def make_reward(config: RunConfig, env: Env, engine: Engine, renderer: Renderer) -> Reward | None:
    """Who decides the rewards; None for the verifier.

    Raises: ConfigError E117 for a game, whose replies are not answers.
    """
    by = config.rollout.judged_by
    if by == "verifier":
        return None
    if offers.players(env) > 1:
        raise ConfigError(
            "E117",
            f"rollout.judged_by={by} cannot be used in a game of several players",
            where=type(env).__name__,
            why="a game has a winner and no right answer",
            fix="rollout.judged_by=verifier",
        )
    if by == "majority":
        return ByMajority()
    return ByPolicy(
        engine=engine,
        begin=beginning(env, renderer),
        renderer=renderer,
        sampling=make_sampling(config),
        judgements=config.rollout.judgements,
        context=config.rollout.context,
    )


def make_relabel(env: Env, row: Objective, tokenizer: Tokenizer, renderer: Renderer) -> Relabel | None:
    """What is trained on in a rollout; None for what was sampled."""
    match row.data:
        case Data.SPLICED:
            return WithSolution(env, tokenizer)
        case Data.CONDITIONED:
            return BehindFeedback(beginning(env, renderer), offers.praise(env))
        case _:
            return None


def make_credit(config: RunConfig, env: Env, row: Objective, renderer: Renderer) -> Crediting:
    """Credit, with the answers that the reference reads. Raises: ConfigError E037 for an environment without any."""
    solution_shown = SolutionShown(env, beginning(env, renderer)) if Need.SOLUTION in row.asks else None
    return Crediting(row, shared=config.players.baseline == "shared", solution_shown=solution_shown)


def make_opponent(config: RunConfig, past: Past | None) -> Embedded:
    """An engine that is never trained. Raises: ConfigError E180."""
    precision = make_precision(config).alone
    if past is not None:
        return Embedded(make_policy(config, precision), bound=probe_bound(config))
    folder = model_folder(config.players.opponent)
    require_same_tokens(model_folder(config.policy.path), folder, "its opponent", "a game is stored as tokens")
    return Embedded(Policy.load(folder, precision, make_device(config.policy.device)))


def make_sampling(config: RunConfig) -> Sampling:
    rollout = config.rollout
    return Sampling(
        max_tokens=rollout.max_tokens,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        stop=tuple(rollout.stop),
        entropy=rollout.entropy,
    )


def make_limits(config: RunConfig) -> Limits:
    blind = refusal_of_images(config)
    return Limits(
        blind=f"{blind.what}; the run needs {blind.fix}" if blind else "",
        turns=config.rollout.turns or None,
        context=config.rollout.context,
        seconds=config.rollout.seconds,
        failures=config.workers.failures,
    )


def make_past(config: RunConfig) -> Past | None:
    """Earlier weights of the policy, where it plays against itself."""
    if config.players.opponent != "past":
        return None
    return Past(every=config.players.every, keep=config.players.keep, lag=config.ahead)
