"""What an environment gets of a reply: its text, without reasoning, with every tool call in the one form they read."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gnomon.rendering.base import Parsing, Renderer, Reply
from gnomon.rendering.plain import Plain

__all__ = ["reply_text"]


def reply_text(renderer: Renderer, text: str, token_ids: Sequence[int]) -> str:
    """The text that an environment gets of a reply. Args: text: of its tokens as they stand, which is plain text's."""
    return text if isinstance(renderer, Plain) else spoken(renderer.parse(token_ids))


def spoken(reply: Reply) -> str:
    calls = [
        f"<tool_call>{call.arguments}</tool_call>"
        if call.parsing is not Parsing.OK
        else f'<tool_call>{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}</tool_call>'
        for call in reply.tool_calls
    ]
    return "\n".join(filter(None, [reply.text, *calls]))
