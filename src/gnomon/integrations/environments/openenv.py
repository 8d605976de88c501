"""OpenEnv: an environment behind a WebSocket, one session for each episode."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from gnomon.envs.base import Step, Tasks, identity, split_of, user
from gnomon.envs.messages import text_of
from gnomon.errors import ResourceError, VerifierError
from gnomon.integrations.rewards.base import clip
from gnomon.keys import Key
from gnomon.types import Part, Status, Task, Verdict

__all__ = ["OpenEnv"]

SLACK = 1e-9
MESSAGE = 2**24
"""Largest size of a message, in bytes."""
CLOSING = 2.0
"""Seconds that a server may take to close a connection."""


@dataclass(frozen=True, kw_only=True)
class OpenEnv:
    """A server of OpenEnv (0.10). A task is a seed, which is passed to `reset`.

    The session is the connection: it is open while the episode lasts. A step is never sent twice, since the server may
    have taken it. An episode whose connection breaks raises, and is replayed from its beginning with the recorded
    completions.

    An episode ends when the server reports `done`; it earns the sum of its rewards. A sum that is not a finite number
    from `low` to `high` raises VerifierError E174; all other failures raise E179.

    Source: openenv 0.10, `/ws`: messages `reset`, `step` and `close`; answers `observation` and `error`.
    """

    url: str
    """URL of the server, http or ws; the path of its socket is `/ws`."""
    field: str = "message"
    """Field of an action that takes the reply's text."""
    shows: str = ""
    """Field of an observation that is shown. If empty, the only text field, or the whole observation as JSON."""
    action: Mapping[str, Any] | tuple[tuple[str, Any], ...] = ()
    """Additional fields of every action."""
    low: float = 0.0
    high: float = 1.0
    turns: int = 50
    seconds: float = 30.0
    """Wall-clock seconds for one answer."""
    seed: int = 0

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def max_turns(self) -> int:
        return self.turns

    def tasks(self, split: str) -> Sequence[Task]:
        return Seeds(self, split)

    def start(self, task: Task, key: Key) -> OpenEnvEpisode:
        return OpenEnvEpisode(self, task)

    def show(self, observation: Any) -> str:
        """The text of an observation."""
        if isinstance(observation, Mapping):
            if self.shows:
                return text_of(observation.get(self.shows, ""), json.dumps)
            texts = [value for name, value in observation.items() if isinstance(value, str) and value]
            if len(texts) == 1:
                return texts[0]
            observation = {name: value for name, value in observation.items() if name != "metadata"}
        return json.dumps(observation, sort_keys=True)


class Seeds(Tasks):
    """Seeds of a split, each with its first observation."""

    def __init__(self, env: OpenEnv, split: str) -> None:
        super().__init__(env, split)  # type: ignore[arg-type]
        self.server = env

    def draw(self, purpose: str, index: int) -> Task:
        key = Key(self.server.seed).at("OpenEnv", split=self.split)
        for attempt in range(10_000):
            seed = key.at(purpose, index=index, attempt=attempt).integer() % 2**31
            own = identity("openenv", seed)
            if split_of(own) == self.split:
                session = Session(self.server)
                try:
                    text = session.reset(seed)
                finally:
                    session.close()
                return Task(id=own, messages=user(text), answer=None, info={"seed": seed})
        raise AssertionError("every split has a seed among the first few")


class Session:
    """One connection to a server; it is one environment there."""

    def __init__(self, env: OpenEnv) -> None:
        self.env, self._held = env, ExitStack()
        base = env.url.replace("http", "ws", 1) if env.url.startswith("http") else env.url
        try:
            from websockets.exceptions import WebSocketException
            from websockets.sync.client import connect
        except ModuleNotFoundError as error:
            raise ResourceError(
                "E505", "the package websockets is not installed", where=env.url, why="OpenEnv uses a WebSocket",
                fix='pip install "gnomon[openenv]"',
            ) from error  # fmt: skip
        self._broken = OSError, ValueError, WebSocketException
        try:
            self._socket = self._held.enter_context(
                connect(
                    base.rstrip("/") + "/ws",
                    open_timeout=env.seconds,
                    close_timeout=CLOSING,
                    max_size=MESSAGE,
                    ping_interval=None,  # A ping draws its content from this process's `random`, at any moment.
                    proxy=None,
                )
            )
        except self._broken as error:
            raise no_answer(env.url, error) from error

    def reset(self, seed: int) -> str:
        return self.env.show(self.ask("reset", {"seed": seed}).get("observation"))

    def ask(self, kind: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Raises: VerifierError E179."""
        try:
            self._socket.send(json.dumps({"type": kind, "data": data}))
            answer = json.loads(self._socket.recv(timeout=self.env.seconds))
        except self._broken as error:
            raise no_answer(self.env.url, error) from error
        if not isinstance(answer, Mapping) or answer.get("type") != "observation":
            raise VerifierError("E179", f"the server answered {kind} with {answer!r:.300}", where=self.env.url)
        result = answer.get("data")
        if not isinstance(result, Mapping):
            raise VerifierError(
                "E179", f"an observation must be a JSON object and is {result!r:.300}", where=self.env.url
            )
        return result

    def close(self) -> None:
        # Without this message, a server may keep the environment until an idle timeout.
        with suppress(*self._broken):
            self._socket.send(json.dumps({"type": "close"}))
        self._held.close()


class OpenEnvEpisode:
    """One episode, over its own connection."""

    def __init__(self, env: OpenEnv, task: Task) -> None:
        self.env, self.messages = env, task.messages
        self._session = Session(env)
        self._earned, self._turns = 0.0, 0
        try:
            text = self._session.reset(task.info["seed"])
            if user(text) != task.messages:
                raise VerifierError(
                    "E175", f"seed {task.info['seed']} gives another first observation than before", where=env.url,
                    why="the server ignores the seed or uses another source of randomness",
                )  # fmt: skip
        except BaseException:
            self.close()
            raise

    def step(self, reply: str) -> Step:
        """Take one reply. Raises: VerifierError E174 or E179."""
        self._turns += 1
        result = self._session.ask("step", {**dict(self.env.action), self.env.field: reply})
        self._earned += payment(result.get("reward"), self.env.url)
        if not result.get("done"):
            if self._turns < self.env.turns:
                return Step(messages=user(self.env.show(result.get("observation"))), done=False)
            part = Part(name="earned", value=self.env.low)
            unfinished = f"not over after {self._turns} replies"
            return Step(done=True, verdict=Verdict(status=Status.WRONG, parts=(part,), detail=unfinished))
        return Step(done=True, verdict=final_verdict(self._earned, self.env.low, self.env.high, self.env.url))

    def close(self) -> None:
        self._session.close()


def payment(reward: Any, where: str) -> float:
    """A reward as a number; 0 for None. Raises: VerifierError E174."""
    if reward is None:
        return 0.0
    if isinstance(reward, bool | int | float) and math.isfinite(reward):
        return float(reward)
    raise VerifierError("E174", f"the reward is {reward!r:.100} and must be a finite number", where=where)


def final_verdict(total: float, low: float, high: float, where: str) -> Verdict:
    """The verdict on a finished episode. Raises: VerifierError E174."""
    total = clip(total, low, high)
    if not low <= total <= high:
        raise VerifierError(
            "E174", f"the reward {total:g} is outside the declared range {low:g} to {high:g}", where=where,
            fix="set low=… and high=… to the range in the environment's documentation",
        )  # fmt: skip
    status = Status.CORRECT if total >= high - SLACK else Status.WRONG
    return Verdict(status=status, parts=(Part(name="earned", value=total),))


def no_answer(url: str, error: Exception) -> VerifierError:
    return VerifierError("E179", "the server closed the connection", where=url, why=f"{type(error).__name__}: {error}")
