"""A text that equals the gold, exactly or after named rules."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gnomon.verifiers.extract import Strictness
from gnomon.verifiers.slot import Answered

__all__ = ["Rule", "Text", "golds", "normal", "strip_marks", "unwrap"]


MOST_MARKS = 8
"""Marks inside one another."""
WRAPPED = re.compile(r"(?P<mark>\*\*|__|\*|_|`|\$\$?|\"|')(?P<inner>.+)(?P=mark)", re.DOTALL)
MARKED = re.compile(r"(?P<mark>\*\*\*|\*\*|__|\*|`)(?P<inner>[^*_`]+)(?P=mark)")
COMMAND = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|up|normal)?|math(?:bf|rm|it|sf)|bm|boldsymbol|emph|mbox)\s*\{(?P<inner>[^{}]*)\}"
)
"""A text in LaTeX. It has no braces of its own."""


class Rule(StrEnum):
    """A difference between two texts that is ignored."""

    NFKC = "nfkc"
    """Unicode compatibility: full-width digits, ligatures, superscripts, composed and combining accents."""
    CASE = "case"
    """Upper and lower case."""
    SPACES = "spaces"
    """The amount of white space between words, and white space around the text."""
    PUNCTUATION = "punctuation"
    """All characters of the Unicode categories P*."""
    ARTICLES = "articles"
    """The words a, an and the."""


def normal(text: str, rules: tuple[Rule, ...]) -> str:
    """The text normalised by the rules, in order."""
    for rule in rules:
        if rule is Rule.NFKC:
            text = unicodedata.normalize("NFKC", text)
        elif rule is Rule.CASE:
            text = text.casefold()
        elif rule is Rule.SPACES:
            text = " ".join(text.split())
        elif rule is Rule.PUNCTUATION:
            text = "".join(char for char in text if not unicodedata.category(char).startswith("P"))
        else:
            text = " ".join(word for word in text.split() if word.lower() not in ("a", "an", "the"))
    return text


def strip_marks(text: str) -> str:
    """The text without the marks of Markdown, bold or code, that enclose all of it."""
    match = MARKED.fullmatch(text.strip())
    return text if match is None else match["inner"]


def unwrap(text: str) -> str:
    r"""The text without marks that enclose all of it: bold or code of Markdown, quotes, `$…$`, `\text{…}`."""
    for _ in range(MOST_MARKS):
        text = text.strip()
        match = WRAPPED.fullmatch(text) or COMMAND.fullmatch(text)
        if match is None or (match.re is WRAPPED and match["mark"] in match["inner"]):
            break
        text = match["inner"]
    return text


def golds(gold: Any) -> tuple[str, ...]:
    """The correct texts: the task's answer, or several. Raises: ValueError if it is neither a text nor texts."""
    texts = (gold,) if isinstance(gold, str) else tuple(gold) if isinstance(gold, list | tuple) else ()
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"the task's own answer {gold!r:.100} is neither a text nor several")
    return texts


@dataclass(frozen=True, kw_only=True)
class Text(Answered):
    """The answer is a text. The reference is one text or a list of correct texts."""

    rules: tuple[Rule, ...] = ()
    """Differences to ignore; without any, texts must match exactly."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rules", tuple(Rule(rule) for rule in self.rules))

    def accepts(self, answer: str, gold: Any) -> bool:
        words = normal(answer, self.rules)
        # A text that is empty after normalisation is never correct.
        return bool(words) and words in {self._normal(text) for text in golds(gold)}

    def require_gold(self, gold: Any) -> None:
        for text in golds(gold):
            if not self._normal(text):
                raise ValueError(f"the task's own answer {text!r:.100} is empty, and an empty answer is never correct")

    def _normal(self, gold: str) -> str:
        """A correct text as answers are compared with it: without the white space around it, as the slot is read."""
        return normal(gold if self.strictness is Strictness.EXACT else gold.strip(), self.rules)
