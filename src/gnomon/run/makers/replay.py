"""Earlier groups in the place of sampled ones, of the run itself or of a recorded run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from gnomon.config import RunConfig, recorded, resolve
from gnomon.envs.base import Env
from gnomon.rollout.batches import Batches
from gnomon.rollout.replay import Replay
from gnomon.store import RecordedGroups
from gnomon.store.layout import RECIPE
from gnomon.types import Task

__all__ = ["config_of", "groups_of", "make_replay", "replayed_tasks", "task_at"]


def make_replay(config: RunConfig, env: Env, sampled: Batches) -> Batches:
    """The batches, with earlier groups among them where the settings ask for any."""
    if not config.rollout.replay:
        return sampled
    source = groups_of(config, env) if config.rollout.recorded else None
    return Replay(sampled, replayed_tasks(config), recorded=source, among=config.rollout.tasks)


def replayed_tasks(config: RunConfig) -> int:
    """Tasks of a step that are earlier ones."""
    return round(config.rollout.replay * config.rollout.prompts)


def groups_of(config: RunConfig, env: Env) -> RecordedGroups:
    """The groups of the recorded run, with the tasks of the environment."""
    folder = Path(config.rollout.recorded)
    return RecordedGroups(folder, config_of(folder).seed, partial(task_at, env))


def config_of(folder: Path) -> RunConfig:
    return resolve([recorded(folder / RECIPE)])[0]


def task_at(env: Env, split: str, index: int) -> Task:
    return env.tasks(split)[index]
