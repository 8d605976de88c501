"""A person as the policy of a program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from gnomon.agents.exchange import ChatReply, ChatRequest, Refused, meaning
from gnomon.envs.agent import Launch
from gnomon.envs.play import show
from gnomon.images import Image
from gnomon.rollout.programs import Programs
from gnomon.types import Message, ToolCall

__all__ = ["Person", "run"]

SECONDS = 3600.0
"""Wall-clock limit of a program that waits for a person."""


def run(launch: Launch, read: Callable[[str], str], write: Callable[[str], object]) -> str:
    """Run a program whose requests a person answers. Returns: how it ended, as the environment judges it.

    Raises: EOFError if the person ends the input.
    """
    with TemporaryDirectory(prefix="gnomon-") as pictures:
        person = Person(read, write, launch.calls, Path(pictures))
        end = asyncio.run(Programs().play(replace(launch, seconds=SECONDS), person, "play"))
    if end.output:
        write(end.output.rstrip())
    write(f"the limit of {end.limit} ended the program" if end.limit else f"exit status {end.status}")
    return end.dumps(launch.files)


@dataclass(slots=True, eq=False)
class Person:
    """Answers requests with what a person types: text, or the name of a tool and its arguments as JSON."""

    read: Callable[[str], str]
    write: Callable[[str], object]
    calls: int
    """Largest number of replies."""
    pictures: Path
    """Folder for the images that the program sends."""
    error: BaseException | None = None
    _seen: tuple[Message, ...] = ()
    _replies: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def see(self, images: Collection[Image]) -> None:
        """Nothing is decoded: a person opens the files."""

    async def answer(self, request: ChatRequest) -> ChatReply:
        async with self._turn:
            if self.error is not None or self._replies >= self.calls:
                why = "nobody answers" if self.error else f"the limit of {self.calls} calls is reached"
                raise Refused(why, status=403, code="limit_calls")
            self._show(request)
            try:
                typed = await asyncio.to_thread(self.read, "> ")
            except EOFError as error:
                self.error = error
                raise Refused("nobody answers", status=403, code="limit_calls") from None
            self._replies += 1
            message = typed_message(typed, request, f"call_{self._replies}")
            self._seen = (*request.messages, message)
        finish = "tool_calls" if message.calls else "stop"
        return ChatReply(name=f"{self._replies:024x}", message=message, finish=finish, prompt_tokens=0, tokens=0)

    def _show(self, request: ChatRequest) -> None:
        """Write the messages that are new, and the tools of a new conversation."""
        earlier = [*map(meaning, self._seen)]
        continues = bool(earlier) and [*map(meaning, request.messages[: len(earlier)])] == earlier
        show(request.messages[len(earlier) if continues else 0 :], self.pictures, self.write)
        for tool in () if continues else request.tools:
            self.write(f"tool {tool.name}: {tool.description}")

    def settle(self, outcome: ChatReply | Refused, delivered: bool) -> None:
        """Nothing is recorded."""

    def count(self, request: ChatRequest) -> int:
        return 0

    async def close(self) -> None:
        """Nothing is open."""


def typed_message(typed: str, request: ChatRequest, name: str) -> Message:
    """The message that a person typed: `bash {"command": "ls"}` calls the tool `bash`."""
    tool, _, arguments = typed.strip().partition(" ")
    call = ToolCall(id=name, name=tool, arguments=arguments or "{}")
    if request.calls and tool in {each.name for each in request.tools} and call.sound:
        return Message(role="assistant", calls=(call,))
    return Message(role="assistant", content=typed)
