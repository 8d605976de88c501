"""Messages to tokens and back, in the format that a family of models was trained in."""

from gnomon.rendering.base import Origin, Parsing, Renderer, Reply, Segment, Segments, Tool, ToolCall, joined
from gnomon.rendering.plain import Plain

__all__ = ["Origin", "Parsing", "Plain", "Renderer", "Reply", "Segment", "Segments", "Tool", "ToolCall", "joined"]
