"""How far pass@1 depends on the wording of the prompt: the same held-out tasks under several templates and hints."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gnomon.config import Eval, RunConfig
from gnomon.config.sections import EvalSet
from gnomon.keys import Key
from gnomon.rollout.actor import Actor
from gnomon.run.evaluation_envs import set_envs
from gnomon.run.loops import run_to_end
from gnomon.run.makers.held_out import make_set_actor
from gnomon.run.parts import here, open_parts
from gnomon.stats import Interval, difference_interval
from gnomon.training.evaluate import Evaluation, evaluate, first

__all__ = ["TEMPLATES", "Prompts", "Wording", "prompts", "prompts_text", "wordings"]

TEMPLATES = ("Question: {prompt}", "{prompt}\nAnswer:", "User: {prompt}\nAssistant:")
"""Asked beside the environment's own prompt, unless others are named."""
DRAWS = 2000
"""Permutations behind `Prompts.chance`."""
Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """Held-out pass@1 under one wording."""

    options: Options
    """Of the environment: `template`, `hint`. Empty for the prompts of the run or the recipe."""
    rate: Interval
    difference: Interval | None
    """Less that under the first wording, over different tasks; None for the first."""

    @property
    def name(self) -> str:
        return "  ".join(f"{key}={value!r}" for key, value in self.options.items()) or "as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """A policy under several wordings of the same tasks."""

    wordings: tuple[Wording, ...]
    spread: float
    """Largest pass@1 less the smallest. With few tasks it is above 0 although the wording does not matter."""
    chance: float
    """How often a spread at least as large occurs where wordings are exchanged at random within each task."""

    def body(self) -> dict[str, Any]:
        """As JSON values."""
        rows = [{**asdict(each), "options": dict(each.options)} for each in self.wordings]
        return {"wordings": rows, "spread": self.spread, "chance": self.chance}


def wordings(templates: Sequence[str] = ()) -> list[Options]:
    """The prompts as they are, without their answer format, and in each template."""
    return [{}, {"hint": False}, *({"template": template} for template in templates or TEMPLATES)]


def prompts(config: RunConfig, wordings: Sequence[Options], progress: Any = None) -> Prompts:
    """pass@1 of a policy on the same held-out tasks under every wording.

    Tasks, random numbers and all other settings are the same. The first wording is what the others are compared with.
    Raises: ConfigError for an option that the environment does not have.
    """
    evaluation = config.eval
    spec = {"temperature": config.rollout.temperature, **evaluation.model_dump(include={"every", "tasks", "samples"})}
    sets = {
        f"wording_{i}": EvalSet.model_validate({**spec, "env": dict(options)}) for i, options in enumerate(wordings)
    }
    plain = here(config.model_copy(update={"eval": evaluation.model_copy(update={"sets": {}})}))
    worded = plain.model_copy(update={"eval": evaluation.model_copy(update={"sets": sets})})
    with open_parts(plain, **({} if progress is None else {"progress": progress})) as parts:
        parts.engine.load(parts.learner.publish())
        evaluations = [
            measure(make_set_actor(worded, name, its, env, parts.actor), parts.actor, worded.eval, config.seed)
            for name, its, env in set_envs(worded, parts.env)
        ]
    return compare_wordings(wordings, evaluations)


def measure(actor: Actor, main: Actor, config: Eval, seed: int) -> Evaluation:
    """An evaluation in one wording; the workers that were made for it end. Args: main: has the workers of the run."""
    try:
        tasks = first(actor.env.tasks("test"), config.tasks)
        return run_to_end(evaluate(actor, tasks, Key(seed).at("eval"), config))
    finally:
        if actor.workers is not main.workers:
            actor.workers.close()


def compare_wordings(wordings: Sequence[Options], evaluations: Sequence[Evaluation]) -> Prompts:
    """What evaluations of the same tasks show. Tasks that were not judged under every wording are left out."""
    scores = [correct_by_task(each) for each in evaluations]
    shared = [task for task in scores[0] if all(task in own for own in scores)]
    columns = [[own[task] for task in shared] for own in scores]
    rows = [
        Wording(
            options=options,
            rate=each.pass_at[1],
            difference=None if i == 0 else difference_interval(differences(columns[0], columns[i])),
        )
        for i, (options, each) in enumerate(zip(wordings, evaluations, strict=True))
    ]
    means = [statistics.fmean(column) for column in columns]
    return Prompts(wordings=tuple(rows), spread=max(means) - min(means), chance=chance(columns))


def differences(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [b - a for a, b in zip(one, other, strict=True)]


def correct_by_task(evaluation: Evaluation) -> dict[str, float]:
    """Fraction of correct replies by id of the task, over groups that were judged."""
    replies: dict[str, list[bool]] = {}
    for group in evaluation.groups:
        if group.judged:
            replies.setdefault(group.task.id, []).extend(rollout.verdict.correct for rollout in group.rollouts)
    return {task: statistics.fmean(right) for task, right in replies.items()}


def chance(columns: Sequence[Sequence[float]]) -> float:
    """The p-value of a permutation test on the spread of the means. Args: columns: scores of the tasks, by wording.

    Under the hypothesis that wordings make no difference, the scores of one task can be exchanged.
    """
    draw = random.Random(0)
    rows = [list(row) for row in zip(*columns, strict=True)]
    observed = spread(rows)
    as_large = 0
    for _ in range(DRAWS):
        for row in rows:
            draw.shuffle(row)
        as_large += spread(rows) >= observed - 1e-9
    return (1 + as_large) / (1 + DRAWS)


def spread(rows: Sequence[Sequence[float]]) -> float:
    """Of the means of the columns."""
    means = [statistics.fmean(column) for column in zip(*rows, strict=True)]
    return max(means) - min(means)


def prompts_text(prompts: Prompts) -> str:
    """For a terminal."""
    lines = []
    for each in prompts.wordings:
        less = each.difference
        beside = "" if less is None else f"   {less.value:+.3f} [{less.low:+.3f}, {less.high:+.3f}]"
        lines.append(f"pass@1 {each.rate}{beside:<28}   {each.name}")
    tasks = prompts.wordings[0].rate.n
    lines.append(f"spread {prompts.spread:.3f} over {len(prompts.wordings)} wordings of {tasks} different tasks")
    lines.append(f"chance of such a spread if the wording made no difference: {prompts.chance:.4f}")
    return "\n".join(lines)
