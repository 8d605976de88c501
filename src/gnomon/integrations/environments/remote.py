"""An environment that another process of this machine serves (`gnomon serve`)."""

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
from gnomon.types import Status, Task
from gnomon.verifiers.judging import exceeded

__all__ = ["Remote", "fetched"]

TRIES = 3
"""A step is a function of what is sent, so it may be asked for again."""
LONG = 2**22
"""Characters that may be said in an episode: as JSON, even six bytes for each are fewer than a server takes."""
PATIENCE = 120.0
"""Seconds for an answer: the server ends a step long before."""


@dataclass(frozen=True, kw_only=True)
class Remote:
    """The client of a served environment, which is an environment itself.

    What the server cannot judge, and a server that is not there, raise VerifierError E179.
    """

    url: str
    token_variable: str = "GNOMON_TOKEN"
    """The variable of the process's environment that holds the token; a recipe never does."""

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
        return about(self)

    def tasks(self, split: str) -> RemoteTasks:
        return RemoteTasks(self, split)

    def start(self, task: Task, key: Key) -> RemoteEpisode:
        return RemoteEpisode(self, task, key)

    def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """Raises: VerifierError E179."""
        token = os.environ.get(self.token_variable, "")
        return fetched(self.url, path, body, {"Authorization": f"Bearer {token}"})


@lru_cache(maxsize=64)
def about(env: Remote) -> Mapping[str, Any]:
    found: Mapping[str, Any] = env.ask("/v1/env", {})
    return found


class RemoteTasks(Sequence[Task]):
    """The tasks of one split, as far as a player may see them."""

    def __init__(self, env: Remote, split: str) -> None:
        self.env, self.split = env, split
        self._size = int(about(env)["sizes"][split])

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        if not 0 <= index < self._size:
            raise IndexError(index)
        return seen(self.env, self.split, index)


@lru_cache(maxsize=4096)
def seen(env: Remote, split: str, index: int) -> Task:
    where = {"split": split, "index": index}
    told = env.ask("/v1/task", where)
    return Task(id=str(told["id"]), messages=read_messages(told["messages"]), answer=None, info=where)


class RemoteEpisode:
    """One play; all of it is sent each time."""

    def __init__(self, env: Remote, task: Task, key: Key) -> None:
        self.env, self.task, self.key = env, task, key
        self._replies: list[str] = []
        self.messages = self._told().messages

    def step(self, reply: str) -> Step:
        self._replies.append(reply)
        step = self._told()
        for verdict in step.verdicts or (step.verdict,):
            if verdict is not None and verdict.status is Status.FAILED:
                raise VerifierError(
                    "E179", "the server could not judge a reply", where=self.env.url, why=verdict.detail
                )
        return step

    def _told(self) -> Step:
        if sum(map(len, self._replies)) > LONG:
            return self._too_long()
        asked = {**self.task.info, "key": key_json(self.key), "replies": self._replies}
        try:
            return read_step(self.env.ask("/v1/step", asked))
        except (KeyError, TypeError, ValueError) as error:
            raise VerifierError("E179", "the server's answer is not a step", where=self.env.url) from error

    def _too_long(self) -> Step:
        verdict, players = (
            exceeded(f"more than {LONG} characters in all completions", self.env.reward_range),
            self.env.players,
        )
        return Step(done=True, verdict=verdict) if players == 1 else Step(done=True, verdicts=(verdict,) * players)

    def close(self) -> None:
        """Nothing is held."""


def fetched(url: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str], tries: int = TRIES) -> Any:
    """The JSON that a server answers with. Args: body: None for a GET.

    Raises: VerifierError E179 for a server that is not there after some tries, or that refuses.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    problem: Exception = ValueError("it was never tried")
    for _ in range(tries):
        connection = kind(parts.hostname or "", parts.port, timeout=PATIENCE)
        try:
            told = {"Content-Type": "application/json", **headers} if body is not None else dict(headers)
            content = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", parts.path.rstrip("/") + path, content, told)
            response = connection.getresponse()
            text = response.read()
            if response.status >= 500:
                problem = ValueError(f"status {response.status}: {text[:300]!r}")
                continue
            if response.status != 200:
                why = f"status {response.status}: {text[:300].decode(errors='replace')}"
                raise VerifierError("E179", f"the server refused {path}", where=url, why=why)
            return json.loads(text)
        except (OSError, http.client.HTTPException, ValueError) as error:
            problem = error
        finally:
            connection.close()
    why = f"{type(problem).__name__}: {problem}"
    raise VerifierError("E179", f"no answer to {path} in {tries} tries", where=url, why=why)
