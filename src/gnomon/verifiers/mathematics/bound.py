r"""Bound variables: `\int f(s)\,ds` and `\int f(t)\,dt` are one formula, and so are sums over k and over j."""

from __future__ import annotations

from dataclasses import replace

from gnomon.verifiers.mathematics.notation import Token

__all__ = ["rebound"]

INTEGRALS = {"\\int": 1, "\\oint": 1, "\\iint": 2, "\\iiint": 3}
"""Number of variables that an integral binds."""
INDEXED = {"\\sum": "=", "\\prod": "=", "\\lim": "\\to"}
"""The sign after the variable that the command binds."""
BOUND = "bound "
ENDS = frozenset(("+", "-", "=", ",", ";", "<", ">", "\\le", "\\ge", "\\ne", "\\approx"))
OPENING, CLOSING = frozenset(("{", "(", "[", "\\{")), frozenset(("}", ")", "]", "\\}"))


def rebound(tokens: list[Token]) -> list[Token]:
    """The tokens with every bound variable replaced by a number. An integral without limits binds nothing."""
    result, number = list(tokens), 0
    for i in reversed(range(len(result))):
        for name, spans in _bound(result, i):
            number += 1
            for start, end in spans:
                inside = result[start:end]
                result[start:end] = [replace(t, text=f"{BOUND}{number}") if _is(t, name) else t for t in inside]
    return result


def _bound(tokens: list[Token], i: int) -> list[tuple[str, list[tuple[int, int]]]]:
    """The variables that the token at this place binds, each with the spans in which it does."""
    text, start = tokens[i].text, _after_limits(tokens, i + 1)
    if text in INTEGRALS and start > i + 1:
        return _integrand(tokens, start, INTEGRALS[text])
    if text in INDEXED and [token.text for token in tokens[i + 1 : i + 3]] == ["_", "{"]:
        index = tokens[i + 3 : i + 5]
        if len(index) == 2 and index[0].kind == "letter" and index[1].text == INDEXED[text]:
            return [(index[0].text, [(i + 3, i + 4), (start, _summand(tokens, start))])]
    return []


def _is(token: Token, name: str) -> bool:
    return token.kind == "letter" and token.text == name


def _integrand(tokens: list[Token], start: int, count: int) -> list[tuple[str, list[tuple[int, int]]]]:
    """As many variables as an integral has, with its integrand and the differentials."""
    names = list[str]()
    depth = 0
    for at in range(start, len(tokens)):
        depth += (tokens[at].text in OPENING) - (tokens[at].text in CLOSING)
        if depth < 0:
            break
        differential = at > start and tokens[at].kind == "letter" and _is(tokens[at - 1], "d")
        if differential and not tokens[at].text.startswith(BOUND):
            names.append(tokens[at].text)
            if len(names) == count:
                end = _closed(tokens, at + 1, depth)
                # `\\frac{dx}{x}`: the denominator is a part of the integrand.
                return [(name, [(start, _group(tokens, end) if depth else end)]) for name in names]
    return []


def _summand(tokens: list[Token], start: int) -> int:
    """Where the product that begins at `start` ends."""
    depth = 0
    for at in range(start, len(tokens)):
        text = tokens[at].text
        depth += (text in OPENING) - (text in CLOSING)
        if depth < 0 or (not depth and (text in ENDS or tokens[at].kind == "word")):
            return at
    return len(tokens)


def _after_limits(tokens: list[Token], i: int) -> int:
    """Where the limits of an operator end."""
    while i < len(tokens) and tokens[i].text in ("_", "^"):
        i = _group(tokens, i + 1) if i + 1 < len(tokens) and tokens[i + 1].text == "{" else i + 2
    return i


def _group(tokens: list[Token], i: int) -> int:
    """Where the group in braces at this place ends; the place itself if none begins there."""
    if i >= len(tokens) or tokens[i].text != "{":
        return i
    return _closed(tokens, i + 1, 1)


def _closed(tokens: list[Token], i: int, depth: int) -> int:
    """The place after as many closing brackets as are open."""
    while i < len(tokens) and depth > 0:
        depth += (tokens[i].text in OPENING) - (tokens[i].text in CLOSING)
        i += 1
    return i
