"""The `verifiers` package: a legacy `Rubric(funcs, weights)`, and a v1 `Task` with methods marked as rewards."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gnomon.errors import ResourceError, VerifierError
from gnomon.integrations.rewards.base import Foreign, Function, called, number
from gnomon.integrations.rewards.load import asked, awaited, load
from gnomon.types import Part, Task

__all__ = ["RubricReward", "VerifiersTask"]

MANY = {"states", "prompts", "completions", "answers", "tasks", "infos"}
"""Argument names that mark a function which scores a whole group."""


@dataclass(frozen=True, kw_only=True)
class RubricReward(Foreign):
    """The weighted sum of a rubric's functions; each gets what its signature asks for.

    Anything with `funcs`, `weights` and, if it likes, `class_objects` will do: the package is not needed.

    Differs: what a function raises is its failure and is raised; the package writes a line to the log and pays 0.

    Source: verifiers 0.1.9, `Rubric.score_rollout`.
    """

    rubric: str | Callable[[], Any]
    """A rubric by name, or what makes one."""
    state: tuple[tuple[str, Any], ...] = ()
    """More entries of the state that the functions are given."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for function in self.opened().funcs:
            if MANY & set(inspect.signature(function).parameters):
                raise VerifierError("E134", f"{function.__name__} scores a whole group; a verifier judges one reply")

    def opened(self) -> Any:
        found: Any = load(self.rubric) if isinstance(self.rubric, str) else self.rubric
        rubric: Any = found if hasattr(found, "funcs") and not isinstance(found, type) else found()
        if not rubric.funcs or len(rubric.weights) != len(rubric.funcs):
            raise VerifierError("E134", f"{len(rubric.funcs)} functions and {len(rubric.weights)} weights in a rubric")
        return rubric

    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        rubric = self.opened()
        prompt = [{"role": m.role, "content": m.content} for m in task.messages]
        completion = [{"role": "assistant", "content": reply}]
        told = {"prompt": prompt, "completion": completion, "answer": task.answer, "info": task.info}
        told["task"] = task.info.get("task", "default")
        told["state"] = {**told, "timing": {}, "trajectory": [], "responses": [], "turn": 1, **dict(self.state)}
        told |= getattr(rubric, "class_objects", None) or {}
        return tuple(
            Part(name=function.__name__, value=number(awaited(asked(function, told)), function.__name__), weight=weight)
            for function, weight in zip(rubric.funcs, rubric.weights, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class VerifiersTask(Foreign):
    """A v1 `Task`: its `@reward` methods, asked about a trace of one prompt and one reply, without a runtime.

    The task's `info` gives the fields of the task's data; `gold` names the one that holds the answer. A reward that
    needs a runtime is refused: the package would leave it out of the sum without a word.

    Source: verifiers 0.4.0, `Task.score`.
    """

    task: Function
    """The `Task` class, or its name."""
    gold: str = "answer"
    """Name of the data's field that holds the task's answer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        v1()
        kind: Any = called(self.task)
        for method in marked(kind):
            runtime = inspect.signature(method).parameters.get("runtime")
            if runtime is not None and runtime.default is inspect.Parameter.empty:
                raise VerifierError("E134", f"{method.__name__} needs a runtime, and a verifier has none")

    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        """Raises: what `Task.score` raises, and VerifierError E132 for a reward that was not scored."""
        vf, kind = v1(), called(self.task)
        fields = {**task.info, self.gold: task.answer}
        prompt = [{"role": m.role, "content": m.content} for m in task.messages]
        own = kind(kind.data_type()(prompt=prompt, **fields))  # type: ignore[attr-defined]
        said = [vf.MessageNode(message=message) for message in own.data.prompt]
        for place, node in enumerate(said):
            node.parent = place - 1 if place else None
        answer = vf.MessageNode(message=vf.AssistantMessage(content=reply), sampled=True, parent=len(said) - 1)
        trace = vf.Trace(
            task=vf.TraceTask(type=kind.__name__, data=own.data),
            agent=vf.AgentInfo(config=vf.AgentConfig()),
            nodes=[*said, answer],
            is_completed=True,
            ok=True,
        )
        awaited(own.score(trace))
        for name, reward in trace.rewards.items():
            if reward is None:
                raise VerifierError("E132", "a reward was not scored", where=name)
        return tuple(
            Part(name=name, value=number(reward.score, name), weight=number(reward.weight, name))
            for name, reward in trace.rewards.items()
        )


def marked(kind: Any) -> list[Callable[..., Any]]:
    return [member for name in dir(kind) if getattr(member := getattr(kind, name), "reward", None) is True]


def v1() -> Any:
    """The package. Raises: ResourceError E530 when it is not there."""
    try:
        return importlib.import_module("verifiers.v1")
    except ImportError as error:
        raise ResourceError("E530", "the package verifiers is not installed", fix="pip install verifiers") from error
