"""What an environment may offer beside its core: each offer is an attribute, declared here as a protocol.

`Env` has four members. All else is optional, and everybody who reads it calls the function of its name in this module.
An attribute of another type is an error that names it; `require_offers` raises it before a run.
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
    "Confined",
    "Importing",
    "Isomorphic",
    "Noted",
    "Played",
    "Priced",
    "Reading",
    "Respelled",
    "Seated",
    "Tooled",
    "Varying",
    "Watched",
    "contents",
    "expert",
    "files",
    "imports",
    "isolation",
    "isomorphic",
    "players",
    "prices",
    "remarks",
    "reproducible",
    "require_offers",
    "sentinel",
    "spec",
    "tools",
]

T = TypeVar("T")
MISSING = object()


class Seated(Protocol):
    """A game of several players."""

    @property
    def players(self) -> int:
        """How many play an episode, 1 or more."""
        ...


class Tooled(Protocol):
    """An environment whose completions may call tools."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What a chat template lists."""
        ...


class Confined(Protocol):
    """An environment that runs code in the sandbox."""

    @property
    def isolation(self) -> tuple[str, ...]:
        """Levels of isolation that it needs; the host must have one of them."""
        ...


class Importing(Protocol):
    """An environment whose verifier needs modules that are slow to import."""

    @property
    def imports(self) -> tuple[str, ...]:
        """Names of modules, imported once before worker processes start."""
        ...


class Reading(Protocol):
    """An environment that makes its tasks of data."""

    @property
    def files(self) -> Mapping[str, str]:
        """By option, the path of a file or folder. A run records its hash."""
        ...

    @property
    def contents(self) -> Mapping[str, str]:
        """By option, the hash of data that no file holds."""
        ...


class Noted(Protocol):
    """An environment with something to say before a run."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """A sentence each."""
        ...


class Watched(Protocol):
    """An environment whose reward is compared with a second verifier during a run."""

    @property
    def sentinel(self) -> Verifier | None:
        """Stricter or more lenient than the one that is trained on."""
        ...


class Priced(Protocol):
    """An environment that declares what its reward is made of."""

    @property
    def prices(self) -> tuple[Price, ...]:
        """Every part of a verdict."""
        ...


class Varying(Protocol):
    """An environment that may answer the same reply in two ways."""

    @property
    def reproducible(self) -> bool:
        """False where a second run may differ."""
        ...


class Played(Protocol):
    """An environment of several turns with a scripted expert."""

    def expert(self, task: Task, episode: Any) -> str:
        """Its next reply."""
        ...


class Isomorphic(Protocol):
    """An environment that can write a task in another way."""

    def isomorphic(self, task: Task, rng: random.Random) -> Task:
        """A task with other names or numbers and, renamed likewise, the same answer."""
        ...


class Respelled(Protocol):
    """An environment that a recipe cannot spell by its class and fields."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """What a recipe shows instead."""
        ...


def players(env: object) -> int:
    """How many play an episode; one unless the environment says so."""
    value = offered(env, "players", int, "a whole number")
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
    """None where the environment declares none."""
    return None if offered(env, "prices", object, "") is None else each(env, "prices", Price)


def files(env: object) -> Mapping[str, str]:
    return texts(env, "files")


def contents(env: object) -> Mapping[str, str]:
    return texts(env, "contents")


def spec(env: object) -> Mapping[str, Any] | None:
    return offered(env, "spec", Mapping, "a mapping")  # type: ignore[type-abstract]


def reproducible(env: object) -> bool:
    value = offered(env, "reproducible", bool, "True or False")
    return True if value is None else value


def sentinel(env: object) -> Verifier | None:
    return offered(env, "sentinel", Verifier, "a verifier: it needs reward_range and verify")  # type: ignore[type-abstract]


def expert(env: object) -> Callable[[Task, Any], str] | None:
    return method(env, "expert")


def isomorphic(env: object) -> Callable[[Task, random.Random], Task] | None:
    return method(env, "isomorphic")


READERS: tuple[Callable[[object], object], ...] = (
    players, tools, isolation, imports, remarks, prices, files, contents, spec, reproducible, sentinel, expert,
    isomorphic,
)  # fmt: skip


FORMER = {"seats": "players", "rungs": "isolation", "player": "expert"}
"""Former names of what an environment may offer. One that still has them would be taken for one that offers nothing."""


def require_offers(env: object) -> None:
    """Raises: ConfigError E028, for the first offer of a wrong type."""
    for former, present in FORMER.items():
        if hasattr(env, former) and not hasattr(env, present):
            name = type(env).__name__
            raise ConfigError(
                "E028", f"{name}.{former} is called {present} now", where=name, fix=f"rename it: {present}"
            )
    for reader in READERS:
        reader(env)


def offered(env: object, name: str, kind: type[T], expected: str) -> T | None:
    """The attribute; None where there is none. Raises: ConfigError E028 for another type, or where it cannot be read.

    A property that raises AttributeError is an error too, and not an offer that is absent.
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
    """A sequence of one type; empty where there is none."""
    expected = f"a tuple of {kind.__name__}"
    values: Any = offered(env, name, object, expected)
    if values is None:
        return ()
    if not isinstance(values, tuple | list):
        raise wrong(env, name, values, expected)
    for value in values:
        if not isinstance(value, kind):
            raise wrong(env, name, value, f"{expected}; it holds this")
    return tuple(values)


def texts(env: object, name: str) -> Mapping[str, str]:
    """A mapping of texts to texts; empty where there is none."""
    values = offered(env, name, Mapping, "a mapping of texts")  # type: ignore[type-abstract]
    for key, value in (values or {}).items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise wrong(env, name, {key: value}, "a mapping of texts; it holds this")
    return values or {}


def method(env: object, name: str) -> Callable[..., Any] | None:
    value = offered(env, name, object, "a method")
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
