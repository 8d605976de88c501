"""The subject of an audit: a verifier, tasks, and known correct replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gnomon.envs.agent import Agent
from gnomon.envs.base import Env, SingleTurn, identity
from gnomon.envs.episodes import judge
from gnomon.envs.messages import messages_of
from gnomon.errors import ConfigError
from gnomon.types import Task, Verdict
from gnomon.verifiers import Verifier

__all__ = ["LIMITS", "Played", "Subject", "VerdictLimits", "read_tasks", "subject_of"]

TASKS = 200
"""Default number of tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictLimits:
    """Limits of one verdict under audit; a run has those of its workers."""

    seconds: float = 1.0
    """CPU time."""
    memory: int = 2**30
    """Address space of the process, in bytes."""

    @property
    def more_memory(self) -> str:
        """The setting that allows four times the memory."""
        return f"workers.memory_mib={4 * self.memory // 2**20}"


LIMITS = VerdictLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A verifier under audit."""

    name: str
    verifier: Verifier
    """Runs in other processes, so it must pickle and its class must be defined in a file."""
    tasks: tuple[Task, ...]
    solution: Callable[[Task], str | None] | None = None
    """A complete correct reply to a task; None if there is none."""
    env: Env | None = None
    """The environment of the tasks, for checks of splits, seeds and turns."""
    source: str = ""
    """Its display name: a built-in name, file.py:Class or module:Class."""
    limits: VerdictLimits = LIMITS


@dataclass(frozen=True, kw_only=True)
class Played:
    """An environment of several turns as a verifier. It judges a policy that gives the same reply in every turn."""

    env: Env

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.env.reward_range

    def verify(self, task: Task, reply: str) -> Verdict:
        return judge(self.env, task, reply)


def subject_of(
    target: Env | Verifier,
    tasks: tuple[Task, ...] = (),
    *,
    count: int = TASKS,
    name: str = "",
    source: str = "",
    limits: VerdictLimits = LIMITS,
) -> Subject:
    """Make a subject from an environment, or from a verifier and its tasks.

    Args:
        tasks: the tasks to use; by default those of the train split, or the verifier's own `tasks`.
        count: largest number of tasks.
    Raises: ConfigError E120 if there are no tasks, E121 for a target that is neither a verifier nor an environment.
    """
    name = name or type(target).__name__
    env = target if isinstance(target, Env) else None
    verifier = target if isinstance(target, Verifier) else None if env is None else Played(env=env)
    if verifier is None:
        raise ConfigError(
            "E121",
            f"{name} is neither a verifier nor an environment",
            where=source or name,
            why="a verifier has `verify` and `reward_range`; an environment has `tasks`, `start`, `reward_range` "
            "and `max_turns`",
            fix="def verify(self, task: Task, reply: str) -> Verdict",
        )
    if not tasks:
        split = getattr(target, "tasks", ())
        split = split("train") if callable(split) else split
        tasks = tuple(split[index] for index in range(min(count, len(split))))
    if not tasks:
        raise ConfigError(
            "E120",
            f"{name} has no tasks",
            where=source or name,
            fix='--tasks FILE.jsonl, with lines like {"prompt": "2 + 2?", "answer": 4, "reply": "<answer>4</answer>"}',
        )
    return Subject(
        name=name,
        verifier=verifier,
        tasks=tasks[:count],
        solution=solution_of(target, tasks),
        env=env,
        source=source,
        limits=limits,
    )


def solution_of(target: object, tasks: tuple[Task, ...]) -> Callable[[Task], str | None] | None:
    """Correct replies, from the target or from the tasks."""
    if isinstance(target, SingleTurn):
        return lambda task: target.framed(target.solution(task))
    if isinstance(target, Agent):
        return target.correct_reply
    own: Callable[[Task], str | None] | None = getattr(target, "solution", None)
    if own is not None:
        return own
    return (lambda task: task.info.get("reply")) if any("reply" in task.info for task in tasks) else None


def read_tasks(path: Path) -> tuple[Task, ...]:
    """Tasks from a file of JSON lines.

    A line has `prompt` (text, or messages with role and content) and `answer`; it may have `id`, `info` and
    `reply`, a whole right reply. Other keys are kept in `info`.

    Raises: ConfigError E122 for an invalid line, or a file that cannot be read.
    """
    fix = 'lines like {"prompt": "2 + 2?", "answer": 4, "reply": "<answer>4</answer>"}'
    try:
        lines = [(n, line) for n, line in enumerate(path.read_text("utf-8").splitlines(), 1) if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("E122", "the tasks cannot be read", where=str(path), why=str(error), fix=fix) from error
    tasks = []
    for number, line in lines:
        try:
            tasks.append(task_of(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            why = f"{type(error).__name__}: {error}"
            raise ConfigError(
                "E122", "a line is not a task", where=f"{path}, line {number}", why=why, fix=fix
            ) from error
    return tuple(tasks)


def task_of(values: Mapping[str, Any]) -> Task:
    prompt, answer = values["prompt"], values["answer"]
    messages = messages_of(prompt)
    extra = {key: value for key, value in values.items() if key not in ("id", "prompt", "answer", "info")}
    info = {**values.get("info", {}), **extra}
    task = Task(id="", messages=messages, answer=answer, info=info)
    return replace(task, id=str(values.get("id") or identity(messages, answer)))
