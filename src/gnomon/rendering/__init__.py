"""Convert messages to tokens and back, in the format of a model family."""

from gnomon.rendering.base import Origin, Parsing, Renderer, Reply, Segment, Segments, Tool, ToolCall, joined
from gnomon.rendering.calls import Unreadable, arguments_of
from gnomon.rendering.chatml import ChatML
from gnomon.rendering.choose import choose
from gnomon.rendering.derived import Derived, Proven
from gnomon.rendering.gemma import Gemma
from gnomon.rendering.harmony import Harmony
from gnomon.rendering.llama3 import Llama3
from gnomon.rendering.plain import Plain
from gnomon.rendering.published import Published
from gnomon.rendering.qwen3 import History, Qwen3
from gnomon.rendering.transcript import Transcript

__all__ = [
    "ChatML",
    "Derived",
    "Gemma",
    "Harmony",
    "History",
    "Llama3",
    "Origin",
    "Parsing",
    "Plain",
    "Proven",
    "Published",
    "Qwen3",
    "Renderer",
    "Reply",
    "Segment",
    "Segments",
    "Tool",
    "ToolCall",
    "Transcript",
    "Unreadable",
    "arguments_of",
    "choose",
    "joined",
]
