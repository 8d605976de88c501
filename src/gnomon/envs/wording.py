"""How an environment words its prompts: a template around the question, and the answer format as a hint."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from gnomon.types import Message, Task

__all__ = ["EXAMPLE", "SLOT", "Wording", "user"]

SLOT = "<answer>...</answer>"
"""The answer format, shown once at the end of every prompt."""
EXAMPLE = re.compile(rf" ?{re.escape(SLOT)}")
QUESTION = "{prompt}"


def user(text: str) -> tuple[Message, ...]:
    """A text as one user message; no message for an empty text."""
    return (Message(role="user", content=text),) if text else ()


@dataclass(frozen=True, kw_only=True)
class Wording:
    """Options that change the prompt of a task. Its id, its split and its verdicts stay the same.

    Raises: ValueError for a template without `{prompt}`.
    """

    hint: bool = True
    """Whether prompts end with the answer format, `<answer>...</answer>`."""
    template: str = QUESTION
    """The text of a prompt, where the question replaces `{prompt}`, such as `Question: {prompt}`."""
    question: ClassVar[str] = QUESTION
    """What `template` must contain."""

    def __post_init__(self) -> None:
        if self.question not in self.template:
            raise ValueError(
                f"template is {self.template!r}; it must contain {self.question}, which the question replaces"
            )

    def word(self, task: Task) -> Task:
        """The task, with its messages worded by these options."""
        return replace(task, messages=self.asking(task.messages))

    def asking(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages, with the text of every user message inserted into the template."""
        if self.template == QUESTION:
            return self.without_hint(messages)
        return tuple(
            replace(message, content=self.template.replace(QUESTION, message.content))
            if message.role == "user" else message
            for message in self.without_hint(messages)
        )  # fmt: skip

    def without_hint(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages; where `hint` is false, without the answer format, and without messages that are empty then."""
        if self.hint:
            return messages
        without = (replace(message, content=EXAMPLE.sub("", message.content).strip()) for message in messages)
        return tuple(message for message in without if message.content or message.images)
