"""Reasoning in a text: the markers that model families write around it."""

from __future__ import annotations

import re

__all__ = ["after_reasoning", "open_marker"]

MARKERS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought", "<channel|>"),
    # In Harmony only the final channel is the answer.
    ("<|channel|>analysis", "<|channel|>final"),
)
"""Where reasoning opens and where it closes."""
OPENINGS = f"(?:{'|'.join(re.escape(opening) for opening, _ in MARKERS)})(?:<\\|message\\|>)?"
OPENED = re.compile(
    # At the end; or at the beginning of a line or after markup, with a line break and the first words of the reasoning.
    f"{OPENINGS}\\s*\\Z|(?:^|(?<=[>\\]])){OPENINGS}[ \\t]*\\n[^<\\[◁]{{1,200}}\\Z",
    re.MULTILINE,
)


def after_reasoning(text: str) -> int | None:
    """Index at which the text after the reasoning begins; None if the reasoning never closes. In linear time."""
    begin = 0
    for opening, closing in MARKERS:
        closed = text.rfind(closing)
        after = closed + len(closing) if closed >= 0 else 0
        if text.find(opening, after) >= 0:
            return None
        begin = max(begin, after)
    return begin


def open_marker(prompt: str) -> str:
    """The end of a prompt that has opened reasoning, from the marker on; empty for any other prompt.

    Some templates also write its first words, as in `<think>\\nOkay,`.
    """
    match = OPENED.search(prompt)
    return match.group() if match else ""
