"""How far sampler and learner are apart before a run: a table over the dtypes of both and over engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import torch

from gnomon.config import Policy, RunConfig
from gnomon.config.placement import EngineKind, LearnerPlace
from gnomon.engines.base import Tier
from gnomon.envs.base import check_isolation
from gnomon.errors import GnomonError
from gnomon.keys import Key
from gnomon.learners.base import Learner
from gnomon.models.folder import model_folder, table
from gnomon.models.tokenizer import Tokenizer
from gnomon.monitoring.mismatch import advise_correction, in_float16
from gnomon.rendering import choose, joined
from gnomon.run.find import make_env
from gnomon.run.makers import make_engine, make_objective
from gnomon.run.makers.actor import make_sampling
from gnomon.run.makers.engine import alternating
from gnomon.run.makers.policy import with_attention
from gnomon.run.parts import close, make_trainer
from gnomon.run.sample_stats import sample_stats
from gnomon.training.evaluate import first
from gnomon.types import Sampling

__all__ = ["Line", "finer", "lines", "lines_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One engine at one dtype, beside a learner at one dtype."""

    engine: str
    dtype: str
    """Of the learner."""
    engine_dtype: str
    tokens: int
    metrics: dict[str, float]
    """`logp_mismatch` and those of `mismatch/`."""
    text: str
    """Of the token with the largest difference."""
    advice: str
    """The objective whose correction the difference asks for; empty for none."""
    finer: str
    """What float16 would do, where a correction is asked for; empty for nothing."""
    failed: str
    """Why there are no metrics."""

    def body(self) -> dict[str, Any]:
        return asdict(self)


def lines(config: RunConfig, tell: Callable[[str], None]) -> Iterator[Line]:
    """One line for each dtype of the learner, dtype of the engine, and engine: the embedded one, and the one that the
    settings name.

    The learner is that of a run: in this process, in several (`ranks`), or elsewhere, whose dtype is the only one.
    An `engine.dtype` that is set is the only one of the engines. Every line scores `rollout.prompts` × `rollout.group`
    completions of first prompts. Args: tell: takes what is being measured.
    """
    torch.set_num_threads(1)
    config, env = with_attention(config), make_env(config.env)
    check_isolation(env)
    tokenizer = Tokenizer(model_folder(config.policy.path))
    renderer = choose(tokenizer, config.policy.renderer, turns=env.max_turns)
    tasks = [task for _, task in first(env.tasks("train"), config.rollout.prompts)]
    prompts = [joined(renderer.start(task.messages)) for task in tasks for _ in range(config.rollout.group)]
    sampling = replace(make_sampling(config), stop_ids=renderer.stop)
    own, dtypes = config.placement.engine, get_args(Policy.model_fields["dtype"].annotation)
    engines = [own] if own is EngineKind.SERVICE else dict.fromkeys([EngineKind.EMBEDDED, own])
    for dtype in [config.dtypes.learner] if config.placement.learner is not LearnerPlace.LOCAL else dtypes:
        some = [
            settings_of(config, dtype, engine, engine_dtype)
            for engine in engines
            for engine_dtype in (dtypes if config.engine.dtype == "policy" else [config.engine.dtype])
        ]
        yield from beside(some, prompts, sampling, tokenizer, tell)


def settings_of(config: RunConfig, dtype: str, engine: EngineKind, engine_dtype: str) -> RunConfig:
    policy = config.policy.model_copy(update={"dtype": dtype})
    engines = config.engine.model_copy(update={"type": str(engine), "dtype": engine_dtype})
    return config.model_copy(update={"policy": policy, "engine": engines})


def beside(
    configs: Sequence[RunConfig],
    prompts: Sequence[tuple[int, ...]],
    sampling: Sampling,
    tokenizer: Tokenizer,
    tell: Callable[[str], None],
) -> Iterator[Line]:
    """The lines of one learner. Args: configs: that differ in their engines alone."""
    with ExitStack() as undo:
        try:
            learner = make_trainer(configs[0], make_objective(configs[0]))
        except GnomonError as error:
            if configs[0].placement.learner is not LearnerPlace.LOCAL:  # The error has the fix.
                raise
            yield from (failure_line(config, error) for config in configs)
            return
        undo.callback(close, learner)
        for config in configs:
            tell(f"learner {config.dtypes.learner}, {config.placement.engine} {config.dtypes.engine}")
            yield line(config, learner, prompts, sampling, tokenizer)


def line(
    config: RunConfig, learner: Learner, prompts: Sequence[tuple[int, ...]], sampling: Sampling, tokenizer: Tokenizer
) -> Line:
    """The measurement of one engine."""
    try:
        with ExitStack() as undo:
            engine = make_engine(config, learner)
            undo.callback(engine.close)
            engine.tier = Tier.MEASURED  # Else a load is refused whose probe differs in a bit.
            engine.load(learner.publish())
            stats = sample_stats(
                engine, alternating(learner, engine), prompts, sampling, Key(config.seed).at("mismatch")
            )
    except GnomonError as error:
        return failure_line(config, error)
    metrics = {name: stat.value for name, stat in stats.items()}
    text = tokenizer.spell([int(metrics["mismatch/token"])])
    tokens, advice = int(metrics.pop("tokens")), advise_correction(metrics)[0]
    return Line(
        **names(config),
        tokens=tokens,
        metrics=metrics,
        text=text,
        advice=advice,
        finer=finer(config) if advice else "",
        failed="",
    )


def names(config: RunConfig) -> dict[str, str]:
    return {
        "engine": str(config.placement.engine),
        "dtype": config.dtypes.learner,
        "engine_dtype": config.dtypes.engine,
    }


def failure_line(config: RunConfig, error: GnomonError) -> Line:
    return Line(**names(config), tokens=0, metrics={}, text="", advice="", finer="", failed=error.what)


def lines_text(lines: Sequence[Line]) -> str:
    """The table for a reader, and below it what float16 would do."""
    columns = " ".join(f"{name:>8}" for name in ("max", "mean", "p99", "KL", "outside"))
    head = f"{'learner':<9} {'engine':<9} {'its dtype':<9} {'tokens':>7} {columns}  worst token"
    return "\n".join([head, *map(line_text, lines), *dict.fromkeys(line.finer for line in lines if line.finer)])


def line_text(line: Line) -> str:
    start = f"{line.dtype:<9} {line.engine:<9} {line.engine_dtype:<9} "
    if line.failed:
        return f"{start}{line.failed}"
    keys = ("logp_mismatch", "mismatch/mean", "mismatch/p99", "mismatch/kl")
    numbers = " ".join(f"{line.metrics[name]:>8.2g}" for name in keys)
    advice = f"   take objective={line.advice}" if line.advice else ""
    return f"{start}{line.tokens:>7} {numbers} {line.metrics['mismatch/outside']:>8.2%}  {line.text!r}{advice}"


def finer(config: RunConfig) -> str:
    """As `in_float16`."""
    family = str(table(model_folder(config.policy.path) / "config.json").get("model_type", ""))
    return in_float16(*config.dtypes, family)
