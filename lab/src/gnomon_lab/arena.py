"""A round-robin tournament of policies: every pair plays the same deals in both orders, and all are rated together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch

from gnomon.config import RunConfig
from gnomon.engines.base import Engine
from gnomon.engines.embedded import Embedded
from gnomon.envs.workers import EnvWorkers
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.precision import Precision
from gnomon.rendering import choose
from gnomon.rollout.runner import Limits, LocalRunner
from gnomon.run.find import make_env
from gnomon.run.loops import run_to_end
from gnomon.run.saved import saved_policy
from gnomon.training.evaluate import first
from gnomon.types import Sampling
from gnomon_lab.match import Deal, Match
from gnomon_lab.rating import fit, intervals, p_value
from gnomon_lab.ratings import Standing

__all__ = ["Arena", "Meeting", "arena", "arena_text", "contests"]

Progress = Callable[[int, int], None]
"""Called with the number of finished pairs and their total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """The result of two players against each other."""

    one: str
    other: str
    games: int
    gain: float
    """Mean gain of the first player per game."""
    error: float
    """Standard error of it, over deals."""
    p: float
    """Two-sided p-value of no difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """A round-robin: standings from the best, and every meeting."""

    standings: tuple[Standing, ...]
    meetings: tuple[Meeting, ...]


def arena(names: list[str], config: RunConfig, *, games: int, progress: Progress) -> Arena:
    """Let policies play each other at the environment of a configuration, with its sampling, seed and limits.

    Args: names: `RUN` or `FOLDER`, or `RUN:STEP` for the checkpoint of a step; games: of every pair, in both orders.
    """
    torch.set_num_threads(config.threads)
    if len(set(names)) < 2:
        raise ConfigError("E184", "a match needs two different players", where=" ".join(names))
    precision = Precision.only(getattr(torch, config.dtypes.learner))
    policies = {name: saved_policy(name, precision) for name in names}
    tokens = {(policy.tokenizer.folder / "tokenizer.json").read_bytes() for policy in policies.values()}
    if len(tokens) > 1:
        raise ConfigError(
            "E180", "these policies have different tokenizers", where=" ".join(names),
            why="a game is stored as tokens, which each tokenizer would decode to different text",
            fix="use policies that were trained from the same base",
        )  # fmt: skip
    engines: dict[str, Engine] = {name: Embedded(policy) for name, policy in policies.items()}
    env, tokenizer = make_env(config.env), next(iter(policies.values())).tokenizer
    workers = EnvWorkers(
        env, workers=config.workers.count, seconds=config.workers.seconds, memory=config.workers.memory_mib * 2**20,
        retries=config.workers.retries,
    )  # fmt: skip
    runner = LocalRunner(
        env,
        tokenizer,
        next(iter(engines.values())),
        renderer=choose(tokenizer, config.policy.renderer, turns=env.max_turns),
        workers=workers,
        limits=Limits(
            turns=config.rollout.turns or None, context=config.rollout.context, failures=config.workers.failures
        ),
    )
    sampling = Sampling(
        max_tokens=config.rollout.max_tokens,
        temperature=config.rollout.temperature,
        stop=tuple(config.rollout.stop),
    )
    match = Match(env, runner, sampling)
    try:
        return contests(match, engines, games=games, key=Key(config.seed).at("arena"), progress=progress)
    finally:
        workers.close()


def contests(match: Match, engines: Mapping[str, Engine], *, games: int, key: Key, progress: Progress) -> Arena:
    """Every pair of engines over the same held-out deals.

    Args: games: of every pair, at least 2; an odd one is rounded up, because a deal is played in both orders.
    """
    names, deals = list(engines), -(-games // 2)
    tasks = first(match.env.tasks("test"), deals)
    pairs = list(combinations(range(len(names)), 2))
    met: dict[tuple[int, int], list[Deal]] = {}
    for done, (i, j) in enumerate(pairs):
        progress(done, len(pairs))
        at = key.at("pair", one=names[i], other=names[j])
        met[i, j] = run_to_end(match.contest(engines[names[i]], engines[names[j]], tasks, at))
    progress(len(pairs), len(pairs))
    low, high = match.env.reward_range
    scores = {pair: np.array([0.5 + deal.gain / (2 * (high - low)) for deal in part]) for pair, part in met.items()}
    ratings, spans = fit(len(names), scores), intervals(len(names), scores, key.at("bootstrap"))
    standings = []
    for place, name in enumerate(names):
        gains = [
            deal.gain if i == place else -deal.gain for (i, j), part in met.items() for deal in part if place in (i, j)
        ]
        standings.append(
            Standing(
                player=name, elo=float(ratings[place]), low=spans[place][0], high=spans[place][1],
                games=2 * len(gains), gain=mean(gains),
            )
        )  # fmt: skip
    meetings = [
        Meeting(
            one=names[i], other=names[j], games=2 * len(part), gain=mean([d.gain for d in part]),
            error=float(np.std([d.gain for d in part], ddof=1) / np.sqrt(len(part))) if len(part) > 1 else float("inf"),
            p=p_value([d.gain for d in part], key.at("signs", one=names[i], other=names[j])),
        )
        for (i, j), part in met.items()
    ]  # fmt: skip
    return Arena(standings=tuple(sorted(standings, key=lambda s: -s.elo)), meetings=tuple(meetings))


def mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def arena_text(result: Arena) -> str:
    """Two tables."""
    wide = max(len(standing.player) for standing in result.standings)
    lines = [f"{'player':<{wide}}  {'Elo':>6}  {'95 %':>16}  {'games':>6}  {'gain per game':>13}"]
    for s in result.standings:
        lines.append(
            f"{s.player:<{wide}}  {s.elo:>6.0f}  [{s.low:>6.0f}, {s.high:>6.0f}]  {s.games:>6}  {s.gain:>+13.3f}"
        )
    lines += ["", f"{'one':<{wide}}  {'other':<{wide}}  {'gain per game':>22}  {'p':>7}"]
    for m in result.meetings:
        lines.append(f"{m.one:<{wide}}  {m.other:<{wide}}  {m.gain:>+13.3f} ± {1.96 * m.error:<6.3f}  {m.p:>7.4f}")
    return "\n".join(lines)
