"""The stored rollouts of a run by the environment that played them: its own, and that of each evaluation set."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.config import RunConfig
from gnomon.envs import Env
from gnomon.errors import RunError
from gnomon.rejudge.again import JudgeSpec, build_judge
from gnomon.rejudge.stored import Stored, read_rollouts, reading
from gnomon.run.evaluation_envs import set_env
from gnomon.run.find import make_env
from gnomon.run.objects import OBJECT, by_object
from gnomon.store import Record, RunReader
from gnomon.store.codec import rollout_of
from gnomon.store.layout import of_set
from gnomon.types import Rollout, Task

__all__ = ["BY_NAME", "Part", "original", "parts", "recorded_rollouts", "stored_rollouts"]

BY_NAME = "define the class of the environment at the top level of a .py file, and add --verifier file.py:Class"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rollouts that one verifier judges."""

    splits: Mapping[str, str]
    """By the kind of their records, the split of their tasks."""
    env: Env
    """Whose tasks they are."""
    spec: JudgeSpec
    """What judges them."""


def parts(config: RunConfig, spec: JudgeSpec, options: Mapping[str, Any], *, other: bool) -> list[Part]:
    """The rollouts of the run's environment, then those of each evaluation set that can be judged.

    A set is judged by its own environment, with its own options. Where a verifier was named, it judges the sets in the
    environment of the run, and no other.
    Args: spec: what judges the run's rollouts; options: supplied, over those of the run's environment; other: whether
        the verifier was named.
    Raises: ConfigError E025, where a verifier that is no environment judges tasks of one passed as an object.
    """
    env = env_of_tasks(config, build_judge(spec))
    result = [Part(splits={"rollout": "train", "held_out": "test"}, env=env, spec=spec)]
    for name in config.eval.sets:
        set_spec = config.env_of(name)
        same = set_spec.type == config.env.type
        if other and not same:
            continue
        own = JudgeSpec(set_spec.type, json.dumps(set_spec.options | dict(options if same else {}), sort_keys=True))
        its = env if set_spec == config.env else set_env(set_spec, config.env, env)
        result.append(Part(splits={of_set("held_out", name): "test"}, env=its, spec=spec if other else own))
    return result


def stored_rollouts(reader: RunReader, config: RunConfig, part: Part) -> Iterator[Stored]:
    """The rollouts of a part, in order, each of its task as the environment makes it again."""
    return read_rollouts(recorded_rollouts(reader, part), config, reading(config, part.env.max_turns))


def original(config: RunConfig) -> Env:
    """The environment whose tasks the run's indices count."""
    return restrict_tasks(config, make_env(config.env))


def restrict_tasks(config: RunConfig, env: Env) -> Env:
    """The environment with only those train tasks that are demonstrated, where a run learns from demonstrations."""
    if not config.rollout.demonstrations:
        return env
    from gnomon.rollout.demonstrations import demonstrations

    return demonstrations(Path(config.rollout.demonstrations), env)


def env_of_tasks(config: RunConfig, subject: Any) -> Env:
    """The environment that the run's tasks come from; where that was passed as an object, the one that judges.

    Raises: ConfigError E025, where a verifier that is no environment judges.
    """
    if not config.env.type.startswith(OBJECT):
        return original(config)
    if not isinstance(subject, Env):
        raise by_object(config.env.type, "the run's recipe", BY_NAME)
    return restrict_tasks(config, subject)


def recorded_rollouts(reader: RunReader, part: Part) -> Iterator[tuple[Record, Rollout]]:
    """Every rollout of a part with its record. Raises: RunError E142 for another task."""
    splits = {kind: part.env.tasks(split) for kind, split in part.splits.items()}
    task: Task | None = None
    for record in reader.records():
        if record.kind == "task" and record.body["of"] in splits:
            assert record.task is not None
            task_record, split = record, splits[record.body["of"]]
            task = split[record.task] if record.task < len(split) else None
            if task is None or task.id != record.body["id"]:
                raise other_task(reader.folder, record, part.splits[record.body["of"]], task)
        elif record.kind in splits:
            assert task is not None
            yield record, rollout_of(task_record, record, task)


def other_task(folder: Path, record: Record, split: str, task: Task | None) -> RunError:
    now = "it does not exist" if task is None else f"its id is {task.id}"
    return RunError(
        "E142",
        f"{split} task {record.task} has changed since the run",
        where=f"{folder}, step {record.step}",
        why=f"its id was {record.body['id']}, and now {now}; the environment or its data has changed",
        fix=f"replay with the original environment; {shlex.quote(str(folder))}/manifest.json has its hash",
    )
