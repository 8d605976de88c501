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


def rebound(found: list[Token]) -> list[Token]:
    """The tokens with every bound variable replaced by a number. An integral without limits binds nothing."""
    result, number = list(found), 0
    for place in reversed(range(len(result))):
        for name, spans in _bound(result, place):
            number += 1
            for start, end in spans:
                inside = result[start:end]
                result[start:end] = [replace(t, text=f"{BOUND}{number}") if _is(t, name) else t for t in inside]
    return result


def _bound(found: list[Token], place: int) -> list[tuple[str, list[tuple[int, int]]]]:
    """The variables that the token at this place binds, each with the spans in which it does."""
    text, start = found[place].text, _after_limits(found, place + 1)
    if text in INTEGRALS and start > place + 1:
        return _integrand(found, start, INTEGRALS[text])
    if text in INDEXED and [token.text for token in found[place + 1 : place + 3]] == ["_", "{"]:
        index = found[place + 3 : place + 5]
        if len(index) == 2 and index[0].kind == "letter" and index[1].text == INDEXED[text]:
            return [(index[0].text, [(place + 3, place + 4), (start, _summand(found, start))])]
    return []


def _is(token: Token, name: str) -> bool:
    return token.kind == "letter" and token.text == name


def _integrand(found: list[Token], start: int, count: int) -> list[tuple[str, list[tuple[int, int]]]]:
    """As many variables as an integral has, with its integrand and the differentials."""
    names = list[str]()
    depth = 0
    for at in range(start, len(found)):
        depth += (found[at].text in OPENING) - (found[at].text in CLOSING)
        if depth < 0:
            break
        differential = at > start and found[at].kind == "letter" and _is(found[at - 1], "d")
        if differential and not found[at].text.startswith(BOUND):
            names.append(found[at].text)
            if len(names) == count:
                end = _closed(found, at + 1, depth)
                # `\\frac{dx}{x}`: the denominator is a part of the integrand.
                return [(name, [(start, _group(found, end) if depth else end)]) for name in names]
    return []


def _summand(found: list[Token], start: int) -> int:
    """Where the product that begins at `start` ends."""
    depth = 0
    for at in range(start, len(found)):
        text = found[at].text
        depth += (text in OPENING) - (text in CLOSING)
        if depth < 0 or (not depth and (text in ENDS or found[at].kind == "word")):
            return at
    return len(found)


def _after_limits(found: list[Token], place: int) -> int:
    """Where the limits of an operator end."""
    while place < len(found) and found[place].text in ("_", "^"):
        place = _group(found, place + 1) if place + 1 < len(found) and found[place + 1].text == "{" else place + 2
    return place


def _group(found: list[Token], place: int) -> int:
    """Where the group in braces at this place ends; the place itself if none begins there."""
    if place >= len(found) or found[place].text != "{":
        return place
    return _closed(found, place + 1, 1)


def _closed(found: list[Token], place: int, depth: int) -> int:
    """The place after as many closing brackets as are open."""
    while place < len(found) and depth > 0:
        depth += (found[place].text in OPENING) - (found[place].text in CLOSING)
        place += 1
    return place
