"""How far sampler and learner are apart before a run: a table over dtypes and engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import torch

from gnomon.config import Policy, RunConfig
from gnomon.envs.base import confined
from gnomon.errors import GnomonError
from gnomon.keys import Key
from gnomon.launch.find import make_env
from gnomon.launch.local import close, make_trainer
from gnomon.launch.makers import make_engine, make_objective
from gnomon.launch.makers.actor import make_sampling
from gnomon.launch.sampled import sampled
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.monitoring.mismatch import advised
from gnomon.rendering import choose, joined
from gnomon.training.evaluate import first
from gnomon.types import Sampling

__all__ = ["Line", "lines", "lines_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One engine at one dtype, beside a learner of the same dtype."""

    engine: str
    dtype: str
    tokens: int
    metrics: dict[str, float]
    """`logp_mismatch` and those of `mismatch/`."""
    text: str
    """Of the token with the largest difference."""
    advice: str
    """The objective whose correction the difference asks for; empty for none."""
    failed: str
    """Why there are no metrics."""

    def body(self) -> dict[str, Any]:
        return asdict(self)


def lines(config: RunConfig, tell: Callable[[str], None]) -> Iterator[Line]:
    """One line for each dtype and engine: the embedded one, and the one that the settings name.

    The learner is that of a run: in this process, in several (`ranks`), or elsewhere, whose dtype is the only one.
    Every line scores `rollout.prompts` × `rollout.group` completions of first prompts. Args: tell: takes what is being
    measured.
    """
    torch.set_num_threads(config.threads)
    env = make_env(config.env)
    confined(env)
    tokenizer = Tokenizer(model_folder(config.policy.path))
    renderer = choose(tokenizer, config.policy.renderer, turns=env.max_turns)
    tasks = [task for _, task in first(env.tasks("train"), config.rollout.prompts)]
    prompts = [joined(renderer.start(task.messages)) for task in tasks for _ in range(config.rollout.group)]
    sampling = replace(make_sampling(config), stop_ids=renderer.stop)
    elsewhere, own = config.learner != "local", config.engine.type
    for dtype in [config.policy.dtype] if elsewhere else get_args(Policy.model_fields["dtype"].annotation):
        for engine in dict.fromkeys(["embedded", own] if own != "tinker" else [own]):
            tell(f"{engine} {dtype}")
            yield line(chosen(config, dtype, engine), prompts, sampling, tokenizer)


def chosen(config: RunConfig, dtype: str, engine: str) -> RunConfig:
    policy = config.policy.model_copy(update={"dtype": dtype})
    return config.model_copy(update={"policy": policy, "engine": config.engine.model_copy(update={"type": engine})})


def line(config: RunConfig, prompts: Sequence[tuple[int, ...]], sampling: Sampling, tokenizer: Tokenizer) -> Line:
    """The measurement of one engine."""
    known = {"engine": config.engine.type, "dtype": config.policy.dtype}
    try:
        with ExitStack() as undo:
            learner = make_trainer(config, make_objective(config))
            undo.callback(close, learner)
            engine = make_engine(config, learner)
            undo.callback(engine.close)
            engine.load(learner.publish())
            stats = sampled(engine, learner, prompts, sampling, Key(config.seed).at("mismatch"))
    except GnomonError as error:
        if config.learner != "local":  # Its only line: the error has the fix.
            raise
        return Line(**known, tokens=0, metrics={}, text="", advice="", failed=error.what)
    metrics = {name: stat.value for name, stat in stats.items()}
    text = tokenizer.spell([int(metrics["mismatch/token"])])
    tokens = int(metrics.pop("tokens"))
    return Line(**known, tokens=tokens, metrics=metrics, text=text, advice=advised(metrics)[0], failed="")


def lines_text(found: Sequence[Line]) -> str:
    """The table for a reader."""
    names = " ".join(f"{name:>8}" for name in ("max", "mean", "p99", "KL", "outside"))
    return "\n".join([f"{'engine':<9} {'dtype':<9} {'tokens':>7} {names}  worst token", *map(line_text, found)])


def line_text(line: Line) -> str:
    start = f"{line.engine:<9} {line.dtype:<9} "
    if line.failed:
        return f"{start}{line.failed}"
    names = ("logp_mismatch", "mismatch/mean", "mismatch/p99", "mismatch/kl")
    numbers = " ".join(f"{line.metrics[name]:>8.2g}" for name in names)
    advice = f"   take objective={line.advice}" if line.advice else ""
    return f"{start}{line.tokens:>7} {numbers} {line.metrics['mismatch/outside']:>8.2%}  {line.text!r}{advice}"
