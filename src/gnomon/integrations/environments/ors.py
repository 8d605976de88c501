"""The Open Reward Standard: tasks and tools over HTTP. The answer to a tool call may contain a reward."""

from __future__ import annotations

import http.client
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any
from urllib.parse import quote, urlsplit

from gnomon.envs.base import Step, identity, user
from gnomon.errors import VerifierError
from gnomon.integrations.environments.openenv import final_verdict, payment
from gnomon.integrations.environments.remote import fetch
from gnomon.keys import Key
from gnomon.types import Message, Part, Status, Task, Verdict

__all__ = ["Ors"]

PING = 10.0
"""Seconds between pings. A server drops a session without pings."""
STREAM = 2**24
"""Largest answer to a call, in bytes."""


@dataclass(frozen=True, kw_only=True)
class Ors:
    """An environment of an ORS server. A reply is the input of one tool. The server's splits are used.

    A session is pinged while the episode lasts, and then deleted. If the answer to a call is cut short, it is requested
    again by the call's id, so the call is not made twice. If the call has no id yet, it raises, and the episode is
    replayed in a new session.

    A reward that is not a finite number from `low` to `high` raises VerifierError E174; all other failures raise E179.

    Source: ors-sdk 0.1, `Server`.
    """

    url: str
    env: str = ""
    """Name of the server's environment; if empty, its first one."""
    tool: str = ""
    """Tool that a reply calls; if empty, the only one."""
    argument: str = ""
    """Argument of the tool that takes the reply's text; if empty, its only required one."""
    low: float = 0.0
    high: float = 1.0
    turns: int = 50
    seconds: float = 30.0
    """Wall-clock seconds without data from a call before it fails."""
    tries: int = 3
    """Number of requests for a call's answer."""

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def max_turns(self) -> int:
        return self.turns

    @property
    def path(self) -> str:
        return "/" + quote(self.env or self.get("/list_environments")[0], safe="")

    def tasks(self, split: str) -> OrsTasks:
        return OrsTasks(self, split)

    def start(self, task: Task, key: Key) -> OrsEpisode:
        return OrsEpisode(self, task)

    def get(self, path: str, session: str = "") -> Any:
        return fetch(self.url, path, None, {"X-Session-ID": session} if session else {})

    def post(self, path: str, body: Mapping[str, Any], session: str = "", tries: int = 3) -> Any:
        return fetch(self.url, path, body, {"X-Session-ID": session} if session else {}, tries)


class OrsTasks(Sequence[Task]):
    """The tasks of one of the server's splits. The prompt of a task comes from its session."""

    def __init__(self, env: Ors, split: str) -> None:
        self.env, self.split = env, split
        self.path = env.path
        self._size = int(env.post(f"{self.path}/num_tasks", {"split": split})["num_tasks"])

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        if not 0 <= index < self._size:
            raise IndexError(index)
        where = {"split": self.split, "index": index}
        spec = self.env.post(f"{self.path}/task", where)["task"]
        session = Session(self.env, where)
        try:
            messages = session.prompt()
        finally:
            session.close()
        return Task(
            id=identity("ors", self.path, json.dumps(spec, sort_keys=True)), messages=messages, answer=None, info=where
        )


class Session:
    """A session: one environment on the server, kept alive by pings."""

    def __init__(self, env: Ors, where: Mapping[str, Any]) -> None:
        self.env, self.path, self.id = env, env.path, secrets.token_hex(16)
        # The server refuses to create a session twice, so this is not retried.
        env.post("/create", {"env_name": self.path[1:], **where}, self.id, tries=1)
        self._over = Event()
        self._pinger = Thread(target=self._ping, daemon=True)
        self._pinger.start()

    def _ping(self) -> None:
        while not self._over.wait(PING):
            with suppress(VerifierError):
                self.env.post("/ping", {}, self.id)

    def prompt(self) -> tuple[Message, ...]:
        return user(texts(self.env.get(f"{self.path}/prompt", self.id), self.env.url))

    def tool_call(self) -> tuple[str, str]:
        """The tool of a reply and the argument for its text. Raises: VerifierError E179."""
        tools = self.env.get(f"{self.path}/task_tools", self.id)["tools"]
        tools_named = [tool for tool in tools if self.env.tool in ("", tool["name"])]
        if len(tools_named) != 1:
            names = ", ".join(tool["name"] for tool in tools)
            raise VerifierError(
                "E179",
                "the server has several tools and none is selected",
                where=self.env.url,
                fix=f"tool=, one of {names}",
            )
        schema = tools_named[0].get("input_schema") or {}
        required = schema.get("required") or list(schema.get("properties") or {})
        if not self.env.argument and len(required) != 1:
            names = ", ".join(required)
            raise VerifierError(
                "E179",
                "the tool has several arguments and none is selected",
                where=self.env.url,
                fix=f"argument=, one of {names}",
            )
        return tools_named[0]["name"], self.env.argument or required[0]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The output of a tool call. Raises: VerifierError E179."""
        body: dict[str, Any] = {"name": tool, "input": arguments}
        problem: Exception = ValueError("it was never tried")
        for _ in range(self.env.tries):
            try:
                answer = json.loads("".join(self._stream(body)))
                break
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = error
                if "task_id" not in body:
                    # The call may have been made, and without an id its answer cannot be requested.
                    raise no_answer(self.env.url, error) from error
        else:
            raise no_answer(self.env.url, problem) from problem
        if not isinstance(answer, Mapping) or not answer.get("ok"):
            raise VerifierError("E179", f"the server answered the tool {tool} with {answer!r:.300}", where=self.env.url)
        output: Mapping[str, Any] = answer["output"]
        return output

    def _stream(self, body: dict[str, Any]) -> Iterator[str]:
        """Yield the pieces of an answer as they arrive. Stores the call's id in the body as soon as it is known."""
        parts = urlsplit(self.env.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.env.seconds)
        try:
            headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "X-Session-ID": self.id}
            connection.request("POST", f"{parts.path.rstrip('/')}{self.path}/call", json.dumps(body), headers)
            response = connection.getresponse()
            if response.status != 200:
                why = f"status {response.status}: {response.read(300)!r}"
                raise VerifierError("E179", "the server refused a call", where=self.env.url, why=why)
            for event, data in events(response):
                if event == "task_id":
                    body["task_id"] = data
                elif event == "chunk":
                    yield data
                elif event == "end":
                    yield data
                    return
                elif event == "error":
                    raise VerifierError("E179", "a call failed", where=self.env.url, why=data[:300])
            raise ConnectionError("the answer is incomplete")
        finally:
            connection.close()

    def close(self) -> None:
        self._over.set()
        with suppress(VerifierError):
            self.env.post("/delete", {}, self.id)


def events(response: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    """Yield server-sent events: name and data. Raises: ValueError if the response is too large."""
    data: list[str] = []
    name, size = "message", 0
    while line := response.readline(STREAM):
        size += len(line)
        if size > STREAM:
            raise ValueError(f"an answer of more than {STREAM} bytes")
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if not text:
            if data:
                yield name, "\n".join(data)
            name, data = "message", []
        elif text.startswith("event:"):
            name = text[6:].strip()
        elif text.startswith("data:"):
            data.append(text[5:].removeprefix(" "))


class OrsEpisode:
    """One episode, in its own session."""

    def __init__(self, env: Ors, task: Task) -> None:
        self.env, self.messages = env, task.messages
        self._session = Session(env, task.info)
        self._earned, self._turns = 0.0, 0
        try:
            if self._session.prompt() != task.messages:
                raise VerifierError(
                    "E175", f"task {task.id} gives another first observation than before", where=env.url
                )
            self._tool, self._argument = self._session.tool_call()
        except BaseException:
            self.close()
            raise

    def step(self, reply: str) -> Step:
        """Take one reply. Raises: VerifierError E174 or E179."""
        self._turns += 1
        output = self._session.call(self._tool, {self._argument: reply})
        self._earned += payment(output.get("reward"), self.env.url)
        if output.get("finished"):
            return Step(done=True, verdict=final_verdict(self._earned, self.env.low, self.env.high, self.env.url))
        if self._turns < self.env.turns:
            return Step(messages=user(texts(output.get("blocks"), self.env.url) or "Go on."), done=False)
        part = Part(name="earned", value=self.env.low)
        unfinished = f"not over after {self._turns} replies"
        return Step(done=True, verdict=Verdict(status=Status.WRONG, parts=(part,), detail=unfinished))

    def close(self) -> None:
        self._session.close()


def texts(blocks: Any, where: str) -> str:
    """The text of content blocks. Raises: VerifierError E179 for images."""
    if not isinstance(blocks, list) or any(block.get("type") != "text" for block in blocks):
        raise VerifierError("E179", f"the server returned {blocks!r:.200} instead of text blocks", where=where)
    return "\n".join(str(block["text"]) for block in blocks)


def no_answer(url: str, error: Exception) -> VerifierError:
    return VerifierError("E179", "the answer to a call was lost", where=url, why=f"{type(error).__name__}: {error}")
