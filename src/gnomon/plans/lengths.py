"""How many tokens the prompts and replies of a run have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from gnomon.config import RunConfig
from gnomon.envs import Env
from gnomon.errors import ConfigError, ModelError
from gnomon.models.folder import config_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.plans.shapes import described
from gnomon.rendering import choose, joined
from gnomon.run.evaluation_envs import set_envs
from gnomon.run.find import make_env
from gnomon.store import RunReader
from gnomon.training.evaluate import first

__all__ = ["Lengths", "recorded_lengths", "supposed_lengths"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Tokens of a step's rollouts."""

    prompts: tuple[int, ...]
    """Of every prompt of a step."""
    reply: int
    """Of every reply."""
    held_out: tuple[int, ...]
    """Of every prompt of an evaluation."""
    sets: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of every prompt of each evaluation set."""
    trained: float = 1.0
    """Share of the sampled tokens that are trained: groups without a difference in reward are not."""


def supposed_lengths(config: RunConfig, prompt: int | None = None, reply: int | None = None) -> Lengths:
    """Lengths of the first prompts of each split, as the policy's tokenizer makes them.

    Args:
        prompt: length of every prompt; then neither the environment nor a tokenizer is needed.
        reply: length of every reply; `rollout.max_tokens` unless set.
    Raises: ConfigError E074 for a model folder without a tokenizer.
    """
    reply = reply or config.rollout.max_tokens
    if prompt is not None:
        train, test = (prompt,) * config.rollout.prompts, (prompt,) * config.eval.tasks
        sets = {name: (prompt,) * own.tasks for name, own in config.eval.sets.items()}
        return Lengths(prompts=train, reply=reply, held_out=test, sets=sets)
    folder, env = with_tokenizer(config.policy.path), make_env(config.env)
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(
            "E074", "the model folder has no tokenizer.json, so the length of a prompt is unknown",
            where=str(folder), fix="state how many tokens a prompt has: --prompt 200",
        )  # fmt: skip
    tokenizer = Tokenizer(folder)

    def lengths(env: Env, split: str, count: int) -> tuple[int, ...]:
        renderer = choose(tokenizer, config.policy.renderer, turns=env.max_turns)
        return tuple(len(joined(renderer.start(task.messages))) for _, task in first(env.tasks(split), count))

    return Lengths(
        prompts=lengths(env, "train", config.rollout.prompts),
        reply=reply,
        held_out=lengths(env, "test", config.eval.tasks),
        sets={name: lengths(its, "test", config.eval.sets[name].tasks) for name, _, its in set_envs(config, env)},
    )


def with_tokenizer(path: str) -> Path:
    """The model folder; for a model of the hub, its tokenizer is fetched if it can be."""
    with suppress(ModelError):
        return config_folder(path)
    return described(path)


def recorded_lengths(config: RunConfig, reader: RunReader) -> Lengths:
    """Lengths that a run has recorded: the mean of its replies, and the share of them that was trained."""
    steps = [row["metrics"] for row in reader.metrics()]
    supposed = supposed_lengths(config, reply=max(1, round(mean([step["length"] for step in steps]))))
    trained = [step["trained"] / max(1.0, step["tokens"]) for step in steps if "trained" in step]
    return replace(supposed, trained=mean(trained) if trained else 1.0)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
