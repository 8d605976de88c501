"""Whether an answer is a piece of the question."""

from __future__ import annotations

import re
from collections import Counter

from gnomon.verifiers.mathematics.signs import GREEK, LAYOUT, RENAMED, SIGNS, SUPERSCRIPT

__all__ = ["repeats"]

PIECE = re.compile(r"\\[a-zA-Z]+|\\.|[0-9]+(?:[.,][0-9]+)*|[a-zA-Z]+|\*\*|[^\s]")
MAX_QUESTION = 20_000
"""Characters of a question that are looked at."""


def repeats(answer: str, question: str) -> bool:
    """Whether the signs of the answer stand side by side in the question, in any order."""
    said, asked = _pieces(answer), _pieces(question[:MAX_QUESTION])
    if not said or len(said) > len(asked):
        return False
    wanted, window = Counter(said), Counter(asked[: len(said)])
    for place in range(len(asked) - len(said) + 1):
        if place:
            window[asked[place - 1]] -= 1
            window[asked[place + len(said) - 1]] += 1
        if all(window[piece] == count for piece, count in wanted.items()):
            return True
    return False


def _pieces(text: str) -> list[str]:
    """Signs in one notation, without layout, braces and the signs around formulas."""
    for sign, plain in {**SIGNS, **{sign: f"\\{name} " for sign, name in GREEK.items()}}.items():
        text = text.replace(sign, plain)
    text = re.sub(f"[{''.join(SUPERSCRIPT)}]", lambda match: "^" + SUPERSCRIPT[match.group()], text)
    text = re.sub(r"\\[dt]?frac\s*([0-9])\s*([0-9])", r"\\frac{\1}{\2}", text)
    found = list[str]()
    for piece in PIECE.findall(text):
        piece = RENAMED.get(piece, piece)
        piece = "/" if piece == "\\frac" else piece
        if piece in LAYOUT or piece in ("{", "}", "$", "\\(", "\\)", "\\[", "\\]", "\\,", "\\ ", "~", ".", ""):
            continue
        known = piece.startswith("\\") or not piece.isalpha() or len(piece) > 3
        found += [piece] if known else list(piece)
    return found
