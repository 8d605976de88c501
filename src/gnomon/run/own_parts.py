"""Parts of a run that were passed as Python objects: how a recipe names them, and what they must have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.config import RunConfig
from gnomon.engines.base import Engine
from gnomon.errors import ConfigError, ConfigErrors, RunError
from gnomon.learners.base import Learner
from gnomon.monitoring.trackers import tracker
from gnomon.objectives import Objective
from gnomon.rollout.order import Curriculum
from gnomon.run.objects import OBJECT, source_facts
from gnomon.store import Observer

__all__ = ["NOTHING", "OwnParts", "own_parts", "part_name", "require_own_parts", "source_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnParts:
    """What the caller made itself; None for what the settings name."""

    objective: Objective | None = None
    engine: Engine | None = None
    learner: Learner | None = None
    curriculum: Curriculum | None = None
    observers: tuple[Observer, ...] = ()

    @property
    def parts(self) -> dict[str, Any]:
        """By setting, those that decide the bytes of a run."""
        by_setting = {
            "objective": self.objective,
            "engine": self.engine,
            "learner": self.learner,
            "curriculum": self.curriculum,
        }
        return {name: part for name, part in by_setting.items() if part is not None}


NOTHING = OwnParts()
CALL = "the call of gnomon.train"


def part_name(part: object) -> str:
    """How a recipe names a part that only the Python code which made it can make again."""
    return OBJECT + (part.name if isinstance(part, Objective) else type(part).__qualname__)


def own_parts(
    *,
    objective: Any = None,
    engine: Any = None,
    learner: Any = None,
    curriculum: Any = None,
    observers: Sequence[Any] = (),
) -> OwnParts:
    """Args: observers: objects, or names of trackers.

    Raises: ConfigErrors E029, where an object is not what its name says; as `tracker`.
    """
    observers = [tracker(each) if isinstance(each, str) else each for each in observers]
    protocols = {"engine": (engine, Engine), "learner": (learner, Learner), "curriculum": (curriculum, Curriculum)}
    protocols |= {f"observers[{index}]": (each, Observer) for index, each in enumerate(observers)}
    problems = [
        problem
        for name, (part, protocol) in protocols.items()
        if part is not None and (problem := mistaken(name, part, protocol)) is not None
    ]
    if objective is not None and not isinstance(objective, Objective):
        what = f"objective is a {type(objective).__name__}, which is no objective"
        fix = 'gnomon.objective("grpo", clip_low=0.1), or a row of your own (docs/adding-an-objective.md)'
        problems.append(ConfigError("E029", what, where=CALL, fix=fix))
    if problems:
        raise ConfigErrors(problems)
    return OwnParts(
        objective=objective, engine=engine, learner=learner, curriculum=curriculum, observers=tuple(observers)
    )


def mistaken(name: str, part: object, protocol: type) -> ConfigError | None:
    """Why an object cannot be the part; None where it has every member of its protocol."""
    if isinstance(part, type):
        fix = f"pass an object: {part.__name__}(…)"
        return ConfigError("E029", f"{name} is the class {part.__name__}", where=CALL, fix=fix)
    members = sorted(member for member in {*protocol.__annotations__, *vars(protocol)} if not member.startswith("_"))
    missing = [member for member in members if not hasattr(part, member)]
    if not missing:
        return None
    what = f"{name} is a {type(part).__name__}, which has no {', '.join(missing)}"
    return ConfigError("E029", what, where=CALL, why=f"it needs {', '.join(members)}")


def require_own_parts(config: RunConfig, own: OwnParts, where: str | Path) -> None:
    """Raises: RunError E193, where the recipe names an object that was not passed, or another one was."""
    names = {
        "objective": config.objective.type,
        "engine": config.engine.type,
        "learner": config.learner,
        "curriculum": config.rollout.curriculum,
    }
    for setting, name in names.items():
        part = own.parts.get(setting)
        now = part_name(part) if part is not None else ""
        if not (name.startswith(OBJECT) or now) or name == now:
            continue
        was = name.removeprefix(OBJECT)
        raise RunError(
            "E193",
            f"{setting} is {was} in the recipe, and {now.removeprefix(OBJECT)} was passed"
            if now
            else f"{setting} is {was}, which was passed as a Python object, and no command can import it",
            where=str(where),
            fix=f"use Python: gnomon.resume(RUN, {setting}=…) with the same object",
        )


def source_of(own: OwnParts) -> dict[str, Any]:
    """For a manifest: every part by its setting, with the hash of its source."""
    return {setting: source_facts(part, part_name(part)) for setting, part in own.parts.items()}
