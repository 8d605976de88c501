"""Replies of a base model and of the policies that runs trained from it to the same tasks, recorded or sampled.

The random numbers of a sampled reply are those of an evaluation of the run, so it equals the reply that an evaluation
with as many tasks and samples would have recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from gnomon.comparison.gain_scores import Played, replies_of
from gnomon.comparison.prompts import measure
from gnomon.comparison.readings import Lenient, framing_env
from gnomon.config import RunConfig
from gnomon.config.sections import EvalSet
from gnomon.envs import Env
from gnomon.errors import ConfigError
from gnomon.rejudge.again import JudgeSpec, build_judge
from gnomon.rejudge.stored import reading
from gnomon.run.evaluation_envs import set_envs
from gnomon.run.find import env_class
from gnomon.run.makers.held_out import make_set_actor
from gnomon.run.objects import OBJECT, by_object
from gnomon.run.parts import here, open_parts
from gnomon.run.saved import checkpoint, require_base, require_here
from gnomon.run.session import task_at
from gnomon.run.subject import env_of
from gnomon.store import RunReader
from gnomon.store.layout import of_set
from gnomon.types import Group, Rollout
from gnomon.verifiers import settle, settle_all
from gnomon.workers import Pool

__all__ = ["Measured", "Sizes", "replies_by_evaluation"]

SAMPLES = 8
TASKS = 64
"""Of replies that have to be sampled, unless other numbers are named."""
USUAL, EXAMPLES, OTHER = "usual", "examples", "transfer"
"""Names of the evaluations."""
Tell = Callable[[str], None]


class Part(NamedTuple):
    """The replies of one policy under one prompt."""

    evaluation: str
    after: bool
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What is measured. None: as many as the runs recorded, or the defaults above."""

    samples: int | None = None
    """Replies to every task, 2 or more."""
    tasks: int | None = None
    shots: int = 4
    """Solved examples of the train split in the other prompt; 0 for no such prompt."""
    transfer: str = ""
    """Another environment, or an evaluation set of the runs."""


@dataclass(frozen=True)
class Measured:
    """Runs whose settings differ in the seed alone, and what is measured of them."""

    folders: Mapping[int, Path]
    """By seed."""
    config: RunConfig
    sizes: Sizes

    @cached_property
    def env_spec(self) -> JudgeSpec | None:
        """The environment by name; None for one that was passed as a Python object."""
        spec = self.config.env
        return None if spec.type.startswith(OBJECT) else JudgeSpec(spec.type, json.dumps(spec.options, sort_keys=True))

    @property
    def env(self) -> Env | None:
        return None if self.env_spec is None else build_judge(self.env_spec)

    @property
    def samples(self) -> int:
        own = self.config.eval.samples
        return self.sizes.samples or (own if own > 1 or self.env is None else SAMPLES)

    @property
    def tasks(self) -> int:
        own = self.config.eval.tasks
        return self.sizes.tasks or (own if self.config.eval.samples >= self.samples else min(own, TASKS))

    @property
    def shows(self) -> bool:
        """Whether the environment can put solved examples before a question, and the runs' prompts have others."""
        return self.sizes.shots not in (0, getattr(self.env, "shots", 0)) and hasattr(self.env, "shots")

    @property
    def lenient(self) -> bool:
        """Whether replies can be read in any usual form."""
        return self.env is not None and framing_env(self.env) is not None and self.env.max_turns == 1

    def parts(self) -> Iterator[Part]:
        """All that the card needs; those of the base model first."""
        evaluations = [USUAL] + [OTHER] * bool(self.sizes.transfer)
        for after in (False, True):
            yield from (Part(name, after, seed) for name in evaluations for seed in self.folders)
            if self.shows and not after:
                yield Part(EXAMPLES, False, next(iter(self.folders)))


def replies_by_evaluation(runs: Measured, tell: Tell) -> dict[str, Played]:
    """The replies by evaluation. Raises: RunError E185, E186; ConfigError E025, where replies have to be sampled."""
    groups_of = {part: recorded_groups(runs, part) for part in runs.parts()}
    if missing := [part for part, groups in groups_of.items() if not groups]:
        groups_of |= sample_missing(runs, missing, tell)
    right = leniently(
        runs, [group for part, groups in groups_of.items() if part.evaluation == USUAL for group in groups]
    )
    examples = next((replies_of(groups) for part, groups in groups_of.items() if part.evaluation == EXAMPLES), None)

    def of(name: str, after: bool) -> list[Any]:
        chosen_parts = (part for part in groups_of if part.evaluation == name and part.after is after)
        return [replies_of(groups_of[part], right) for part in chosen_parts]

    names = dict.fromkeys(part.evaluation for part in groups_of if part.evaluation != EXAMPLES)
    return {
        name: Played(before=of(name, False), after=of(name, True), examples=examples if name == USUAL else None)
        for name in names
    }


def recorded_groups(runs: Measured, part: Part) -> Sequence[Group]:
    """What a run recorded at its first or last evaluation; empty where these are too few."""
    if part.evaluation == EXAMPLES:
        return ()
    name = "" if part.evaluation == USUAL else runs.sizes.transfer
    kind = of_set("held_out", name)
    tasks = partial(task_at, runs.env) if runs.env is not None and not name else None
    with RunReader(runs.folders[part.seed]) as reader:
        steps = reader.steps_with([kind])
        groups = list(reader.groups(steps[-1 if part.after else 0], kind, tasks)) if steps else []
    whole = len(groups) >= runs.tasks and all(len(group.rollouts) >= runs.samples for group in groups)
    return [replace(group, rollouts=group.rollouts[: runs.samples]) for group in groups[: runs.tasks * whole]]


def sample_missing(runs: Measured, missing: Sequence[Part], tell: Tell) -> dict[Part, Sequence[Group]]:
    """Sample replies: all of the base model first, then those of each policy."""
    config, env = runs.config, runs.env
    if env is None:
        raise by_object(config.env.type, f"{next(iter(runs.folders.values()))}/recipe.toml", FIX)
    own = {USUAL: {}, EXAMPLES: {"env": {"shots": runs.sizes.shots}}, OTHER: other(runs)}
    numbers = {"every": 1, "tasks": runs.tasks, "samples": runs.samples, "temperature": config.rollout.temperature}
    names = dict.fromkeys(part.evaluation for part in missing)
    sets = {name: EvalSet.model_validate(numbers | own[name]) for name in names}
    plain = here(config.model_copy(update={"eval": config.eval.model_copy(update={"sets": {}})}))
    with_sets = plain.model_copy(update={"eval": config.eval.model_copy(update={"sets": sets})})
    result: dict[Part, Sequence[Group]] = {}
    with RunReader(next(iter(runs.folders.values()))) as reader:
        require_base(reader, config)
    with open_parts(plain, env) as parts:
        envs = {name: (spec, its) for name, spec, its in set_envs(with_sets, env)}
        for after, seed in dict.fromkeys((part.after, part.seed) for part in missing):
            if after:
                folder = checkpoint(runs.folders[seed])
                require_here(config, folder)
                parts.learner.load_state(folder)
            parts.engine.load(parts.learner.publish())
            for part in missing:
                if (part.after, part.seed) == (after, seed):
                    tell(telling(runs, part))
                    actor = make_set_actor(with_sets, part.evaluation, *envs[part.evaluation], parts.actor)
                    result[part] = measure(actor, parts.actor, with_sets.eval.of(part.evaluation), seed).groups
    return result


FIX = "leave out --samples, --tasks and --transfer: then what the runs recorded is taken"


def other(runs: Measured) -> dict[str, Any]:
    """The settings of the evaluation that is transferred to. Raises: ConfigError E021 for an unknown environment."""
    name = runs.sizes.transfer
    if not name:
        return {}
    if spec := runs.config.eval.sets.get(name):
        return {"env": spec.env, "temperature": spec.temperature}
    kind, options = env_of(name)
    try:
        env_class(kind, "--transfer")
    except ConfigError as error:
        fix = error.fix.replace("env=", "--transfer ")
        raise ConfigError(error.code, error.what, where=error.where, why=error.why, fix=fix) from error
    return {"env": {**options, "type": kind}}


def telling(runs: Measured, part: Part) -> str:
    of = {USUAL: "", EXAMPLES: f", {runs.sizes.shots} solved examples", OTHER: f", {runs.sizes.transfer}"}
    who = f"the policy of {runs.folders[part.seed]}" if part.after else f"the base model (seed {part.seed})"
    return f"sampling {runs.samples} replies to {runs.tasks} tasks from {who}{of[part.evaluation]}"


def leniently(runs: Measured, groups: Sequence[Group]) -> Callable[[Rollout], bool]:
    """Whether a wrong reply is right in any usual form of an answer; judged in a worker that can be killed."""
    if not runs.lenient or runs.env_spec is None or runs.env is None:
        return lambda rollout: False
    texts_of = reading(runs.config, runs.env.max_turns)
    wrong = {
        (rollout.task.id, rollout.text): (rollout.task, "".join(texts_of(rollout)))
        for group in groups
        for rollout in group.rollouts
        if group.judged and not rollout.verdict.correct
    }
    judge, workers = Lenient(runs.env_spec), runs.config.workers
    memory = workers.memory_mib * 2**20
    with Pool(judge.verify, 1, seconds=workers.seconds, memory=memory, retries=0) as pool:
        verdicts = settle_all(pool, wrong.values(), partial(settle, reward_range=runs.env.reward_range))
    right = {key for key, verdict in zip(wrong, verdicts, strict=True) if verdict.correct}
    return lambda rollout: (rollout.task.id, rollout.text) in right
