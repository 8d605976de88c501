"""What a tool of an episode is, and the one place where it is called: every call gets a text, none is an exception."""

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
    "capped",
    "text_argument",
    "use",
]

MOST = 4096
"""Characters of a result that are told."""


class Overtime(Exception):
    """A call used up its time; the message is what was seen until then."""


class Ended(Exception):
    """What stood behind a tool is gone, whoever ended it; the next call gets a fresh one."""


class Held(Protocol):
    """What an episode holds for a tool, to be let go when it is over."""

    def close(self) -> None: ...


class Use(Held, Protocol):
    """A tool in one episode."""

    def call(self, arguments: Mapping[str, Any]) -> str:
        """What the tool says. Args: arguments: as its schema wants them.

        Raises: Overtime, Ended.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class EnvTool(Tool, ABC):
    """A tool that an environment lends: what the policy is told of it, and how an episode gets its own."""

    @abstractmethod
    def open(self) -> Held:
        """The tool for one episode: a `Use`, or what `ask` makes use of. It starts nothing before it is called."""

    @property
    def isolation(self) -> str:
        """The isolation of the sandbox that it needs; empty for none."""
        return ""

    def prepare(self) -> None:
        """What is done once per process, before any episode, and may take its time.

        Raises: GnomonError, where the tool cannot work here.
        """
        if self.isolation:
            capabilities((self.isolation,))

    def ask(self, opened: Any, arguments: Mapping[str, Any]) -> str:
        """Carry a call out. Args: opened: what `open` gave, to this tool or to another of the same host."""
        result: str = opened.call(arguments)
        return result

    @property
    def host(self) -> object:
        """Tools of an equal host share what was opened. Hashable."""
        return self.name

    @property
    def argument(self) -> str | None:
        """The one argument, where it is one text: such a tool may be called in the plain form."""
        properties = self.parameters.get("properties", {})
        if len(properties) != 1:
            return None
        ((name, schema),) = properties.items()
        return name if schema.get("type") == "string" else None


@dataclass(frozen=True, kw_only=True)
class Stateless(EnvTool):
    """A tool that keeps nothing between calls."""

    @abstractmethod
    def call(self, arguments: Mapping[str, Any]) -> str: ...

    def open(self) -> Use:
        return self

    def close(self) -> None:
        """Nothing is held."""


class Outcome(StrEnum):
    """What became of a call. All of it is the policy's doing, and none of it ends an episode."""

    ANSWERED = "answered"
    MALFORMED = "malformed"
    """It could not be read, names no tool, or its arguments are not what the tool takes."""
    OVERTIME = "overtime"
    """The tool did not come back in time, and was ended."""
    ENDED = "ended"
    """What stood behind the tool is gone."""
    RAISED = "raised"
    """The tool's own code raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a call is told, and what became of it."""

    text: str
    outcome: Outcome


def use(tool: EnvTool, opened: Any, arguments: Mapping[str, Any], most: int = MOST) -> Result:
    """Call a tool. Args: most: characters of the result.

    Raises: ResourceError, where this host cannot run the tool at all: no policy can cause that.
    """
    if problem := mismatch(tool.parameters, arguments):
        return Result(text=capped(f"error: {problem}", most), outcome=Outcome.MALFORMED)
    try:
        return Result(text=capped(tool.ask(opened, arguments), most), outcome=Outcome.ANSWERED)
    except Overtime as late:
        text, outcome = f"{late}\nerror: the time of the call is over", Outcome.OVERTIME
    except Ended as end:
        text, outcome = f"{end}\nerror: it has ended, and begins afresh with the next call", Outcome.ENDED
    except ResourceError:
        raise
    except (Exception, SystemExit) as error:
        text, outcome = f"error: {type(error).__name__}: {error}", Outcome.RAISED
    return Result(text=capped(text.lstrip("\n"), most), outcome=outcome)


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
    """Why arguments are not what a tool takes, by names and outermost types; empty where they are."""
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in arguments:
            return f"the argument {name!r} is missing"
    for name, value in arguments.items():
        if name not in properties:
            if schema.get("additionalProperties"):
                continue
            return f"there is no argument {name[:40]!r}; it takes {', '.join(map(repr, properties)) or 'none'}"
        wanted = properties[name].get("type")
        allowed = [wanted] if isinstance(wanted, str) else wanted or list(TYPES)
        kinds = tuple(kind for each in allowed for kind in TYPES.get(each, (object,)))
        if not isinstance(value, kinds) or (isinstance(value, bool) and not {bool, object} & set(kinds)):
            return f"the argument {name!r} must be {' or '.join(allowed)}"
    return ""


def capped(text: str, most: int = MOST) -> str:
    """A text of at most `most` characters: what is too long loses its middle, and says so. No control characters."""
    text = "".join(sign if sign.isprintable() or sign in "\n\t" else "�" for sign in text)
    if len(text) <= most:
        return text
    note = f"\n[{len(text)} characters, cut]\n"
    room = max(0, most - len(note))
    return (text[: room - room // 2] + note + text[len(text) - room // 2 :])[:most]


def text_argument(name: str, description: str = "") -> dict[str, Any]:
    """The schema of a tool with one argument, a text."""
    described = {"description": description} if description else {}
    return {"type": "object", "properties": {name: {"type": "string", **described}}, "required": [name]}
