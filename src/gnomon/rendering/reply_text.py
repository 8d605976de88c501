"""The text of a reply for an environment: without reasoning, and with tool calls in one common form."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gnomon.rendering.base import Parsing, Renderer, Reply
from gnomon.rendering.plain import Plain

__all__ = ["reply_text"]


def reply_text(renderer: Renderer, prompt_ids: Sequence[int], text: str, token_ids: Sequence[int]) -> str:
    """The text of a reply for an environment. Reasoning that the prompt has opened is a part of the reply.

    Args: prompt_ids: the prompt before the reply; text: the decoded tokens, which plain text uses unchanged.
    """
    if isinstance(renderer, Plain):
        return renderer.encoding.decode(renderer.encoding.opened(prompt_ids)) + text
    return spoken(renderer.parse(token_ids, prompt_ids))


def spoken(reply: Reply) -> str:
    calls = [
        f"<tool_call>{call.arguments}</tool_call>"
        if call.parsing is not Parsing.OK
        else f'<tool_call>{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}</tool_call>'
        for call in reply.tool_calls
    ]
    return "\n".join(filter(None, [reply.text, *calls]))
