"""A reward as a plain function. The names of its parameters decide its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from gnomon.integrations.rewards.base import Foreign, clip, label, number, outward
from gnomon.integrations.rewards.load import wait_for
from gnomon.types import Part, Task, Verdict
from gnomon.verifiers.slot import NoScore

__all__ = ["FunctionReward", "parameters", "unknown_parameter", "unnamed", "uses_answer"]

REPLY = ("completion", "reply", "response", "output", "text", "prediction", "solution_str")
ANSWER = ("answer", "gold", "ground_truth", "reference", "target", "solution", "expected", "label")
PROMPT = ("prompt", "question", "problem")
USUAL = (*REPLY, *ANSWER, *PROMPT, "task", "info", "extra_info", "data_source")
"""Names of parameters that have a meaning whatever the columns are."""
BATCH = "completions"
"""A parameter of this name marks a function of many replies, with TRL's signature."""


@dataclass(frozen=True, kw_only=True)
class FunctionReward(Foreign):
    """Judges by a function. Its parameter names decide what it receives.

    | parameter | value |
    |---|---|
    | `completion`, `reply`, `response`, `output`, `text`, `prediction`, `solution_str` | the reply, as text |
    | `answer`, `gold`, `ground_truth`, `reference`, `target`, `solution`, `expected`, `label` | the task's answer |
    | `prompt`, `question`, `problem` | the task's prompt, as text |
    | `task` | the `Task` |
    | `info`, `extra_info` | all columns of the task's row, as a mapping |
    | the name of a column | the value in the task's row |

    A column has priority over the other meanings of its name, except those of the reply. One or two parameters with
    other names are the reply and the answer. A function with `**kwargs` gets every value of this table by its name. A
    function with a parameter `completions` is called as TRL calls it:
    `f(prompts=[…], completions=[…], **columns)`, with lists of one element, and returns a list of one score. Its
    prompts and completions are lists of messages if the tasks' prompts are messages.

    It returns True, False or a number from `low` to `top`; only `top` is correct. It may be a coroutine function.
    """

    function: Callable[..., Any]
    answer: str = "answer"
    """The column that holds the task's answer."""
    conversational: bool = False
    """Whether the tasks' prompts are messages."""

    def parts(self, task: Task, reply: str) -> tuple[Part, ...]:
        """The reward as one part. Raises: NoScore for a score outside the range, or for an unknown parameter."""
        columns = {**task.info, self.answer: task.answer}
        name = label(self.function)
        if BATCH in parameters(self.function):
            value = one_of(wait_for(self.function(**self.batch(task, reply, columns))), name)
        else:
            if missing := unknown_parameter(self.function, columns):
                raise NoScore(f"{name} has a parameter {missing!r}, which is not a column of the task")
            value = wait_for(call(self.function, self.values(task, reply, columns)))
        score = clip(score_of(value, name), self.low, self.top)
        if not self.low <= score <= self.top:
            low, top = outward(min(score, self.low), max(score, self.top))
            raise NoScore(
                f"{name} returned {score:.8g}, outside reward_range ({self.low:g}, {self.top:g}); "
                f"pass reward_range=({low:g}, {top:g}); a correct reply earns its upper end",
                score,
            )
        return (Part(name="reward", value=score),)

    def values(self, task: Task, reply: str, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name: every known one for a function with `**kwargs`."""
        available = self.available(task, reply, columns)
        values = {
            name: available[name] if name in available else (reply, task.answer)[i]
            for i, name in enumerate(required_parameters(self.function, columns))
        }
        bound = self.function.keywords if isinstance(self.function, partial) else ()
        rest = available if takes_all(self.function) else {}
        return values | {name: value for name, value in rest.items() if name not in bound}

    def available(self, task: Task, reply: str, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all known parameter names."""
        prompt = "\n".join(message.content for message in task.messages)
        values = dict.fromkeys(ANSWER, task.answer) | dict.fromkeys(PROMPT, prompt)
        values |= {"task": task, "info": dict(columns), "extra_info": dict(columns), "data_source": ""}
        return {**values, **columns, **dict.fromkeys(REPLY, reply)}

    def batch(self, task: Task, reply: str, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments of a function of many replies."""
        prompt: Any = [message.body for message in task.messages]
        completion: Any = [{"role": "assistant", "content": reply}]
        if not self.conversational:
            prompt, completion = "\n".join(message.content for message in task.messages), reply
        every = {"prompts": [prompt], "completions": [completion]} | {key: [value] for key, value in columns.items()}
        names = parameters(self.function)
        return every if takes_all(self.function) else {key: value for key, value in every.items() if key in names}


def parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function, without those that a `functools.partial` has set by name."""
    bound = function.keywords if isinstance(function, partial) else ()
    return {name: each for name, each in inspect.signature(function).parameters.items() if name not in bound}


def takes_all(function: Callable[..., Any]) -> bool:
    """Whether a function has `**kwargs`, and so gets every value that has a name."""
    return any(each.kind is each.VAR_KEYWORD for each in parameters(function).values())


def unnamed(function: Callable[..., Any]) -> bool:
    """Whether a function has `*args` and names no parameter, so that its arguments are unknown."""
    kinds = {each.kind for each in parameters(function).values()}
    return inspect.Parameter.VAR_POSITIONAL in kinds and kinds <= {
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    }


def uses_answer(function: Callable[..., Any], answer: str, columns: Mapping[str, Any]) -> bool:
    """Whether a function receives the task's answer. Args: answer: the column that holds it."""
    names = parameters(function)
    if BATCH in names:
        return answer in names or takes_all(function)
    own = required_parameters(function, columns)
    usual = ({*USUAL} - {*ANSWER} | {*columns}) - {answer}
    return takes_all(function) or bool({*ANSWER, answer} & set(own)) or len([n for n in own if n not in usual]) == 2


def required_parameters(function: Callable[..., Any], columns: Mapping[str, Any]) -> list[str]:
    """The parameters that receive a value: those without a default, and those with a known name."""
    usual = {*USUAL, *columns}
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name
        for name, parameter in parameters(function).items()
        if parameter.kind not in fixed and (name in usual or parameter.default is parameter.empty)
    ]


def unknown_parameter(function: Callable[..., Any], columns: Mapping[str, Any]) -> str:
    """A parameter for which there is no value; empty if there is none."""
    names = parameters(function)
    usual = {*USUAL, *columns}
    if BATCH in names:
        available = {"prompts", BATCH, *columns}
        plain = [
            n for n, p in names.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.default is p.empty
        ]
        return next((name for name in plain if name not in available), "")
    required = required_parameters(function, columns)
    strange = [name for name in required if name not in usual]
    if not strange or (len(required) <= 2 and strange == required):
        return ""
    return strange[0]


def call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call the function; positional-only parameters are passed by position."""
    alone = [name for name, p in parameters(function).items() if p.kind is p.POSITIONAL_ONLY]
    rest = {name: value for name, value in values.items() if name not in alone}
    return function(*(values[name] for name in alone if name in values), **rest)


def one_of(value: Any, name: str) -> Any:
    """The one score of a list of one."""
    try:
        (score,) = value
    except (TypeError, ValueError):
        raise NoScore(
            f"{name} returned {value!r:.100} for one completion; it must return a list of one score"
        ) from None
    return score


def score_of(value: Any, name: str) -> float:
    """A score as a float. Raises: NoScore."""
    try:
        return number(value, name)
    except Exception:
        hint = "; did a branch end without `return`?" if value is None else ""
        hint = f"; {name}(…).reward is the number of a verdict" if isinstance(value, Verdict) else hint
        raise NoScore(f"{name} returned {value!r:.100}; it must return True, False or a finite number{hint}") from None
