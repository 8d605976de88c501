"""An environment from tasks as rows and a reward as a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from gnomon.envs.base import SPLITS, TEST_SHARE, SingleEpisode, identity
from gnomon.envs.golds import reference
from gnomon.envs.messages import prompt_of
from gnomon.envs.row_checks import USUAL, number_rows
from gnomon.envs.rows import read_rows
from gnomon.errors import ConfigError
from gnomon.integrations.rewards.base import label
from gnomon.integrations.rewards.function import FunctionReward, parameters, unknown_parameter, unnamed, uses_answer
from gnomon.keys import Key
from gnomon.types import Message, Task, Verdict
from gnomon.verifiers import Verifier

__all__ = ["Rewarded", "make_env"]

PROMPTS, ANSWERS = USUAL["prompt"], USUAL["answer"]
EXAMPLE = '{"prompt": "What is 2 + 2? <answer>...</answer>", "answer": "4"}'


@dataclass(frozen=True, kw_only=True)
class Rewarded:
    """Tasks of one turn from a user's rows, judged by a function."""

    train: tuple[Task, ...]
    test: tuple[Task, ...]
    reward: FunctionReward
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The place of every task in what was passed, such as `row 7`, by split."""

    @property
    def reward_range(self) -> tuple[float, float]:
        return self.reward.reward_range

    @property
    def max_turns(self) -> int:
        return 1

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in SPLITS:
            raise ValueError(f"split is {split!r}; it must be one of {SPLITS}")
        return self.train if split == "train" else self.test

    def start(self, task: Task, key: Key) -> SingleEpisode:
        return SingleEpisode(task.messages, lambda reply: self.verify(task, reply))

    def verify(self, task: Task, reply: str) -> Verdict:
        return self.reward.verify(task, reply)

    @property
    def spec(self) -> dict[str, Any]:
        """The entry in a recipe. It identifies the tasks by their hash."""
        total = sha256(
            repr([(task.messages, task.answer, dict(task.info)) for task in self.train + self.test]).encode()
        )
        count = {"train": len(self.train), "test": len(self.test)}
        return {"reward": label(self.reward.function), **count, "tasks_sha256": total.hexdigest()}


def make_env(tasks: Any, reward: Callable[..., Any], reward_range: tuple[float, float] = (0.0, 1.0)) -> Rewarded:
    """An environment of tasks and a reward function.

    Args:
        tasks: rows; the path of a .jsonl or .parquet file of rows; a data set of the `datasets` package; or a mapping
            with the rows of `train` and `test`. A row is a `Task`, or a mapping with a prompt (a text, or messages with
            `role` and `content`) under one of `PROMPTS` and, if the reward needs it, an answer under one of `ANSWERS`.
            Without `test`, an eighth of the questions, at least one, is held out by hash.
        reward: see `FunctionReward`.
        reward_range: lowest and highest reward; a correct reply earns the highest.
    Raises: ConfigError E162 for invalid rows, E163 for a reward that cannot be called with them, E151 for questions
        that are in both `train` and `test`.
    """
    low, top = limits(reward_range)
    splits = splits_of(tasks)
    columns = Columns.of(splits["train"][0], reward)
    supplied = {name: columns.tasks(some, name) for name, some in splits.items()}
    own = {name: list(range(len(some))) for name, some in supplied.items()}
    mark = {name: f"{name} row" for name in own}
    if "test" not in supplied:
        own["train"], own["test"] = held_out(supplied["train"])
        supplied["test"], mark = supplied["train"], dict.fromkeys(own, "row")
    train, test = ([supplied[name][i] for i in own[name]] for name in SPLITS)
    refuse_overlap(train, test)
    judge = FunctionReward(
        function=reward, low=low, top=top, answer=columns.answer or "answer", conversational=columns.conversational
    )
    parameters = {**train[0].info, judge.answer: train[0].answer}
    if missing := unknown_parameter(reward, parameters):
        raise ConfigError(
            "E163", f"the reward {label(reward)} has an unknown parameter {missing!r}", where="reward",
            why=f"the columns of the tasks are {', '.join(parameters)}",
            fix=f"def reward(completion, {', '.join(parameters)}), or give the parameter a default",
        )  # fmt: skip
    rows = {name: tuple(f"{mark[name]} {i}" for i in places) for name, places in own.items()}
    return Rewarded(train=tuple(train), test=tuple(test), reward=judge, rows=rows)


def parameter_names(reward: Any) -> Collection[str]:
    """The names of a reward's parameters. Raises: ConfigError E163."""
    if isinstance(reward, type):
        raise ConfigError(
            "E163", f"the reward is the class {reward.__name__} and must be an object", where="reward",
            why="calling a class makes an object and not a score", fix=f"reward={reward.__name__}()",
        )  # fmt: skip
    if isinstance(reward, Verifier) and not callable(reward):
        raise ConfigError(
            "E163", f"the reward is the verifier {type(reward).__name__} and must be a function", where="reward",
            why="a verifier is given a task and a reply, and returns a verdict and not a score",
            fix="reward=lambda reply, task: VERIFIER.verify(task, reply).reward",
        )  # fmt: skip
    try:
        names = parameters(reward)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            "E163", f"the reward must be a function, not {type(reward).__name__}", where="reward", why=str(error),
            fix="reward=f, with def f(completion, answer): return completion.strip() == answer",
        ) from error  # fmt: skip
    if unnamed(reward):
        raise ConfigError(
            "E163", f"the reward {label(reward)} takes *args, so its arguments are unknown", where="reward",
            why="a reward function receives values by the names of its parameters",
            fix=f"reward=lambda completion, answer: {label(reward)}(completion, answer), "
            "or @functools.wraps(function) in a decorator",
        )  # fmt: skip
    return names


def limits(reward_range: Any) -> tuple[float, float]:
    """The lowest and the highest reward. Raises: ConfigError E163."""
    try:
        low, top = map(float, reward_range)
    except (TypeError, ValueError):
        low = top = math.nan
    if not -math.inf < low < top < math.inf:
        raise ConfigError(
            "E163", f"reward_range is {reward_range!r:.60}", where="reward_range",
            why="it must be two finite numbers: the lowest and the highest reward", fix="reward_range=(0, 1)",
        )  # fmt: skip
    return low, top


def refuse_overlap(train: Sequence[Task], test: Sequence[Task]) -> None:
    """Raises: ConfigError E151, with row numbers, if a question is in both splits."""
    indices = {task.messages: i for i, task in reversed(list(enumerate(train)))}
    if both := [(indices[task.messages], i) for i, task in enumerate(test) if task.messages in indices]:
        pairs = ", ".join(f"train row {a} = test row {b}" for a, b in both[:10])
        raise ConfigError(
            "E151", f"{len(both)} held-out questions are also train questions", where="tasks",
            why=pairs + (f", and {len(both) - 10} more" if len(both) > 10 else ""),
            fix="remove these rows from one split; a score on questions from training does not measure generalisation",
        )  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """The columns of the prompt and the answer."""

    prompt: str = ""
    answer: str = ""
    """Empty if the rows have no answer."""
    conversational: bool = False
    judged_by_answer: bool = True
    """Whether the reward receives the answer."""

    @classmethod
    def of(cls, row: Any, reward: Callable[..., Any]) -> Columns:
        """The columns of the first row. Raises: ConfigError E162; E163 for an invalid reward."""
        names = parameter_names(reward)
        if not isinstance(row, Mapping):
            return cls()
        prompt, answer = column(row, PROMPTS), column(row, ANSWERS)
        if not prompt:
            raise no_column(row, "prompt", PROMPTS, "train, row 0")
        if not answer and set(ANSWERS) & set(names):
            raise no_column(row, f"answer, and {label(reward)} needs one", ANSWERS, "train, row 0")
        return cls(prompt, answer, not isinstance(row[prompt], str), uses_answer(reward, answer, row))

    def tasks(self, rows: Sequence[Any], split: str) -> list[Task]:
        """The tasks of a split. Raises: ConfigError E162, with the numbers of all rows that have the first fault."""
        tasks, problems = list[Task](), dict[int, ConfigError]()
        for i, row in enumerate(rows):
            try:
                tasks.append(self.task(row))
            except ConfigError as error:
                problems[i] = error
        for first in problems.values():
            indices = [i for i, each in problems.items() if each.where == first.where]
            where = ", ".join(filter(None, (split, number_rows(indices), first.where)))
            raise ConfigError(first.code, first.what, where=where, why=first.why, fix=first.fix)
        return tasks

    def task(self, row: Any) -> Task:
        """The task of a row. Raises: ConfigError E162 at a column."""
        if isinstance(row, Task):
            return row
        if not isinstance(row, Mapping):
            fix = f"give a row such as {EXAMPLE}"
            raise ConfigError("E162", f"a task must be a row (a dict), not {type(row).__name__}", fix=fix)
        for name in filter(None, (self.prompt or "prompt", self.answer)):
            if row.get(name) is None:
                raise no_column(row, name, (name,), name)
        messages, gold = self.messages(row), self.gold(row)
        info = {str(key): value for key, value in row.items() if key not in (self.prompt, self.answer)}
        return Task(id=identity("row", [m.content for m in messages], gold), messages=messages, answer=gold, info=info)

    def messages(self, row: Mapping[str, Any]) -> tuple[Message, ...]:
        """The messages of a prompt. Raises: ConfigError E162."""
        value = row[self.prompt]
        try:
            return prompt_of(value)
        except ValueError as error:
            raise ConfigError(
                "E162", f"a prompt must be text or messages and is {value!r:.60}", where=f"column {self.prompt!r}",
                why=str(error), fix='give text, or messages such as [{"role": "user", "content": "2 + 2?"}]',
            ) from error  # fmt: skip

    def gold(self, row: Mapping[str, Any]) -> Any:
        """The answer of a row. Raises: ConfigError E162 for a missing value that the reward would judge by."""
        value = row[self.answer] if self.answer else None
        if self.answer and self.judged_by_answer and not isinstance(value, Mapping | list | tuple):
            try:
                reference(value)
            except ValueError as error:
                raise ConfigError(
                    "E162", f"an answer is {value!r:.60}", where=f"column {self.answer!r}", why=str(error),
                    fix="correct or remove these rows",
                ) from error  # fmt: skip
        return value


def splits_of(tasks: Any) -> dict[str, list[Any]]:
    """The rows of every supplied split. Raises: ConfigError E162."""
    if isinstance(tasks, str | Path):
        return {"train": list(read_rows(str(tasks)))}
    if isinstance(tasks, Mapping) and "train" in tasks:
        test = next((name for name in ("test", "validation") if name in tasks), None)
        return {"train": as_list(tasks["train"])} | ({"test": as_list(tasks[test])} if test else {})
    return {"train": as_list(tasks)}


def as_list(rows: Any) -> list[Any]:
    if callable(getattr(rows, "to_dict", None)) and hasattr(rows, "columns"):
        rows = rows.to_dict("records")  # A pandas DataFrame.
    if isinstance(rows, str | Mapping) or not isinstance(rows, Iterable):
        raise ConfigError(
            "E162", f"the tasks must be rows, not {type(rows).__name__}", where="tasks",
            fix=f"give a list of rows such as {EXAMPLE}, the path of a .jsonl file, or a data set",
        )  # fmt: skip
    result = list(rows)
    if not result:
        raise ConfigError("E162", "there are no tasks", where="tasks", fix=f"give a list of rows such as {EXAMPLE}")
    return result


def column(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """The first of these names that is a column of the row; empty if none is."""
    return next((name for name in names if row.get(name) is not None), "")


def no_column(row: Any, what: str, names: Sequence[str], where: str) -> ConfigError:
    fix = f"name the column {names[0]!r}" + (f", or one of {', '.join(names[1:])}" if names[1:] else "")
    why = f"its columns are {', '.join(map(str, row))}"
    return ConfigError("E162", f"a task has no {what}", where=where, why=why, fix=fix)


def held_out(tasks: Sequence[Task]) -> tuple[list[int], list[int]]:
    """The indices of train tasks and of held-out ones: an eighth of the distinct questions, at least one, by hash.

    Raises: ConfigError E162 if there is only one question.
    """
    keys = [identity([message.content for message in task.messages]) for task in tasks]
    different = sorted(set(keys))
    if len(different) < 2:
        raise ConfigError(
            "E162", "there is only one question, and at least one must be held out for evaluation", where="tasks",
            fix="give more tasks, or both splits: {'train': ROWS, 'test': ROWS}",
        )  # fmt: skip
    test_keys = set(different[: max(1, len(different) // TEST_SHARE)])
    train = [i for i, name in enumerate(keys) if name not in test_keys]
    return train, [i for i, name in enumerate(keys) if name in test_keys]
