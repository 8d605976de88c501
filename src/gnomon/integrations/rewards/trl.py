"""TRL: `f(prompts, completions, **columns) -> list of float or None`, several of them with weights."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gnomon.errors import VerifierError
from gnomon.integrations.rewards.base import Foreign, Function, import_function, label, number
from gnomon.integrations.rewards.load import wait_for
from gnomon.types import Part, Task

__all__ = ["TrlReward"]


@dataclass(frozen=True, kw_only=True)
class TrlReward(Foreign):
    """The weighted sum of reward functions, each called for one completion with the signature of `GRPOTrainer`.

    A column is an entry of the task's `info`; `gold` names the column of the task's answer. A function that returns
    None does not apply to the reply and pays 0. Token ids are not passed, because a verifier sees only text.

    Source: trl 1.16, `GRPOTrainer._calculate_rewards`.
    """

    functions: tuple[Function, ...]
    weights: tuple[float, ...] = ()
    """One weight per function; 1 by default."""
    gold: str = "solution"
    """Name of the column that holds the task's answer."""
    conversational: bool = True
    """Pass prompts and completions as lists of messages; if false, as text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.functions or len(self.weights) not in (0, len(self.functions)):
            raise ValueError(f"{len(self.functions)} functions and {len(self.weights)} weights; give each its own")
        if len(set(map(label, self.functions))) < len(self.functions):
            raise ValueError(f"two functions have one name: {', '.join(map(label, self.functions))}")
        for function in self.functions:
            parameter = inspect.signature(import_function(function)).parameters.get("completion_ids")
            if parameter is not None and parameter.default is inspect.Parameter.empty:
                raise VerifierError("E134", f"{label(function)} needs completion_ids, but a verifier gets only text")

    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        """The weighted parts. Raises: VerifierError E132 for invalid scores, or if every function returned None."""
        (parts,) = self.together([(task, reply)])
        if not parts:
            raise VerifierError("E132", "every function returned None", where=f"task {task.id}")
        return parts

    def together(self, calls: Sequence[tuple[Task, str]]) -> list[tuple[Part, ...]]:
        """The parts of several replies. Each function is called once for all of them, as the trainer does.

        Raises: VerifierError E132 for invalid scores, or for a wrong number of scores.
        """
        weights = self.weights or (1.0,) * len(self.functions)
        results: list[list[Part]] = [[] for _ in calls]
        for function, weight in zip(self.functions, weights, strict=True):
            for parts, score in zip(results, self.scores(function, calls), strict=True):
                if score is not None:
                    parts.append(Part(name=label(function), value=score, weight=weight))
        return [tuple(parts) for parts in results]

    def scores(self, function: Function, calls: Sequence[tuple[Task, str]]) -> list[float | None]:
        prompts: list[Any] = [[m.body for m in task.messages] for task, _ in calls]
        completions: list[Any] = [[{"role": "assistant", "content": reply}] for _, reply in calls]
        if not self.conversational:
            prompts = ["\n".join(m.content for m in task.messages) for task, _ in calls]
            completions = [reply for _, reply in calls]
        names = dict.fromkeys(name for task, _ in calls for name in task.info)
        columns = {name: [task.info.get(name) for task, _ in calls] for name in names}
        columns[self.gold] = [task.answer for task, _ in calls]
        returned = wait_for(import_function(function)(prompts=prompts, completions=completions, **columns))
        try:
            scores = list(returned)
        except TypeError:
            scores = []
        if len(scores) != len(calls) or isinstance(returned, str):
            due = f"{len(calls)} completions" if len(calls) > 1 else "one completion"
            what = f"the function returned {returned!r:.100} for {due} and must return a list with one score for each"
            raise VerifierError("E132", what, where=label(function))
        return [None if score is None else number(score, label(function)) for score in scores]
