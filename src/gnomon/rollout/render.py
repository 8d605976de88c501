"""Messages to the tokens a policy sees: plain text, one message per line, for a base model."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.models.tokenizer import Tokenizer
from gnomon.types import Message

__all__ = ["follow", "render"]


def render(messages: Sequence[Message], tokenizer: Tokenizer) -> tuple[int, ...]:
    """The prompt's token ids: the begin token where the model has one, then each message and a newline."""
    text = "".join(message.content + "\n" for message in messages)
    begin = () if tokenizer.bos is None else (tokenizer.bos,)
    return begin + tokenizer.encode(text)


def follow(messages: Sequence[Message], tokenizer: Tokenizer) -> tuple[int, ...]:
    """What is put behind a completion when the conversation goes on: a new line, then each message and a newline."""
    return tokenizer.encode("\n" + "".join(message.content + "\n" for message in messages))
