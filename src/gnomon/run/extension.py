"""The settings of a resumed run: which may change, and what the run records of a change."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import tomli_w

from gnomon.config import RunConfig, Source, leaves, recorded_recipe, resolve
from gnomon.config.resolve import Check
from gnomon.config.sections import AtResume, at_resume
from gnomon.config.sources import put, whole_key, word_of
from gnomon.errors import RunError
from gnomon.store import RunReader
from gnomon.store.checkpoints import checkpoint_folders, examine
from gnomon.store.layout import EXTENSION, RECIPE

__all__ = ["Extension", "extension", "genesis_settings"]

BESIDE = ("save.", "budget.seconds")
"""Settings that decide no byte of a run: the chain does not record them."""
MAY = "only these may change: steps, seconds, eval.*, save.*, and where the run is: ranks, learner, launch.*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The settings of a resumed run."""

    before: RunConfig
    """The settings of the run before it was resumed."""
    config: RunConfig
    """The settings of this process."""
    recipe: str
    """The recipe of the run from now on."""
    body: Mapping[str, Any]
    """Body of the record in the chain: the new `settings`, and their values `before`; empty if none changes."""
    text: str
    """The changes, as a sentence for the user."""


def extension(reader: RunReader, supplied: Source, checks: Sequence[Check] = ()) -> Extension:
    """The settings with which a run continues.

    Raises: RunError E413 for a setting that may not change, or fewer steps than the run has; E420 for a finished run
        without a checkpoint; E421 if its finished steps depend on the number of steps.
    """
    path, run = reader.folder / RECIPE, shlex.quote(str(reader.folder))
    own = {whole_key(key, value) for key, value in leaves(supplied.values).items()}
    sources = [recorded_recipe(path), Source(settings_since(reader), {})]
    before, _ = resolve(sources)
    config, origins = resolve([*sources, supplied], checks)
    was, now = leaves(before.model_dump()), leaves(config.model_dump())
    changed = {key: value for key, value in now.items() if was.get(key) != value}
    for key, value in changed.items():
        if at_resume(key) is None and key in own:
            raise RunError(
                "E413", f"{key} cannot change when a run is resumed", where=origins.get(key, str(path)), why=MAY,
                fix=f"gnomon train {run}/{RECIPE} {word_of(key, value)} run=OTHER   # starts a new run",
            )  # fmt: skip
    lasting = {key: value for key, value in changed.items() if at_resume(key) is AtResume.CHANGE}
    if lasting:
        require_more(reader, config, run)
    if "budget.steps" in lasting:
        require_free_of_steps(config, run)
    listed = {key: value for key, value in lasting.items() if not key.startswith(BESIDE)}
    return Extension(
        before=before,
        config=config,
        recipe=recipe_with(reader.recipe, lasting) if lasting else "",
        body={"settings": listed, "before": {key: was[key] for key in listed if key in was}} if listed else {},
        text=", ".join(f"{key} was {was.get(key)} and is {value}" for key, value in lasting.items()),
    )


def require_more(reader: RunReader, config: RunConfig, run: str) -> None:
    """Raises: RunError E413 for a run that has these steps already, E420 where a finished one has no checkpoint."""
    steps, least = config.budget.steps, reader.steps + reader.complete
    if steps < least:
        raise RunError(
            "E413", f"the run has {reader.steps} finished steps, and budget.steps is {steps}", where=str(reader.folder),
            why="a finished run continues only with more steps" if reader.complete else "finished steps are kept",
            fix=f"gnomon resume {run} steps={max(least, 1)}",
        )  # fmt: skip
    good = (path for path in checkpoint_folders(reader.folder) if not examine(path, reader.uuid, reader.head))
    if reader.complete and next(good, None) is None:
        raise RunError(
            "E420", "the run has no checkpoint to continue from", where=str(reader.folder),
            why="only a checkpoint contains the state of the optimiser",
            fix=f"restore {run}/checkpoints, or start a new run: gnomon train {run}/{RECIPE} steps={steps} run=OTHER",
        )  # fmt: skip


def require_free_of_steps(config: RunConfig, run: str) -> None:
    """Raises: RunError E421 for a setting that makes the finished steps depend on `budget.steps`."""
    rollout = config.rollout
    for key, value in (("order_seed", rollout.order_seed), ("lag", rollout.lag), ("offline", rollout.offline)):
        if value:
            raise RunError(
                "E421", f"with rollout.{key}={value}, the finished steps depend on budget.steps",
                where=f"{run}/{RECIPE}",
                why="a run that began with the new number of steps would have different ones",
                fix=f"gnomon train {run}/{RECIPE} steps={config.budget.steps} run=OTHER   # starts a new run",
            )  # fmt: skip


def settings_since(reader: RunReader) -> dict[str, Any]:
    """The settings in the records of earlier extensions, as nested tables."""
    values: dict[str, Any] = {}
    for record in reader.records(EXTENSION):
        for key, value in record.body["settings"].items():
            put(values, key, value)
    return values


def genesis_settings(reader: RunReader, before: RunConfig, config: RunConfig) -> RunConfig:
    """The settings of this process, with those in the first record of the run in their place.

    Args: before: settings of the run until this process.
    """
    values = config.model_dump()
    values |= {key: value for key, value in before.model_dump().items() if at_resume(key) is AtResume.CHANGE}
    for record in reversed(list(reader.records(EXTENSION))):
        for key in record.body["settings"]:
            put(values, key, record.body["before"].get(key))
            if key not in record.body["before"]:
                remove(values, key)
    return RunConfig.model_validate(values)


def remove(values: dict[str, Any], key: str) -> None:
    """Remove a key from nested tables, and tables that are empty without it."""
    first, _, rest = key.partition(".")
    if rest:
        remove(values[first], rest)
    if not rest or (not values[first] and first not in RunConfig.model_fields and first != "sets"):
        del values[first]


def recipe_with(recipe: str, changed: Mapping[str, Any]) -> str:
    """A recipe with new values of some keys. The rest keeps its text."""
    values = deepcopy(tomllib.loads(recipe))
    for key, value in changed.items():
        put(values, key, value)
    return tomli_w.dumps(values)
