"""The model that a name stands for: a checkpoint of a run, with its base where an adapter was trained, or a folder."""

from __future__ import annotations

import shlex
from pathlib import Path

from gnomon.config import RunConfig, recorded_recipe, resolve
from gnomon.config.placement import LearnerPlace
from gnomon.errors import RunError
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.run.makers.policy import make_policy
from gnomon.run.manifest import hashes
from gnomon.run.subject import split_step
from gnomon.store import RunReader
from gnomon.store.checkpoints import checkpoint_folders, examine
from gnomon.store.layout import RECIPE

__all__ = ["checkpoint", "require_base", "require_here", "saved_policy", "trained_policy"]


def saved_policy(name: str, precision: Precision) -> Policy:
    """The policy of `RUN`, `RUN:STEP` or a model folder.

    Raises: RunError E185 when the run has no verified checkpoint there, E186 when its base model has changed;
        ModelError E301 when the folder holds no model.
    """
    folder, step = split_step(name)
    if not (folder / RECIPE).is_file():
        return Policy.load(model_folder(name), precision)
    with RunReader(folder) as reader:
        config, _ = resolve([recorded_recipe(folder / RECIPE)])
        return trained_policy(reader, config, checkpoint(folder, step), precision)


def trained_policy(reader: RunReader, config: RunConfig, path: Path, precision: Precision) -> Policy:
    """The policy of a run's checkpoint: its model folder, or the run's base model with its adapter.

    Raises: RunError E185 for weights that are not on this machine, E186.
    """
    require_here(config, path)
    if not config.policy.trains_adapter:
        return Policy.load(path, precision)
    require_base(reader, config)
    policy = make_policy(config, precision)
    policy.restore(path)
    return policy


def require_here(config: RunConfig, path: Path) -> None:
    """Raises: RunError E185 for weights that are not on this machine."""
    if config.placement.learner is LearnerPlace.SERVICE:
        raise RunError(
            "E185",
            "the weights of the checkpoint are on the Tinker service",
            where=str(path),
            why="tinker.json of the checkpoint has their name and nothing more",
            fix="download them with the SDK of Tinker",
        )


def require_base(reader: RunReader, config: RunConfig) -> None:
    """Raises: RunError E186 when the model that a run began with has changed."""
    base = model_folder(config.policy.path)
    if hashes(base) != reader.genesis["policy"]:
        raise RunError(
            "E186",
            "the base model has changed since the run began",
            where=str(base),
            why="what the run trained and recorded belongs to the weights that it began with",
            fix="put the files back that the model folder had then",
        )


def checkpoint(folder: Path, step: int | None = None) -> Path:
    """The newest checkpoint of a run that verifies, or the one of a step. Raises: RunError E185."""
    with RunReader(folder) as reader:
        run = reader.uuid
    folders, problems = checkpoint_folders(folder), list[str]()
    for path in folders:
        if step in (None, int(path.name)):
            if not (problem := examine(path, run)):
                return path
            problems.append(f"that of step {int(path.name)} is damaged: {problem}")
    there = ", ".join(str(int(path.name)) for path in reversed(folders))
    quoted = shlex.quote(str(folder))
    fix = "in a new run, save.keep=99 keeps the last 99 checkpoints" if there else f"gnomon resume {quoted}"
    if problems:
        fix = f"restore it from a copy, or repeat the run: gnomon train {quoted}/{RECIPE} run=OTHER"
    raise RunError(
        "E185",
        f"the run has no verified checkpoint{'' if step is None else f' of step {step}'}",
        where=str(folder),
        why="; ".join(problems) or (f"checkpoints exist for these steps: {there}" if there else "no step is saved yet"),
        fix=fix,
    )
