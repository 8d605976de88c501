"""Texts that match a regular expression, as replies for a verifier that searches for it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

__all__ = ["examples", "is_pattern"]

MOST = 12
"""Largest number of texts for one pattern."""
LONGEST = 200
REPEATS = 8
"""Largest number of repetitions, unless the pattern requires more."""
WANTED = ("10", "100", "5", "1.0", "correct", "yes", "true", "A")
"""Likely values for patterns that match several characters."""
KINDS = {"digit": "1079", "word": "a71", "space": " ", "not_digit": "x", "not_word": ".", "not_space": "x7"}
"""Characters of a class, the likeliest first."""


def is_pattern(text: str) -> bool:
    """Whether a text is a regular expression that means more than itself."""
    return re.search(r"[\\.*+?|\[\](){}^$]", text) is not None and compile_pattern(text) is not None


def compile_pattern(text: str) -> Any:
    try:
        with warnings.catch_warnings(action="ignore"):
            return re._parser.parse(text)  # type: ignore[attr-defined]  # The only parser of this syntax there is.
    except (re.error, OverflowError, RecursionError):
        return None


def examples(pattern: str, most: int = MOST) -> list[str]:
    """Different texts that the pattern matches, short ones first; none for what is no pattern."""
    parsed = compile_pattern(pattern) if len(pattern) <= LONGEST else None
    if parsed is None:
        return []
    candidates = dict.fromkeys(islice(texts(parsed), 40 * most))
    return [text for text in candidates if matches(pattern, text)][:most]


def matches(pattern: str, text: str) -> bool:
    with warnings.catch_warnings(action="ignore"):
        return len(text) <= LONGEST and re.search(pattern, text) is not None


def texts(parsed: Any) -> Iterator[str]:
    """Joins of what each step of the pattern matches; each step in its likeliest form is the first."""
    steps = [list(islice(step(name, argument), MOST)) or [""] for name, argument in parsed]
    for varied, choices in enumerate(steps):  # One step at a time is varied before several are.
        for choice in choices:
            yield "".join(choice if varied == number else first[0] for number, first in enumerate(steps))
    for some in product(*steps):
        yield "".join(some)


def step(name: Any, argument: Any) -> Iterator[str]:
    """What one step of a parsed pattern matches."""
    match str(name):
        case "LITERAL":
            yield chr(argument)
        case "NOT_LITERAL":
            yield "7" if argument != ord("7") else "x"
        case "ANY":
            yield from ("7", "x")
        case "IN":
            yield from members(argument)
        case "BRANCH":
            for branch in argument[1]:
                yield from islice(texts(branch), 2)
        case "SUBPATTERN":
            yield from islice(texts(argument[3]), MOST)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, greatest, inner = argument
            once = list(islice(texts(inner), MOST))
            yield from (text * least for text in once if least <= REPEATS)
            if least == 0 and greatest:
                yield from once
            if greatest > max(1, least) and once:
                yield once[0] + once[-1]
                signs = "".join(once)
                digits, letters = any(map(str.isdigit, signs)), any(map(str.isalpha, signs))
                yield from (text for text in WANTED if (digits if text[0].isdigit() else letters))
        case "ATOMIC_GROUP":
            yield from islice(texts(argument), MOST)
        case _:
            yield ""  # Ends, borders and looks around: whether they hold, the finished text is asked.


def members(argument: Any) -> Iterator[str]:
    """Characters of a class."""
    if str(argument[0][0]) == "NEGATE":
        inverse = (
            re.compile("[" + "".join(re.escape(char) for char in spell(argument[1:])) + "]") if argument[1:] else None
        )
        yield from (char for char in "7x ." if inverse is None or not inverse.match(char))
        return
    yield from spell(argument)


def spell(argument: Any) -> list[str]:
    chars: list[str] = []
    for name, value in argument:
        if str(name) == "LITERAL":
            chars.append(chr(value))
        elif str(name) == "RANGE":
            chars += [chr(value[1]), chr(value[0])]
        else:
            kind = str(value).removeprefix("CATEGORY_").lower()
            chars += KINDS.get(kind, "x")
    return chars
