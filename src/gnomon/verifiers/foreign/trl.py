"""TRL: `f(prompts, completions, **columns) -> list of float or None`, several of them with weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnomon.errors import VerifierError
from gnomon.types import Part, Task
from gnomon.verifiers.foreign.base import Foreign, Function, called, label, number
from gnomon.verifiers.foreign.load import awaited

__all__ = ["TrlReward"]


@dataclass(frozen=True, kw_only=True)
class TrlReward(Foreign):
    """The weighted sum of reward functions, each asked about one completion as `GRPOTrainer` asks about many.

    A column is an entry of the task's `info`; `gold` names the one that holds the task's answer. A function that
    answers None has nothing to say of the reply and pays nothing. Token ids are not passed: a verifier sees text.

    Source: trl 1.16, `GRPOTrainer._calculate_rewards`.
    """

    functions: tuple[Function, ...]
    weights: tuple[float, ...] = ()
    """One for each function; 1 if not given."""
    gold: str = "solution"
    """Name of the column that holds the task's answer."""
    conversational: bool = True
    """Prompts and completions as lists of messages; else as text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.functions or len(self.weights) not in (0, len(self.functions)):
            raise ValueError(f"{len(self.functions)} functions and {len(self.weights)} weights; give each its own")
        if len(set(map(label, self.functions))) < len(self.functions):
            raise ValueError(f"two functions have one name: {', '.join(map(label, self.functions))}")
        for function in self.functions:
            called(function)

    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        """Raises: VerifierError E132 for what is no number, or when no function has anything to say."""
        weights = self.weights or (1.0,) * len(self.functions)
        scores = [(f, self.score(f, task, reply), w) for f, w in zip(self.functions, weights, strict=True)]
        if all(score is None for _, score, _ in scores):
            raise VerifierError("E132", "every function answers None", where=f"task {task.id}")
        return tuple(Part(name=label(f), value=score, weight=w) for f, score, w in scores if score is not None)

    def score(self, function: Function, task: Task, reply: str) -> float | None:
        prompt: Any = [{"role": m.role, "content": m.content} for m in task.messages]
        completion: Any = [{"role": "assistant", "content": reply}]
        if not self.conversational:
            prompt, completion = "\n".join(m.content for m in task.messages), reply
        columns = {name: [value] for name, value in task.info.items()} | {self.gold: [task.answer]}
        given = awaited(called(function)(prompts=[prompt], completions=[completion], **columns))
        try:
            (score,) = given
        except (TypeError, ValueError):
            what = f"{given!r:.100} for one completion, where a list of one score is due"
            raise VerifierError("E132", what, where=label(function)) from None
        return None if score is None else number(score, label(function))
