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


def sorted_out(tokens: list[Token], *, units: bool = True) -> list[Token]:
    """The tokens with every run of letters split or classified: letters, commands, words, and units.

    Args: units: whether a single letter after a number and a space can be a unit.
    """
    tokens = _degrees(tokens)
    result = list[Token]()
    i = 0
    while i < len(tokens):
        token = tokens[i]
        behind = result[-1] if result else None
        if token.kind in ("letters", "word") and behind is not None and _ends_a_number(behind):
            length = _unit(tokens, i)
            long = token.kind == "word" or len(token.text) > 1
            if length and (long or (units and (token.spaced or length > 1))):
                result.append(Token("word", _join(tokens[i : i + length]), True))
                i += length
                continue
        if token.text == "/" and behind is not None and behind.kind == "number":
            length = _unit(tokens, i + 1)
            if length and len(tokens[i + 1].text) > 1:  # `$12/hour`
                result.append(Token("word", "per " + _join(tokens[i + 1 : i + 1 + length]), True))
                i += 1 + length
                continue
        result += _run(token, behind) if token.kind in ("letters", "word") else [token]
        i += 1
    return result


def noun(text: str) -> bool:
    """Whether the words after a number can be a counted noun: at most three, none of which modifies the number."""
    words = text.replace("-", " ").split()
    return 1 <= len(words) <= 3 and not any(word in FUNCTION_WORDS or not word.isalpha() for word in words)


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


def _degrees(tokens: list[Token]) -> list[Token]:
    r"""The tokens with one sign for `^\circ` and `^{\circ}`."""
    result = list[Token]()
    i = 0
    while i < len(tokens):
        texts = [token.text for token in tokens[i : i + 4]]
        for pattern in (["^", "\\circ"], ["^", "{", "\\circ", "}"]):
            if texts[: len(pattern)] == pattern:
                result.append(Token("sign", "°"))
                i += len(pattern)
                break
        else:
            result.append(tokens[i])
            i += 1
    return result


def _unit(tokens: list[Token], start: int) -> int:
    """Number of tokens from here on that form one known unit of measure."""
    end = start
    while end < len(tokens) and (
        tokens[end].kind in ("letters", "word") or tokens[end].text in ("/", "^", "{", "}", "-")
        or (tokens[end].kind == "number" and tokens[end - 1].text in ("^", "{", "-") and end > start)
    ):  # fmt: skip
        end += 1
    for stop in range(end, start, -1):
        ahead = tokens[stop] if stop < len(tokens) else None
        open_ended = ahead is None or ahead.kind == "word" or ahead.text in ENDS or ahead.text.lower() in CONNECTING
        if open_ended and measure(_join(tokens[start:stop])):
            return stop - start
    return 0


def _join(tokens: list[Token]) -> str:
    text = ""
    for token in tokens:
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
    is_word = lower in FUNCTION_WORDS or lower in SCALES or measure(lower) is not None
    foreign = behind is not None and behind.kind == "number" and token.spaced and not LETTERS.issuperset(lower)
    if len(text) > 3 or is_word or foreign or (behind is not None and behind.kind == "word"):
        return [Token("word", lower, token.spaced)]
    return [Token("letter", char, token.spaced and not i) for i, char in enumerate(text)]
