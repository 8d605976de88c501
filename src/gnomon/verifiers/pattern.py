"""A text that matches a regular expression as a whole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gnomon.verifiers.slot import Answered

__all__ = ["Pattern"]


@dataclass(frozen=True, kw_only=True)
class Pattern(Answered):
    """The answer is a text, the gold a regular expression of Python's `re` that has to match all of it.

    The pattern comes from the task's author, the text from the policy. `re` goes back and tries again, so a careless
    pattern takes exponential time on a text made for it: judged in a `Pool`, the text is then `EXCEEDED`.
    """

    ignore_case: bool = False
    dot_matches_newline: bool = False

    def accepts(self, answer: str, gold: Any) -> bool:
        flags = (re.IGNORECASE if self.ignore_case else 0) | (re.DOTALL if self.dot_matches_newline else 0)
        if not isinstance(gold, str):
            raise ValueError(f"the task's own answer {gold!r:.100} is not a regular expression")
        try:
            return re.fullmatch(gold, answer, flags) is not None
        except re.error as problem:
            raise ValueError(f"the task's own answer {gold!r:.100} is not a regular expression: {problem}") from problem
