"""The `verifiers` package: a legacy `Rubric(funcs, weights)`, and a v1 `Task` with methods marked as rewards."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gnomon.errors import ResourceError, VerifierError
from gnomon.integrations.rewards.base import Foreign, Function, import_function, number
from gnomon.integrations.rewards.load import call_with, load, wait_for
from gnomon.types import Part, Task

__all__ = ["RubricReward", "VerifiersTask"]

MANY = {"states", "prompts", "completions", "answers", "tasks", "infos"}
"""Argument names that mark a function which scores a whole group."""


@dataclass(frozen=True, kw_only=True)
class RubricReward(Foreign):
    """The weighted sum of the functions of a `Rubric`. Each receives the arguments in its signature.

    Any object with `funcs`, `weights` and optionally `class_objects` works; the package is not needed.

    Differs: an exception of a function is raised; the package logs it and pays 0.

    Source: verifiers 0.1.9, `Rubric.score_rollout`.
    """

    rubric: str | Callable[[], Any]
    """The name of a `Rubric`, or a function that makes one."""
    state: tuple[tuple[str, Any], ...] = ()
    """Additional entries of the functions' state."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for function in self.open().funcs:
            if MANY & set(inspect.signature(function).parameters):
                raise VerifierError("E134", f"{function.__name__} scores a whole group; a verifier judges one reply")

    def open(self) -> Any:
        loaded: Any = load(self.rubric) if isinstance(self.rubric, str) else self.rubric
        rubric: Any = loaded if hasattr(loaded, "funcs") and not isinstance(loaded, type) else loaded()
        if not rubric.funcs or len(rubric.weights) != len(rubric.funcs):
            raise VerifierError("E134", f"{len(rubric.funcs)} functions have {len(rubric.weights)} weights")
        return rubric

    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        rubric = self.open()
        prompt = [m.body for m in task.messages]
        completion = [{"role": "assistant", "content": reply}]
        arguments = {"prompt": prompt, "completion": completion, "answer": task.answer, "info": task.info}
        arguments["task"] = task.info.get("task", "default")
        arguments["state"] = {
            **arguments,
            "timing": {},
            "trajectory": [],
            "responses": [],
            "turn": 1,
            **dict(self.state),
        }
        arguments |= getattr(rubric, "class_objects", None) or {}
        return tuple(
            Part(
                name=function.__name__,
                value=number(wait_for(call_with(function, arguments)), function.__name__),
                weight=weight,
            )
            for function, weight in zip(rubric.funcs, rubric.weights, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class VerifiersTask(Foreign):
    """A v1 `Task`: its `@reward` methods, applied to a trace of one prompt and one reply, without a runtime.

    The task's `info` provides the fields of the task's data; `gold` names the field of the answer. A reward that needs
    a runtime is refused, because the package would silently omit it from the sum.

    Source: verifiers 0.4.0, `Task.score`.
    """

    task: Function
    """The `Task` class, or its name."""
    gold: str = "answer"
    """Name of the data field with the task's answer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        v1()
        kind: Any = import_function(self.task)
        for method in marked_functions(kind):
            runtime = inspect.signature(method).parameters.get("runtime")
            if runtime is not None and runtime.default is inspect.Parameter.empty:
                raise VerifierError("E134", f"{method.__name__} needs a runtime, and a verifier has none")

    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        """The rewards as parts. Raises: exceptions of `Task.score`, and VerifierError E132 for a missing reward."""
        vf, kind = v1(), import_function(self.task)
        fields = {**task.info, self.gold: task.answer}
        prompt = [m.body for m in task.messages]
        own = kind(kind.data_type()(prompt=prompt, **fields))  # type: ignore[attr-defined]
        history = [vf.MessageNode(message=message) for message in own.data.prompt]
        for i, node in enumerate(history):
            node.parent = i - 1 if i else None
        answer = vf.MessageNode(message=vf.AssistantMessage(content=reply), sampled=True, parent=len(history) - 1)
        trace = vf.Trace(
            task=vf.TraceTask(type=kind.__name__, data=own.data),
            agent=vf.AgentInfo(config=vf.AgentConfig()),
            nodes=[*history, answer],
            is_completed=True,
            ok=True,
        )
        wait_for(own.score(trace))
        for name, reward in trace.rewards.items():
            if reward is None:
                raise VerifierError("E132", "a reward was not scored", where=name)
        return tuple(
            Part(name=name, value=number(reward.score, name), weight=number(reward.weight, name))
            for name, reward in trace.rewards.items()
        )


def marked_functions(kind: Any) -> list[Callable[..., Any]]:
    return [member for name in dir(kind) if getattr(member := getattr(kind, name), "reward", None) is True]


def v1() -> Any:
    """The package. Raises: ResourceError E530 if it is not installed."""
    try:
        return importlib.import_module("verifiers.v1")
    except ImportError as error:
        raise ResourceError("E530", "the package verifiers is not installed", fix="pip install verifiers") from error
