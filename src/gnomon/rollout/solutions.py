"""Self-distillation: the reference policy reads the task's reference answer before it scores a reply."""

from __future__ import annotations

from dataclasses import replace

import torch

from gnomon.envs.base import Env, SingleTurn
from gnomon.errors import ConfigError
from gnomon.learners.batch import Batch, TokenSequence
from gnomon.rollout.conversation import Begin
from gnomon.types import Message, Task

__all__ = ["SolutionShown", "with_solutions"]


def with_solutions(env: Env, why: str) -> SingleTurn:
    """The environment, if it knows a correct answer to every task. Raises: ConfigError E037 if it does not."""
    if isinstance(env, SingleTurn):
        return env
    raise ConfigError(
        "E037",
        "the environment has no reference answers",
        where=type(env).__name__,
        why=why,
        fix="use an environment with `solution(task)` (a SingleTurn), or objective=rloo",
    )


class SolutionShown:
    """The sequences of a batch as the reference policy reads them: the same replies after another prompt.

    That prompt is the task's prompt, then a correct reply as a message of the assistant, then the question again.

    Args: begin: begins a new conversation.
    Raises: ConfigError E037 for an environment without reference answers.
    """

    def __init__(self, env: Env, begin: Begin) -> None:
        self.env = with_solutions(
            env, "with this objective, the reference policy reads the reference answer of each task"
        )
        self.begin, self.tasks = begin, env.tasks("train")

    def __call__(self, batch: Batch) -> tuple[TokenSequence, ...]:
        """In the order of the batch, each with the trainable tokens of its sequence."""
        index = batch.rollouts.task
        assert index is not None, "a packed batch knows its tasks"
        prompts: dict[int, torch.Tensor] = {}
        sequences = []
        for sequence in batch.sequences:
            task = int(index.flatten()[sequence.rollout])
            if task not in prompts:
                prompts[task] = torch.tensor(self.begin(self.messages(self.tasks[task])).token_ids)
            sequences.append(after(prompts[task], sequence))
        return tuple(sequences)

    def messages(self, task: Task) -> tuple[Message, ...]:
        """The task, a correct reply to it, and its question again, without the examples and the system's message."""
        examples = max((i + 1 for i, message in enumerate(task.messages) if message.role == "assistant"), default=0)
        question = tuple(message for message in task.messages[examples:] if message.role != "system")
        reply = Message(role="assistant", content=self.env.framed(self.env.solution(task)))
        return (*task.messages, reply, *question)


def after(prompt: torch.Tensor, sequence: TokenSequence) -> TokenSequence:
    """The sequence with another prompt before its first trainable token. Args: prompt: [P] int64."""
    first = int(sequence.trainable.nonzero()[0])
    return replace(
        sequence,
        token_ids=torch.cat([prompt, sequence.token_ids[first:]]),
        trainable=torch.cat([torch.zeros_like(prompt, dtype=torch.bool), sequence.trainable[first:]]),
        observed=None,
    )
