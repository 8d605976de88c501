"""Two cards side by side: what differs, and how much each weighs a prompt by its success rate."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence

from gnomon.theory.card_text import LABELS, columns, length_words, number
from gnomon.theory.cards import Card
from gnomon.theory.curves import GRID

__all__ = ["comparison"]

WIDTH = 44
"""Of a column, in characters."""
SAME = "the same"


def comparison(left: Card, right: Card) -> str:
    """Facts of both cards in two columns, then w(p)/w(½) at every success rate.

    Args: left, right: cards of groups of one size.
    """
    names = ["", left.name, right.name]
    facts = list(zip(_facts(left), _facts(right), strict=True))
    rows = [[label, text, SAME if text == other else other] for (label, text), (_, other) in facts]
    weights = [
        [f"{p:.2f}", _weight(mine), _weight(theirs)]
        for p, mine, theirs in zip(GRID, left.curve.relative, right.curve.relative, strict=True)
    ]
    head = f"groups of {left.group}; w(p)/w(½) is what a prompt weighs by its success rate, relative to one half"
    table = list(itertools.chain.from_iterable(_fold(row) for row in [names, *rows]))
    return "\n".join([*columns(table), "", head, *columns([["p", left.name, right.name], *weights])])


def _facts(card: Card) -> list[tuple[str, str]]:
    exact = card.exact
    cosine = "" if exact is None or math.isnan(exact.cosine) else number(exact.cosine)
    noise = "" if exact is None or math.isinf(exact.noise) else number(exact.noise)
    return [
        ("target", card.expected_gradient),
        ("equation", card.equation),
        ("source", card.source),
        ("least group", str(card.min_group)),
        *((LABELS.get(name, name.replace("_", " ")), str(value)) for name, value in card.declared.items()),
        ("asks for", ", ".join(card.needs) or "nothing more"),
        ("cosine with ∇p", cosine or "nothing moves"),
        ("noise", noise or "nothing moves"),
        ("length", "not enumerated" if card.length is None else length_words(card.length)),
        *card.edges.items(),
    ]


def _fold(cells: Sequence[str]) -> list[list[str]]:
    """A row of cells as lines, the first cell on the first of them alone."""
    label, *texts = cells
    parts = [textwrap.wrap(text, WIDTH) or [""] for text in texts]
    lines = itertools.zip_longest(*parts, fillvalue="")
    return [[label if index == 0 else "", *line] for index, line in enumerate(lines)]


def _weight(value: float) -> str:
    return "—" if math.isnan(value) else number(value, 3)
