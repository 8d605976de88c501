"""A text that matches a whole regular expression."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gnomon.verifiers.slot import Answered

__all__ = ["Pattern"]


@dataclass(frozen=True, kw_only=True)
class Pattern(Answered):
    """The answer is a text; the reference is a Python regular expression that must match all of it.

    The pattern comes from the task's author, the text from the policy. `re` backtracks, so a text can make a careless
    pattern take exponential time. A `Pool` then stops it, and the verdict is `EXCEEDED`.
    """

    ignore_case: bool = False
    dot_matches_newline: bool = False

    def accepts(self, answer: str, gold: Any) -> bool:
        flags = (re.IGNORECASE if self.ignore_case else 0) | (re.DOTALL if self.dot_matches_newline else 0)
        if not isinstance(gold, str):
            raise ValueError(f"the task's own answer {gold!r:.100} is not a regular expression")
        try:
            return re.fullmatch(gold, answer, flags) is not None
        except (re.error, OverflowError, RecursionError) as problem:
            raise ValueError(f"the task's own answer {gold!r:.100} is not a regular expression: {problem}") from problem

    def require_gold(self, gold: Any) -> None:
        self.accepts("", gold)
