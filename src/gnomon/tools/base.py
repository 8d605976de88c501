"""The tool protocol, and the function that calls tools. Every call returns a text and raises no exception."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from gnomon.errors import ResourceError
from gnomon.sandbox import capabilities
from gnomon.types import Tool

__all__ = [
    "Ended",
    "EnvTool",
    "Held",
    "Outcome",
    "Overtime",
    "Result",
    "Stateless",
    "Use",
    "cap_text",
    "text_argument",
    "use",
]

MOST = 4096
"""Largest number of characters of a result in an observation."""


class Overtime(Exception):
    """A call exceeded its time limit. The message is its output so far."""


class Ended(Exception):
    """The process behind a tool has ended. The next call starts a new one."""


class Held(Protocol):
    """A resource that an episode keeps open for a tool and closes when the episode ends."""

    def close(self) -> None: ...


class Use(Held, Protocol):
    """A tool in one episode."""

    def call(self, arguments: Mapping[str, Any]) -> str:
        """The result of a call. Args: arguments: values that match the tool's schema.

        Raises: Overtime, Ended.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class EnvTool(Tool, ABC):
    """A tool of an environment: its description for the policy, and how an episode opens it."""

    @abstractmethod
    def open(self) -> Held:
        """Open the tool for one episode: a `Use`, or an object for `ask`. Processes start at the first call."""

    @property
    def isolation(self) -> str:
        """The isolation level that it needs; empty for none."""
        return ""

    def prepare(self) -> None:
        """Slow preparation, done once per process before any episode.

        Raises: GnomonError if the tool cannot work on this host.
        """
        if self.isolation:
            capabilities((self.isolation,))

    def ask(self, host: Any, arguments: Mapping[str, Any]) -> str:
        """Execute a call. Args: host: the result of `open` of this tool, or of another with the same host."""
        result: str = host.call(arguments)
        return result

    @property
    def host(self) -> object:
        """A hashable key. Tools with equal keys share one opened object."""
        return self.name

    @property
    def argument(self) -> str | None:
        """The name of the argument if there is one and it is text. Such a tool can be called in the plain form."""
        properties = self.parameters.get("properties", {})
        if len(properties) != 1:
            return None
        ((name, schema),) = properties.items()
        return name if schema.get("type") == "string" else None


@dataclass(frozen=True, kw_only=True)
class Stateless(EnvTool):
    """A tool without state between calls."""

    @abstractmethod
    def call(self, arguments: Mapping[str, Any]) -> str: ...

    def open(self) -> Use:
        return self

    def close(self) -> None:
        """Does nothing: the tool holds no resources."""


class Outcome(StrEnum):
    """The outcome of a call. The policy causes it, and it never ends an episode."""

    ANSWERED = "answered"
    MALFORMED = "malformed"
    """The call cannot be parsed, names no tool, or has invalid arguments."""
    OVERTIME = "overtime"
    """The tool exceeded its time limit and was ended."""
    ENDED = "ended"
    """The process behind the tool has ended."""
    RAISED = "raised"
    """The tool's own code raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The text that answers a call, and the outcome."""

    text: str
    outcome: Outcome


def use(tool: EnvTool, host: Any, arguments: Mapping[str, Any], most: int = MOST) -> Result:
    """Call a tool. Args: most: characters of the result.

    Raises: ResourceError if this host cannot run the tool. A policy cannot cause this.
    """
    if problem := mismatch(tool.parameters, arguments):
        return Result(text=cap_text(f"error: {problem}", most), outcome=Outcome.MALFORMED)
    try:
        return Result(text=cap_text(tool.ask(host, arguments), most), outcome=Outcome.ANSWERED)
    except Overtime as late:
        text, outcome = f"{late}\nerror: the time of the call is over", Outcome.OVERTIME
    except Ended as end:
        text, outcome = f"{end}\nerror: it has ended, and begins afresh with the next call", Outcome.ENDED
    except ResourceError:
        raise
    except (Exception, SystemExit) as error:
        text, outcome = f"error: {type(error).__name__}: {error}", Outcome.RAISED
    return Result(text=cap_text(text.lstrip("\n"), most), outcome=outcome)


TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def mismatch(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Why arguments do not match a schema, by names and outermost types; empty if they do."""
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in arguments:
            return f"the argument {name!r} is missing"
    for name, value in arguments.items():
        if name not in properties:
            if schema.get("additionalProperties"):
                continue
            return f"there is no argument {name[:40]!r}; it takes {', '.join(map(repr, properties)) or 'none'}"
        declared_type = properties[name].get("type")
        types = [declared_type] if isinstance(declared_type, str) else declared_type or list(TYPES)
        kinds = tuple(kind for each in types for kind in TYPES.get(each, (object,)))
        if not isinstance(value, kinds) or (isinstance(value, bool) and not {bool, object} & set(kinds)):
            return f"the argument {name!r} must be {' or '.join(types)}"
    return ""


def cap_text(text: str, most: int = MOST) -> str:
    """At most `most` characters of a text, without control characters. Longer texts lose their middle, with a note."""
    text = "".join(sign if sign.isprintable() or sign in "\n\t" else "�" for sign in text)
    if len(text) <= most:
        return text
    note = f"\n[{len(text)} characters, cut]\n"
    room = max(0, most - len(note))
    return (text[: room - room // 2] + note + text[len(text) - room // 2 :])[:most]


def text_argument(name: str, description: str = "") -> dict[str, Any]:
    """The schema of a tool with one text argument."""
    described = {"description": description} if description else {}
    return {"type": "object", "properties": {name: {"type": "string", **described}}, "required": [name]}
