"""Classify runs of letters as names, functions, units or words, by their context."""

from __future__ import annotations

from gnomon.verifiers.mathematics.notation import Token
from gnomon.verifiers.mathematics.vocabulary import (
    CONNECTING,
    ENDS,
    FUNCTION_WORDS,
    FUNCTIONS,
    LETTERS,
    ONES,
    SCALES,
    SPELLED,
    TENS,
)
from gnomon.verifiers.units import measure

__all__ = ["noun", "numeral", "sorted_out"]


def sorted_out(found: list[Token], *, units: bool = True) -> list[Token]:
    """The tokens with every run of letters split or classified: letters, commands, words, and units.

    Args: units: whether a single letter after a number and a space can be a unit.
    """
    found = _degrees(found)
    result = list[Token]()
    place = 0
    while place < len(found):
        token = found[place]
        behind = result[-1] if result else None
        if token.kind in ("letters", "word") and behind is not None and _ends_a_number(behind):
            length = _unit(found, place)
            long = token.kind == "word" or len(token.text) > 1
            if length and (long or (units and (token.spaced or length > 1))):
                result.append(Token("word", _joined(found[place : place + length]), True))
                place += length
                continue
        if token.text == "/" and behind is not None and behind.kind == "number":
            length = _unit(found, place + 1)
            if length and len(found[place + 1].text) > 1:  # `$12/hour`
                result.append(Token("word", "per " + _joined(found[place + 1 : place + 1 + length]), True))
                place += 1 + length
                continue
        result += _run(token, behind) if token.kind in ("letters", "word") else [token]
        place += 1
    return result


def noun(text: str) -> bool:
    """Whether the words after a number can be a counted noun: at most three, none of which modifies the number."""
    found = text.replace("-", " ").split()
    return 1 <= len(found) <= 3 and not any(word in FUNCTION_WORDS or not word.isalpha() for word in found)


def numeral(text: str) -> int | None:
    """The whole number below a hundred that the words name."""
    first, _, second = text.partition(" ")
    if not second and first in ONES:
        return ONES.index(first)
    if first in TENS and (not second or second in ONES[1:10]):
        return 10 * TENS.index(first) + 20 + (ONES.index(second) if second else 0)
    return None


def _ends_a_number(token: Token) -> bool:
    return token.kind == "number" or token.text in ("}", ")", "\\pi", "°")


def _degrees(found: list[Token]) -> list[Token]:
    r"""The tokens with one sign for `^\circ` and `^{\circ}`."""
    result = list[Token]()
    place = 0
    while place < len(found):
        texts = [token.text for token in found[place : place + 4]]
        for pattern in (["^", "\\circ"], ["^", "{", "\\circ", "}"]):
            if texts[: len(pattern)] == pattern:
                result.append(Token("sign", "°"))
                place += len(pattern)
                break
        else:
            result.append(found[place])
            place += 1
    return result


def _unit(found: list[Token], place: int) -> int:
    """Number of tokens from here on that form one known unit of measure."""
    end = place
    while end < len(found) and (
        found[end].kind in ("letters", "word") or found[end].text in ("/", "^", "{", "}", "-")
        or (found[end].kind == "number" and found[end - 1].text in ("^", "{", "-") and end > place)
    ):  # fmt: skip
        end += 1
    for stop in range(end, place, -1):
        ahead = found[stop] if stop < len(found) else None
        open_ended = ahead is None or ahead.kind == "word" or ahead.text in ENDS or ahead.text.lower() in CONNECTING
        if open_ended and measure(_joined(found[place:stop])):
            return stop - place
    return 0


def _joined(found: list[Token]) -> str:
    text = ""
    for token in found:
        both = text and text[-1].isalpha() and token.kind in ("letters", "word")
        text += (" " if both else "") + token.text
    return text.replace("{", "").replace("}", "")


def _run(token: Token, behind: Token | None) -> list[Token]:
    text, lower = token.text, token.text.lower()
    if lower in CONNECTING:
        return [Token("command", CONNECTING[lower], True)]
    if lower in FUNCTIONS:
        return [Token("command", "\\" + lower, token.spaced)]
    if lower in SPELLED:
        return [Token("command", SPELLED[lower], token.spaced)]
    if token.kind == "word":
        return [Token("word", lower, token.spaced)]
    if len(text) == 1:
        return [Token("letter", text, token.spaced)]
    start = next((name for name in sorted(FUNCTIONS, key=len, reverse=True) if text.startswith(name)), "")
    if start and len(text) == len(start) + 1:
        return [Token("command", "\\" + start, token.spaced), Token("letter", text[len(start) :])]
    known = lower in FUNCTION_WORDS or lower in SCALES or measure(lower) is not None
    foreign = behind is not None and behind.kind == "number" and token.spaced and not LETTERS.issuperset(lower)
    if len(text) > 3 or known or foreign or (behind is not None and behind.kind == "word"):
        return [Token("word", lower, token.spaced)]
    return [Token("letter", char, token.spaced and not place) for place, char in enumerate(text)]
