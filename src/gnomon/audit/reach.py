"""The replies that a policy of a run can write: at most `max_tokens` tokens, and only decodable text."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["LONGEST", "MAX_TOKENS", "Reach"]

MAX_TOKENS = 4096
"""Default limit of a reply, in tokens."""
LONGEST = 16
"""Characters of a token at most; no token reaches beyond a `PIECE`."""
PIECE = re.compile(r"[^\w\r\n]?\w+| ?[^\w\s]+[\r\n]*|\s+")
"""What tokenizers of byte pairs cut a text into first: a word with the sign before it, a row of signs, white space."""
SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Reach:
    """The replies that `max_tokens` allow. Tokens are taken to be long, so it holds more than a policy reaches."""

    max_tokens: int = MAX_TOKENS

    def holds(self, text: str) -> bool:
        """Whether a policy could write the text. Tokenizers never decode to a lone surrogate."""
        return len(self.cut(text)) == len(text) and SURROGATE.search(text) is None

    def cut(self, text: str, around: str = "") -> str:
        """As much of the beginning of a text as a policy could write. Args: around: what else its reply has to hold."""
        budget = self.max_tokens - sum(map(tokens, PIECE.finditer(around)))
        for piece in PIECE.finditer(text):
            cost = tokens(piece)
            if cost > budget:
                return text[: piece.start() + max(0, budget) * LONGEST]
            budget -= cost
        return text


def tokens(piece: re.Match[str]) -> int:
    """The fewest tokens of a piece."""
    return -(-(piece.end() - piece.start()) // LONGEST)
