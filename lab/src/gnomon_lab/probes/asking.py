"""Ask a policy by scoring what it could reply: a model, or a run before and after its training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gnomon.config import recorded_recipe, resolve
from gnomon.errors import ConfigError
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import score
from gnomon.rendering import Renderer, choose, joined
from gnomon.run.saved import saved_policy
from gnomon.run.subject import is_run, split_step
from gnomon.store import RunReader
from gnomon.store.layout import RECIPE
from gnomon.types import Message
from gnomon_lab.probes.belief import Ask, Belief, Question, belief, from_file, pairs

__all__ = ["asking", "beliefs"]

AT_ONCE = 16
"""Questions in one pass."""


def beliefs(name: str, file: Path | None = None) -> list[tuple[str, Belief]]:
    """What a policy takes as rewarded. A run has two policies: the one that it began with, and its checkpoint.

    Args:
        name: `tiny`, a model folder, `RUN` (its newest checkpoint) or `RUN:STEP`.
        file: of the questions, as in `from_file`; by default they are about pairs of replies of the run.
    Raises: ConfigError E084 for a model without questions; RunError E185, E438; ConfigError E083.
    """
    if file is None and not is_run(name):
        raise ConfigError(
            "E084", "there is nothing to ask this policy about", where=name,
            why="a model folder has no recorded replies", fix=f"gnomon probe belief {name} --questions FILE.jsonl",
        )  # fmt: skip
    if not is_run(name):
        assert file is not None
        return [(name, belief(asking(saved_policy(name, Precision())), from_file(file)))]
    folder, _ = split_step(name)
    with RunReader(folder) as reader:
        questions = pairs(reader) if file is None else from_file(file)
    return [(when, belief(ask, questions)) for when, ask in asked_of_run(name, folder)]


def asked_of_run(name: str, folder: Path) -> Iterator[tuple[str, Ask]]:
    """The policies of a run, one at a time."""
    config, _ = resolve([recorded_recipe(folder / RECIPE)])
    for when, whose in (("before", config.policy.path), ("after", name)):
        policy = saved_policy(whose, Precision())
        yield when, asking(policy, choose(policy.tokenizer, config.policy.renderer))


def asking(policy: Policy, renderer: Renderer | None = None) -> Ask:
    """Log-probabilities of a policy at temperature 1. Args: renderer: that of the model folder unless it is named."""
    written = renderer or choose(policy.tokenizer)

    def ask(questions: Sequence[Question]) -> list[list[float]]:
        found: list[list[float]] = []
        for begin in range(0, len(questions), AT_ONCE):
            found += some(policy, written, questions[begin : begin + AT_ONCE])
        return found

    return ask


def some(policy: Policy, renderer: Renderer, questions: Sequence[Question]) -> list[list[float]]:
    """The sum over the tokens of every option."""
    prompts = [joined(renderer.start([Message(role="user", content=question.text)])) for question in questions]
    rows = [
        (place, policy.tokenizer.encode(option))
        for place, question in enumerate(questions)
        for option in question.options
    ]
    tokens = iter(score(policy, prompts, rows).tolist())
    sums = iter([sum(next(tokens) for _ in row) for _, row in rows])
    return [[next(sums) for _ in question.options] for question in questions]
