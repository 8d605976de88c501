"""The text of a reply for an environment: without reasoning, and with tool calls in one common form."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.rendering.base import Renderer
from gnomon.rendering.plain import Plain

__all__ = ["reply_text"]


def reply_text(renderer: Renderer, prompt_ids: Sequence[int], text: str, token_ids: Sequence[int]) -> str:
    """The text of a reply for an environment. Reasoning that the prompt has opened is a part of the reply.

    Args: prompt_ids: the prompt before the reply; text: the decoded tokens, which plain text uses unchanged.
    """
    if isinstance(renderer, Plain):
        return renderer.encoding.decode(renderer.encoding.opened(prompt_ids)) + text
    reply = renderer.parse(token_ids, prompt_ids)
    return "\n".join(filter(None, [reply.text, *(call.text for call in reply.tool_calls)]))
