"""Mistakes in settings, in our words: what is wrong, where it was given, and what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from gnomon.config.renamed import RENAMED
from gnomon.config.sections import DEFAULTS
from gnomon.config.sources import Origins, leaves
from gnomon.elsewhere import known
from gnomon.errors import ConfigError
from gnomon.objectives.declaration import Mistake
from gnomon.objectives.options import OBJECT, OPTIONS, REFUSED, declared
from gnomon.objectives.options import RENAMED as RENAMED_OBJECTIVES
from gnomon.objectives.options import meant as meant_objective

__all__ = ["explained", "unknown_objective", "wrong_option"]


def explained(item: Any, origins: Origins) -> Iterator[ConfigError]:
    """The errors behind one mistake of pydantic's, in our words; of an unknown table, one for each of its keys."""
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] != "extra_forbidden":
        yield explain(item, origins)
        return
    below = [name for name in origins if name.startswith(f"{key}.")]
    for name in below or [key]:
        yield unknown_key(name, origins.get(name, name))


def unknown_key(key: str, where: str) -> ConfigError:
    """The mistake of setting what does not exist, with the name that it has here."""
    if key in RENAMED:
        return ConfigError("E012", f"{key} is now called {RENAMED[key]}", where=where, fix=f"write {RENAMED[key]}")
    ours, absent = known(key)
    if ours == "run":
        return ConfigError("E012", f"unknown key {key}", where=where, fix="did you mean run=FOLDER?")
    if absent:
        return ConfigError("E012", f"unknown key {key}", where=where, why=absent, fix="leave it out")
    ours = ours or meant(key)
    default = leaves(DEFAULTS).get(ours)
    hint = f"did you mean {ours}{'' if default is None else f' (default {default!r})'}?"
    return ConfigError(
        "E012", f"unknown key {key}", where=where, fix=hint if ours else "gnomon config show lists every key"
    )


def explain(item: Any, origins: Origins) -> ConfigError:
    """One mistake of pydantic's, in our words."""
    key, what = ".".join(str(part) for part in item["loc"]), item["msg"][0].lower() + item["msg"][1:]
    where = place_of(key, origins)
    return ConfigError(
        "E011", f"{key} is {item['input']!r}: {what}", where=where, fix=f"gnomon config show prints {key}"
    )


def unknown_objective(name: Any, where: str) -> ConfigError | None:
    """The mistake of naming an objective that does not exist; None where it does."""
    if isinstance(name, str) and (name in OPTIONS or name.startswith(OBJECT)):
        return None
    if isinstance(name, str) and name in RENAMED_OBJECTIVES:
        present = RENAMED_OBJECTIVES[name]
        return ConfigError(
            "E013",
            f"the objective {name!r} is now called {present!r}",
            where=where,
            why="it penalises distance to the sampler, as in Kimi k1.5; DRO (arXiv 2405.19107) uses a reference policy",
            fix=f"objective={present}",
        )
    if isinstance(name, str) and name in REFUSED:
        instead, reason = REFUSED[name]
        return ConfigError(
            "E013", f"there is no objective {name!r}", where=where, why=reason, fix=f"objective={instead}"
        )
    return ConfigError("E013", f"unknown objective {name!r}", where=where, fix=meant_objective(name))


def wrong_option(mistake: Mistake, origins: Origins) -> ConfigError:
    """The mistake in an option of an objective, where it was given."""
    key = f"objective.{mistake.option}"
    where, wanted = place_of(key, origins), mistake.wanted
    if wanted:
        return ConfigError("E011", f"{key} is {mistake.value!r}; it must be {wanted}", where=where, fix=mistake.fix)
    ours = known(key)[0]
    taken = ours.removeprefix("objective.") in declared(mistake.row).options
    fix = f"did you mean {ours}?" if taken else mistake.fix
    return ConfigError("E012", f"{mistake.row} has no option {key}", where=where, fix=fix)


def place_of(key: str, origins: Origins) -> str:
    """Where a key, or one below it, was given."""
    return next((place for name, place in origins.items() if name == key or name.startswith(f"{key}.")), key)


def meant(key: str) -> str:
    """The key that a wrong one most likely stands for, or the empty text."""
    last = key.rpartition(".")[2]
    options = {f"objective.{name}" for row in OPTIONS.values() for name in row.options}
    names = [*DEFAULTS, *leaves(DEFAULTS), *sorted(options)]
    if near := difflib.get_close_matches(key, names, 1, 0.6):
        return near[0]
    ends = {name.rpartition(".")[2]: name for name in names}
    near = difflib.get_close_matches(last, ends, 1, 0.6)
    return ends[near[0]] if near else ""
