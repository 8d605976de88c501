"""Facts about a shipped environment, from its code: summary, options, sample tasks, judging source."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields, is_dataclass
from textwrap import indent
from typing import Any

from gnomon.envs import ENVS, offers
from gnomon.envs.agent import Agent
from gnomon.envs.base import Env, SingleTurn
from gnomon.envs.episodes import Played, well
from gnomon.envs.turns import MultiTurn
from gnomon.types import Message
from gnomon.verifiers import UnitTests

__all__ = ["example", "facts", "judge_source", "options", "samples", "summary"]


def summary(name: str) -> str:
    """The summary of an environment: the first paragraph of its module."""
    text = inspect.getdoc(inspect.getmodule(ENVS[name])) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


def options(name: str) -> dict[str, Any]:
    """The environment's own options with their defaults, without those that all environments share."""
    kind = ENVS[name]
    shared = {
        field.name
        for base in (Agent, SingleTurn, MultiTurn, UnitTests)
        if issubclass(kind, base)
        for field in fields(base)
    }
    assert is_dataclass(kind)
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
        if field.name not in shared
    }


def facts(name: str) -> dict[str, Any]:
    """The main facts of an environment, as plain values."""
    env = ENVS[name]()
    low, high = env.reward_range
    return {
        "name": name,
        "summary": summary(name),
        "turns": env.max_turns,
        "players": offers.players(env),
        "reward_range": [low, high],
        "options": {key: list(value) if isinstance(value, tuple) else value for key, value in options(name).items()},
        "prompt": env.tasks("train")[0].messages[-1].content,
    }


def samples(name: str, count: int = 3) -> list[tuple[str, str]]:
    """Train tasks of a single-turn environment, each with a correct answer."""
    env = ENVS[name]()
    assert isinstance(env, SingleTurn)
    tasks = [env.tasks("train")[index] for index in range(count)]
    return [(message_text(task.messages[-1]), env.solution(task)) for task in tasks]


def example(name: str) -> str:
    """Three tasks with their answers, the folder of a program's task, or an episode of the expert."""
    if issubclass(ENVS[name], SingleTurn):
        lines = [f"{prompt}\n{indent(answer, '    ')}" for prompt, answer in samples(name)]
    elif issubclass(ENVS[name], Agent):
        lines = workspace(name, 1)
    else:
        lines = transcript(name, 1)
    return "\n".join(lines)


def workspace(name: str, index: int = 0) -> list[str]:
    """A task of an environment whose episode is a program: the prompt and the working folder."""
    env: Any = ENVS[name]()
    task = env.tasks("train")[index]
    files = env.folder(task).items()
    return [task.messages[-1].content, *(f"\n{name}:\n{text}".rstrip() for name, text in files)]


def transcript(name: str, index: int = 0) -> list[str]:
    """An episode of an environment's expert, one line per message."""
    env: Env = ENVS[name]()
    whole: Played = well(env, env.tasks("train")[index])
    several, player = offers.players(env) > 1, 0
    lines = [observation_text(message, player, several) for message in whole.opening]
    for reply, step in zip(whole.replies, whole.steps, strict=True):
        lines.append(f"{f'player {player} says' if several else 'reply'}: {reply}")
        player = step.player
        lines += [observation_text(message, player, several) for message in step.messages]
    rewards = ", ".join(f"{verdict.status.value} {verdict.reward:g}" for verdict in whole.verdicts)
    return [*lines, f"verdict: {rewards}"]


def observation_text(message: Message, player: int, several: bool) -> str:
    return f"{f'to player {player}' if several else message.role}: {message_text(message)}"


def message_text(message: Message) -> str:
    """The content, with a word in the place of every image before it."""
    return " ".join([*("[image]" for _ in message.images), *([message.content] if message.content else [])])


def judge_source(name: str) -> str:
    """The source that decides the reward: `check`, or `play` of an environment of several turns.

    For code it is the verdict on the outcome of the sandbox, for a program `judge`.
    """
    kind: Any = ENVS[name]
    if issubclass(kind, Agent):
        decides = kind.judge
    elif issubclass(kind, UnitTests):
        decides = kind.result
    else:
        decides = kind.check if issubclass(kind, SingleTurn) else kind.play
    return inspect.cleandoc("\n" + inspect.getsource(decides))
