"""An environment of one turn as the reward function of another trainer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gnomon.envs import messages
from gnomon.envs.base import Env
from gnomon.errors import ConfigError, VerifierError
from gnomon.integrations.exports.plays import Plays
from gnomon.types import Status, Task, Verdict

__all__ = ["single", "trl_reward", "trl_rows", "verl_rows", "verl_score"]


def trl_rows(env: Env, split: str, count: int) -> list[dict[str, Any]]:
    """Rows of a TRL data set: the prompt as messages, and the split and index of the task."""
    tasks = env.tasks(split)
    return [{"prompt": prompt_of(tasks[index]), "split": split, "index": index} for index in range(count)]


def trl_reward(env: Env, *, workers: int = 2, seconds: float = 2.0) -> Callable[..., list[float]]:
    """A reward function for TRL's trainers, for the rows of `trl_rows`.

    Completions are messages or text. A reply that takes too long to judge earns the minimum. A failure of the verifier
    raises, and never becomes the reward 0.

    Raises: ConfigError E177 for an environment of several turns. The returned function raises VerifierError E178.
    Source: trl 1.16, `GRPOTrainer._calculate_rewards`.
    """
    plays, splits = Plays(single(env), workers=workers, seconds=seconds), Splits(env)

    def reward(
        prompts: Sequence[Any], completions: Sequence[Any], split: Sequence[str], index: Sequence[int], **columns: Any
    ) -> list[float]:
        items = [
            (splits.task(where, number), text_of(completion))
            for completion, where, number in zip(completions, split, index, strict=True)
        ]
        return [verdict.reward for verdict in sound(plays.verdicts(items))]

    # TRL logs a reward under its function's name.
    reward.__name__ = type(env).__name__
    return reward


def verl_rows(env: Env, split: str, count: int) -> list[dict[str, Any]]:
    """Rows of a verl data set, without the ground truth: `verl_score` uses the environment."""
    tasks, name = env.tasks(split), type(env).__name__
    return [
        {
            "data_source": name,
            "prompt": prompt_of(tasks[index]),
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"split": split, "index": index},
        }
        for index in range(count)
    ]


def verl_score(env: Env, *, workers: int = 2, seconds: float = 2.0) -> Callable[..., dict[str, Any]]:
    """A `compute_score` for verl, for the rows of `verl_rows`. It returns the score, and whether it is correct.

    Raises: ConfigError E177 for an environment of several turns. The returned function raises VerifierError E178.
    Source: verl, `NaiveRewardManager` and `custom_reward_function`.
    """
    plays, splits = Plays(single(env), workers=workers, seconds=seconds), Splits(env)

    def compute_score(
        data_source: str, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any], **others: Any
    ) -> dict[str, Any]:
        task = splits.task(extra_info["split"], int(extra_info["index"]))
        (verdict,) = sound(plays.verdicts([(task, solution_str)]))
        return {"score": verdict.reward, "acc": verdict.correct, "status": str(verdict.status)}

    return compute_score


class Splits:
    """The tasks of an environment, by split and index."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self._splits: dict[str, Sequence[Task]] = {}

    def task(self, split: str, index: int) -> Task:
        if split not in self._splits:
            self._splits[split] = self.env.tasks(split)
        return self._splits[split][index]


def single(env: Env) -> Env:
    """The environment. Raises: ConfigError E177 if it has several turns."""
    if env.max_turns != 1:
        raise ConfigError(
            "E177", f"{type(env).__name__} has several turns, and a reward function judges a single reply",
            fix="run gnomon serve-env ENV and connect with gnomon.integrations.environments.Remote",
        )  # fmt: skip
    return env


def sound(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts. Raises: VerifierError E178 if a verifier failed."""
    result = list(verdicts)
    for verdict in result:
        if verdict.status is Status.FAILED:
            raise VerifierError("E178", "a reply could not be judged", why=verdict.detail, fix="gnomon check ENV")
    return result


def prompt_of(task: Task) -> list[dict[str, str]]:
    return [message.body for message in task.messages]


def text_of(completion: Any) -> str:
    """The text of a completion: the text itself, or the content of its last message."""
    return completion if isinstance(completion, str) else messages.text_of(completion[-1]["content"])
