"""An environment that another process of this machine serves (`gnomon serve-env`)."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from gnomon.envs.base import Step
from gnomon.envs.wire import key_json, read_messages, read_step
from gnomon.errors import VerifierError
from gnomon.keys import Key
from gnomon.repeats import Repeats
from gnomon.types import Status, Task
from gnomon.verifiers.judging import limit_verdict

__all__ = ["Remote", "fetch"]

TRIES = 3
"""Number of tries of a request. A step depends only on the request, so it can be repeated."""
LONG = 2**22
"""Largest number of characters in all completions of an episode. As JSON they fit into one request."""
PATIENCE = 120.0
"""Seconds to wait for an answer; the server's own limit is much shorter."""


@dataclass(frozen=True, kw_only=True)
class Remote:
    """An environment that is served by another process.

    Raises VerifierError E179 if the server cannot judge a reply or cannot be reached.
    """

    url: str
    token_variable: str = "GNOMON_TOKEN"
    """The environment variable that holds the token. A recipe never contains the token."""

    @property
    def reward_range(self) -> tuple[float, float]:
        low, high = self._about["reward_range"]
        return float(low), float(high)

    @property
    def max_turns(self) -> int:
        return int(self._about["max_turns"])

    @property
    def players(self) -> int:
        return int(self._about["players"])

    @property
    def _about(self) -> Mapping[str, Any]:
        return about(self, self.token)

    def tasks(self, split: str) -> RemoteTasks:
        return RemoteTasks(self, split)

    def start(self, task: Task, key: Key) -> RemoteEpisode:
        return RemoteEpisode(self, task, key)

    @property
    def token(self) -> str:
        return os.environ.get(self.token_variable, "")

    def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON answer to a request. Raises: VerifierError E179."""
        return fetch(self.url, path, body, {"Authorization": f"Bearer {self.token}"})


@lru_cache(maxsize=64)
def about(env: Remote, token: str) -> Mapping[str, Any]:
    """What a server says of its environment. Another server at the same address has another token."""
    facts: Mapping[str, Any] = env.ask("/v1/env", {})
    return facts


class RemoteTasks(Sequence[Task]):
    """The tasks of one split, without their answers."""

    def __init__(self, env: Remote, split: str) -> None:
        self.env, self.split = env, split
        self._size = int(about(env, env.token)["sizes"][split])

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        if not 0 <= index < self._size:
            raise IndexError(index)
        return cached_task(self.env, self.env.token, self.split, index)


@lru_cache(maxsize=4096)
def cached_task(env: Remote, token: str, split: str, index: int) -> Task:
    where = {"split": split, "index": index}
    data = env.ask("/v1/task", where)
    return Task(id=str(data["id"]), messages=read_messages(data["messages"]), answer=None, info=where)


class RemoteEpisode:
    """One episode. Every request contains the whole episode so far."""

    def __init__(self, env: Remote, task: Task, key: Key) -> None:
        self.env, self.task, self.key = env, task, key
        self._replies: list[str] = []
        self.messages = self._ask().messages

    def step(self, reply: str) -> Step:
        self._replies.append(reply)
        step = self._ask()
        for verdict in step.verdicts or (step.verdict,):
            if verdict is not None and verdict.status is Status.FAILED:
                raise VerifierError(
                    "E179", "the server could not judge a reply", where=self.env.url, why=verdict.detail
                )
        return step

    def _ask(self) -> Step:
        if sum(map(len, self._replies)) > LONG:
            return self._too_long()
        request = {**self.task.info, "key": key_json(self.key), "replies": self._replies}
        try:
            return read_step(self.env.ask("/v1/step", request))
        except (KeyError, TypeError, ValueError) as error:
            raise VerifierError("E179", "the server's answer is not a step", where=self.env.url) from error

    def _too_long(self) -> Step:
        verdict, players = (
            limit_verdict(f"more than {LONG} characters in all completions", self.env.reward_range),
            self.env.players,
        )
        return Step(done=True, verdict=verdict) if players == 1 else Step(done=True, verdicts=(verdict,) * players)

    def close(self) -> None:
        """Does nothing: the episode holds no resources."""


def fetch(url: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str], tries: int = TRIES) -> Any:
    """The JSON answer of a server. Args: body: None for a GET.

    Raises: VerifierError E179 if the server cannot be reached after `tries` tries, or refuses the request.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    repeats = Repeats(tries - 1)
    while True:
        connection = kind(parts.hostname or "", parts.port, timeout=PATIENCE)
        try:
            all_headers = {"Content-Type": "application/json", **headers} if body is not None else dict(headers)
            content = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", parts.path.rstrip("/") + path, content, all_headers)
            response = connection.getresponse()
            text = response.read()
            if response.status >= 500:
                raise ValueError(f"status {response.status}: {text[:300]!r}")
            if response.status != 200:
                why = f"status {response.status}: {text[:300].decode(errors='replace')}"
                raise VerifierError("E179", f"the server refused {path}", where=url, why=why)
            return json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            if not repeats.another(why):
                raise VerifierError("E179", f"no answer to {path} in {tries} tries", where=url, why=why) from error
        finally:
            connection.close()
