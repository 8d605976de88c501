"""Environments of other libraries, each episode in a process of another interpreter: GEM, TextArena, verifiers …"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from gnomon.envs.base import Step, Tasks, identity, split_of, stream_of, user
from gnomon.errors import ConfigError, VerifierError
from gnomon.integrations.environments.hosting import Conversation, Host, Late, conversation
from gnomon.integrations.rewards.base import clip
from gnomon.keys import Key
from gnomon.types import Message, Part, Status, Task, Verdict
from gnomon.verifiers import Extraction, Strictness, extract
from gnomon.verifiers.judging import limit_verdict

__all__ = ["Gem", "Gym", "Hosted", "TextArena", "VerifiersEnv"]

HINT = "Your move goes alone into <answer>...</answer>, without the brackets or boxes named above."
PROBES = ("", "1", "[1]", r"\boxed{1}")
"""Replies sent to two new processes, to test whether both give the same episode."""
MANY = 2**30 + 2
"""Largest probed seed if tasks are not numbered; the smallest is 0."""
SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """An environment of another library. A task is a seed, which determines all randomness of an episode.

    The rewards of the steps are summed and paid at the end; an episode is correct if the sum reaches `high`. An
    episode that is not over after `turns` replies pays every player `low`, so that stalling never pays.

    Failures have codes: the environment cannot be loaded (E170), it raises (E171), its process dies (E172), its answer
    is invalid (E173), a reward is outside `low` to `high` (E174), two processes give different episodes (E175). A step
    that takes longer than `seconds` counts against the policy and ends as `exceeded`.
    """

    kind: ClassVar[str]
    name: str
    """The library's name of the environment."""
    python: str = sys.executable
    """The interpreter with the library. Use a separate venv if its pinned versions conflict with Gnomon's."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment, as JSON values."""
    low: float = 0.0
    high: float = 1.0
    turns: int = 50
    """Largest number of replies in an episode, over all players."""
    slot: bool = True
    """Whether the action is in the answer slot and converted to the library's form; else the whole reply is passed."""
    seconds: float = 10.0
    """Wall-clock seconds for one step."""
    count: int = 0
    """Number of tasks in both splits; 0 if every seed is a task."""
    seed: int = 0
    reproducible: bool = True
    """Refuse an environment that gives different episodes in two new processes."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low is {self.low} and high is {self.high}; low must be below high")
        if self.turns < 1 or self.seconds <= 0 or self.count < 0:
            raise ValueError(f"turns={self.turns}, seconds={self.seconds}, count={self.count}: they must be positive")
        if self.reproducible:
            alike(*self._address, last=(self.count or MANY) - 1)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # The process starts before the first reply, so that its start does not use the reply's time limit.
        conversation(*self._address).close()

    @property
    def _address(self) -> tuple[str, str, str, str]:
        return self.python, self.kind, self.name, json.dumps(dict(self.options), sort_keys=True)

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def max_turns(self) -> int:
        return self.turns

    @property
    def players(self) -> int:
        return players(*self._address)

    def tasks(self, split: str) -> Sequence[Task]:
        seeds = Seeds(self, split)
        return Numbered(seeds) if self.count else seeds

    def start(self, task: Task, key: Key) -> HostedEpisode:
        return HostedEpisode(self, task)

    def task(self, seed: int) -> Task:
        """The task of a seed, with its first observation as the prompt."""
        messages = first(*self._address, seed)
        hint = user(f"{messages[-1].content}\n{HINT}") if self.slot else messages[-1:]
        # With one turn, the text contains the whole problem; in a game, it may not.
        content = messages[-1].content if self.turns == 1 else seed
        return Task(
            id=self.identity(content),
            messages=(*messages[:-1], *hint),
            answer=None,
            info={"seed": seed, "of": self.name},
        )

    def identity(self, content: object) -> str:
        return identity(self.kind, self.name, self._address[-1], content)

    def canonical(self, move: str) -> str:
        """An action in the library's form, which contains exactly one; empty if it is invalid."""
        return move


class Seeds(Tasks):
    """Tasks of a split. Seeds are drawn until one belongs to it."""

    def __init__(self, env: Hosted, split: str) -> None:
        super().__init__(env, split)  # type: ignore[arg-type]
        self.hosted = env

    def draw(self, purpose: str, index: int) -> Task:
        env = self.hosted
        key = Key(env.seed).at(stream_of(env, "kind"), name=env.name, split=self.split)
        for attempt in range(10_000):
            seed = key.at(purpose, index=index, attempt=attempt).integer() % 2**31
            # The seed decides the split of a game, without a process.
            if env.turns > 1 and split_of(env.identity(seed)) != self.split:
                continue
            task = env.task(seed)
            if split_of(task.id) == self.split:
                return task
        raise ValueError(f"{env!r} makes no task of the {self.split} split: it has too few different tasks")


class Numbered(Sequence[Task]):
    """The tasks of a split of an environment with a fixed number of tasks."""

    def __init__(self, seeds: Seeds) -> None:
        self.env = env = seeds.hosted
        split = seeds.split
        self.numbers = [n for n in range(env.count) if split_of(identity(env.kind, env.name, n)) == split]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        if index < 0:
            raise IndexError(index)
        return self.env.task(self.numbers[index])


class HostedEpisode:
    """One episode, in its own process."""

    def __init__(self, env: Hosted, task: Task) -> None:
        self.env, self.messages = env, task.messages
        self._turns = 0
        self._over = False
        self._talk = conversation(*env._address)
        try:
            observation = opening(self._talk, task.info["seed"])
        except BaseException:
            self._talk.close()
            raise
        if env.reproducible and observation != first(*env._address, task.info["seed"]):
            self._talk.close()
            raise unlike(env.name, f"seed {task.info['seed']} gives another first observation than before")

    def step(self, reply: str) -> Step:
        """Take one reply. Raises: ValueError if the episode is over; VerifierError as described in `Hosted`."""
        if self._over:
            raise ValueError("the episode is over")
        self._turns += 1
        extraction = extract(reply, Strictness.TRIMMED) if self.env.slot else None
        text = reply if extraction is None else self.env.canonical(extraction.text) if extraction.text else ""
        try:
            answer = self._talk.ask(self.env.seconds, op="step", text=text)
        except Late as late:
            return self._end([limit_verdict(str(late), self.env.reward_range)] * self.env.players)
        if answer.get("done"):
            return self._end([self._verdict(reward, extraction) for reward in self._rewards(answer.get("rewards"))])
        if self._turns == self.env.turns:
            unfinished = f"not over after {self._turns} replies"
            part = Part(name="earned", value=self.env.low)
            return self._end([Verdict(status=Status.WRONG, parts=(part,), detail=unfinished)] * self.env.players)
        observation, player = answer.get("text"), answer.get("player")
        if not isinstance(observation, str) or not isinstance(player, int):
            raise VerifierError("E173", f"{self.env.name} returned {answer!r:.200} instead of a step")
        return Step(messages=user(observation or "Your turn."), done=False, player=player)

    def close(self) -> None:
        self._talk.close()

    def _rewards(self, rewards: Any) -> list[float]:
        if not isinstance(rewards, list) or len(rewards) != self.env.players:
            raise VerifierError(
                "E173", f"{self.env.name} returned rewards {rewards!r:.100} for {self.env.players} player(s)"
            )
        low, high = self.env.reward_range
        for reward in rewards:
            if not isinstance(reward, int | float) or not low <= clip(reward, low, high) <= high:
                raise VerifierError(
                    "E174", f"the reward {reward!r} is outside the range {low:g} to {high:g}",
                    where=self.env.name, fix="set low=… and high=… to the range in the environment's documentation",
                )  # fmt: skip
        return [clip(float(reward), low, high) for reward in rewards]

    def _verdict(self, reward: float, extraction: Extraction | None) -> Verdict:
        part = Part(name="earned", value=reward)
        if reward >= self.env.high - SLACK:
            return Verdict(status=Status.CORRECT, parts=(part,))
        if extraction is not None and extraction.status is not None and self.env.players == 1:
            return Verdict(status=extraction.status, parts=(part,), span=extraction.span, detail=extraction.detail)
        return Verdict(status=Status.WRONG, parts=(part,))

    def _end(self, verdicts: list[Verdict]) -> Step:
        self._over = True
        self._talk.close()
        if len(verdicts) == 1:
            return Step(done=True, verdict=verdicts[0])
        return Step(done=True, verdicts=tuple(verdicts))


def opening(talk: Conversation, seed: int) -> tuple[Message, ...]:
    """The first observation of a new episode: the system message, if any, and the user message."""
    try:
        answer = talk.ask(LOADED, op="start", seed=seed)
    except Late as late:
        raise VerifierError("E172", "an episode did not start in time", why=str(late)) from late
    text, system = answer.get("text"), answer.get("system")
    if not isinstance(text, str) or not text.strip():
        raise VerifierError("E173", f"the first observation is {text!r:.100} and must be a string")
    rules = (Message(role="system", content=system),) if isinstance(system, str) and system else ()
    return (*rules, *user(text))


LOADED = 60.0
"""Seconds that a new episode may take to begin, before the first reply."""


@lru_cache(maxsize=4096)
def first(python: str, kind: str, name: str, options: str, seed: int) -> tuple[Message, ...]:
    """The first observation of a seed."""
    talk = conversation(python, kind, name, options)
    try:
        return opening(talk, seed)
    finally:
        talk.close()


@lru_cache(maxsize=256)
def players(python: str, kind: str, name: str, options: str) -> int:
    """The number of players."""
    talk = conversation(python, kind, name, options)
    talk.close()
    return talk.players


@lru_cache(maxsize=256)
def alike(python: str, kind: str, name: str, options: str, last: int) -> None:
    """Check that a newly started interpreter gives the same episodes. Raises: ConfigError E175."""
    fresh = Host(python, kind, name, options)
    try:
        for seed in (0, last):
            here = probe(conversation(python, kind, name, options), seed)
            if here != probe(fresh.conversation(), seed):
                raise unlike(name, f"two processes, both with seed {seed}, play the same replies differently")
    finally:
        fresh.close()


def probe(talk: Conversation, seed: int) -> list[object]:
    """The responses of an episode to fixed replies."""
    try:
        responses: list[object] = [opening(talk, seed)]
        for reply in PROBES:
            responses.append(talk.ask(LOADED, op="step", text=reply))
            if responses[-1].get("done"):  # type: ignore[attr-defined]
                break
        return responses
    except VerifierError as error:
        # The error itself is reported in play; here it only has to occur every time.
        return [error.code]
    finally:
        talk.close()


def unlike(name: str, how: str) -> ConfigError:
    return ConfigError(
        "E175", f"{name} ignores its seed: {how}", why="its episodes cannot be repeated",
        fix="reproducible=false, if runs need not be reproducible",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Gym(Hosted):
    """A class `module:Class` with Gymnasium's `reset` and `step`, whose observations and actions are text."""

    kind = "gym"


@dataclass(frozen=True, kw_only=True)
class Gem(Hosted):
    """An environment of GEM (`gem-llm` 0.1), whose replies hold their answer in a box."""

    kind = "gem"
    low: float = -1.0

    def canonical(self, move: str) -> str:
        inner = move.removeprefix("\\boxed{").removesuffix("}") if move.startswith("\\boxed{") else move
        # A reply with a second box, or with an unbalanced one, is invalid.
        balanced = all(part >= 0 for part in depths(inner)) and (depths(inner) or [0])[-1] == 0
        return "\\boxed{" + inner + "}" if balanced and "\\boxed" not in inner else ""


@dataclass(frozen=True, kw_only=True)
class TextArena(Hosted):
    """A game of TextArena (0.7), for one or several players. The first bracket of a reply is its action.

    Player 0 acts first. `options={"players": 2}` sets the number of players if the game permits several numbers.
    """

    kind = "textarena"
    low: float = -1.0
    turns: int = 200

    def canonical(self, move: str) -> str:
        inner = move.removeprefix("[").removesuffix("]").strip()
        # A second bracket would be a second action.
        return "" if "[" in inner or "]" in inner else f"[{inner}]"


@dataclass(frozen=True, kw_only=True)
class VerifiersEnv(Hosted):
    """An environment of `verifiers` 0.4, by the id of its task set. Its own control flow runs with the policy.

    No harness, runtime or judge is started, so tools, and rewards that need one of these, are not available.
    """

    kind = "verifiers"
    slot: bool = False
    count: int = 200


def depths(text: str) -> list[int]:
    """The nesting depth after each brace of a text."""
    result, depth = [], 0
    for sign in re.findall(r"[{}]", text):
        depth += 1 if sign == "{" else -1
        result.append(depth)
    return result
