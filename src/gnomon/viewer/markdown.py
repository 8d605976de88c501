"""Replies as Markdown, without anything that could load, run or restyle: no HTML, no links, no pictures."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markupsafe import Markup

from gnomon.terminal import printable

__all__ = ["markdown"]

LEFT_OUT = ["html_block", "html_inline", "link", "image", "autolink", "reference", "entity"]


@cache
def parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").disable(LEFT_OUT)


def markdown(text: str) -> Markup:
    """A text of Markdown as HTML. Its headings are below those of the page, and tables are aligned by the page."""
    tokens = parser().parse(printable(text.expandtabs(4)))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "h4"
        token.attrs.pop("style", None)
    return Markup(parser().renderer.render(tokens, parser().options, {}))
