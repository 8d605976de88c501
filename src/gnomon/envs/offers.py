"""Optional attributes of an environment, each declared as a protocol.

`Env` has four required members. All other attributes are read through the functions of this module. An attribute of a
wrong type is an error that names it; `require_offers` raises it before a run.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from gnomon.errors import ConfigError
from gnomon.types import Task, Tool
from gnomon.verifiers import Price, Verifier

__all__ = [
    "Budgeted",
    "Confined",
    "Graded",
    "Importing",
    "Isomorphic",
    "Noted",
    "Played",
    "Praising",
    "Priced",
    "Reading",
    "Respelled",
    "Seated",
    "Tooled",
    "Varying",
    "Watched",
    "contents",
    "difficulty",
    "expert",
    "files",
    "imports",
    "isolation",
    "isomorphic",
    "players",
    "praise",
    "prices",
    "remarks",
    "reproducible",
    "require_offers",
    "sentinel",
    "spec",
    "token_budgets",
    "tools",
]

T = TypeVar("T")
MISSING = object()


class Seated(Protocol):
    """A game of several players."""

    @property
    def players(self) -> int:
        """Number of players in an episode, 1 or more."""
        ...


class Tooled(Protocol):
    """An environment whose completions may call tools."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that a chat template lists."""
        ...


class Confined(Protocol):
    """An environment that runs code in the sandbox."""

    @property
    def isolation(self) -> tuple[str, ...]:
        """Accepted isolation levels; the host must support one of them."""
        ...


class Importing(Protocol):
    """An environment whose verifier needs modules that are slow to import."""

    @property
    def imports(self) -> tuple[str, ...]:
        """Names of modules, imported once before worker processes start."""
        ...


class Reading(Protocol):
    """An environment that makes its tasks from data."""

    @property
    def files(self) -> Mapping[str, str]:
        """The path of a file or folder, by option. A run records its hash."""
        ...

    @property
    def contents(self) -> Mapping[str, str]:
        """The hash of data that is not in a file, by option."""
        ...


class Noted(Protocol):
    """An environment with remarks for the user before a run."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """The remarks, one sentence each."""
        ...


class Watched(Protocol):
    """An environment whose reward is compared with a second verifier during a run."""

    @property
    def sentinel(self) -> Verifier | None:
        """A verifier that is stricter or more lenient than the trained one."""
        ...


class Priced(Protocol):
    """An environment that declares the parts of its reward."""

    @property
    def prices(self) -> tuple[Price, ...]:
        """The price of every part of a verdict."""
        ...


class Varying(Protocol):
    """An environment that may respond differently to the same reply."""

    @property
    def reproducible(self) -> bool:
        """False if a second run may differ."""
        ...


class Budgeted(Protocol):
    """An environment that judges an answer at several token budgets of an episode."""

    @property
    def token_budgets(self) -> tuple[int, int]:
        """The number of budgets, and the largest budget in tokens. Turn j ends at budget j (`Step.tokens`), and every
        verdict has a part `at_j` for the answer there, for j from 0."""
        ...


class Praising(Protocol):
    """An environment whose verdicts have words on the reply, `Verdict.feedback`."""

    @property
    def praise(self) -> str:
        """The words that a reply should earn. An objective that trains on feedback puts them before a task."""
        ...


class Played(Protocol):
    """An environment of several turns with a scripted expert."""

    def expert(self, task: Task, episode: Any) -> str:
        """Its next reply."""
        ...


class Isomorphic(Protocol):
    """An environment that can rewrite a task."""

    def isomorphic(self, task: Task, rng: random.Random) -> Task:
        """The task with other names or numbers; its answer changes only by the same renaming."""
        ...


class Graded(Protocol):
    """An environment that knows which of its tasks are easy."""

    def difficulty(self, task: Task) -> float:
        """The larger, the harder; of any unit."""
        ...


class Respelled(Protocol):
    """An environment that a recipe cannot express by its class and fields."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The mapping that the recipe shows instead."""
        ...


def players(env: object) -> int:
    """Number of players in an episode; 1 by default."""
    value = attribute_of(env, "players", int, "a whole number")
    if value is None:
        return 1
    if isinstance(value, bool) or value < 1:
        raise wrong(env, "players", value, "a whole number of 1 or more")
    return value


def tools(env: object) -> tuple[Tool, ...]:
    return each(env, "tools", Tool)


def isolation(env: object) -> tuple[str, ...]:
    return each(env, "isolation", str)


def imports(env: object) -> tuple[str, ...]:
    return each(env, "imports", str)


def remarks(env: object) -> tuple[str, ...]:
    return each(env, "remarks", str)


def prices(env: object) -> tuple[Price, ...] | None:
    """The declared prices; None if the environment declares none."""
    return None if attribute_of(env, "prices", object, "") is None else each(env, "prices", Price)


def files(env: object) -> Mapping[str, str]:
    return texts(env, "files")


def contents(env: object) -> Mapping[str, str]:
    return texts(env, "contents")


def spec(env: object) -> Mapping[str, Any] | None:
    return attribute_of(env, "spec", Mapping, "a mapping")  # type: ignore[type-abstract]


def token_budgets(env: object) -> tuple[int, int] | None:
    """The number of token budgets and the largest of them; None if the environment has none."""
    values = each(env, "token_budgets", int)
    if not values:
        return None
    if len(values) != 2 or min(values) < 1 or any(isinstance(value, bool) for value in values):
        raise wrong(env, "token_budgets", values, "two whole numbers of 1 or more: how many budgets, and the largest")
    return values[0], values[1]


def praise(env: object) -> str:
    """The words that a reply should earn; empty if the environment gives no feedback."""
    return attribute_of(env, "praise", str, "a text") or ""


def reproducible(env: object) -> bool:
    value = attribute_of(env, "reproducible", bool, "True or False")
    return True if value is None else value


def sentinel(env: object) -> Verifier | None:
    return attribute_of(env, "sentinel", Verifier, "a verifier: it needs reward_range and verify")  # type: ignore[type-abstract]


def expert(env: object) -> Callable[[Task, Any], str] | None:
    return method(env, "expert")


def isomorphic(env: object) -> Callable[[Task, random.Random], Task] | None:
    return method(env, "isomorphic")


def difficulty(env: object) -> Callable[[Task], float] | None:
    return method(env, "difficulty")


READERS: tuple[Callable[[object], object], ...] = (
    players, tools, isolation, imports, remarks, prices, files, contents, spec, reproducible, sentinel, expert,
    isomorphic, difficulty, token_budgets, praise,
)  # fmt: skip


FORMER = {"seats": "players", "rungs": "isolation", "player": "expert"}
"""Former attribute names. Without a check, an environment that uses them would be read as having none."""


def require_offers(env: object) -> None:
    """Raises: ConfigError E028 for the first attribute of a wrong type."""
    for former, present in FORMER.items():
        if hasattr(env, former) and not hasattr(env, present):
            name = type(env).__name__
            raise ConfigError(
                "E028", f"{name}.{former} is called {present} now", where=name, fix=f"rename it: {present}"
            )
    for reader in READERS:
        reader(env)


def attribute_of(env: object, name: str, kind: type[T], expected: str) -> T | None:
    """The attribute; None if it is absent. Raises: ConfigError E028 for a wrong type, or if it cannot be read.

    A property that raises AttributeError is an error, not an absent attribute.
    """
    try:
        value = getattr(env, name)
    except AttributeError as error:
        if inspect.getattr_static(env, name, MISSING) is MISSING:
            return None
        raise unreadable(env, name, error) from error
    if value is not None and not isinstance(value, kind):
        raise wrong(env, name, value, expected)
    return value


def each(env: object, name: str, kind: type[T]) -> tuple[T, ...]:
    """A sequence of one type; empty if it is absent."""
    expected = f"a tuple of {kind.__name__}"
    values: Any = attribute_of(env, name, object, expected)
    if values is None:
        return ()
    if not isinstance(values, tuple | list):
        raise wrong(env, name, values, expected)
    for value in values:
        if not isinstance(value, kind):
            raise wrong(env, name, value, f"{expected}; it holds this")
    return tuple(values)


def texts(env: object, name: str) -> Mapping[str, str]:
    """A mapping of texts to texts; empty if it is absent."""
    values = attribute_of(env, name, Mapping, "a mapping of texts")  # type: ignore[type-abstract]
    for key, value in (values or {}).items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise wrong(env, name, {key: value}, "a mapping of texts; it holds this")
    return values or {}


def method(env: object, name: str) -> Callable[..., Any] | None:
    value = attribute_of(env, name, object, "a method")
    if value is None or callable(value):
        return value
    raise wrong(env, name, value, "a method")


def wrong(env: object, name: str, value: object, expected: str) -> ConfigError:
    kind = type(env).__name__
    what = f"{kind}.{name} is {value!r:.80} of type {type(value).__name__}"
    return ConfigError("E028", what, where=kind, why=f"it must be {expected}", fix=f"correct {name}, or remove it")


def unreadable(env: object, name: str, error: Exception) -> ConfigError:
    kind = type(env).__name__
    return ConfigError(
        "E028", f"{kind}.{name} cannot be read: {error}", where=kind, fix=f"correct {name}, or remove it"
    )
