"""A card as text for a terminal, with a chart of what the objective climbs."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnomon.objectives.curve import GRID, Curve
from gnomon.objectives.length_bias import LengthBias
from gnomon.objectives.row import OffPolicy

if TYPE_CHECKING:
    from gnomon.objectives.card import Card

__all__ = ["LAG", "card_text", "chart", "columns", "length_words"]

LAG = {
    OffPolicy.ON_POLICY: "nothing makes up for a lag; the error is first order in it",
    OffPolicy.TOKEN: "actions are corrected, the prefixes before them are not; first order in the lag beyond one token",
    OffPolicy.SOFT: "as token, up to second order in the lag",
    OffPolicy.GEOMETRIC: "answers count by the geometric mean of their ratios; first order in the lag beyond one token",
    OffPolicy.SEQUENCE: "whole answers are corrected; exact at any lag inside the band",
}
"""What is left of the expected gradient when the sampler is not the policy, in words."""

WIDTH = 100
LOW, HIGH, STEPS = -3, 4, 6
"""The chart runs from 2^LOW to 2^HIGH, in so many columns for each doubling."""


def card_text(card: Card) -> str:
    """The whole card, lines of at most 100 signs."""
    facts = [
        ("climbs", card.climbs),
        ("equation", card.equation),
        ("source", card.source),
        ("differs", card.differs),
        ("group", f"{card.group} here, at least {card.min_group}; a group of one: {card.singleton}"),
        ("rewards", str(card.rewards)),
        ("baseline", str(card.baseline)),
        ("credit sees", str(card.scope)),
        ("asks for", ", ".join(card.needs)),
        ("off policy", f"{card.off_policy}: {LAG[card.off_policy]}"),
        ("mismatch", f"{card.mismatch}: {LAG[card.mismatch]}"),
    ]
    options = [(f"{option.name} = {option.default}", option.text) for option in card.options]
    blocks = [
        textwrap.wrap(f"{card.name}: {card.summary}", WIDTH),
        _table([(label, text) for label, text in facts if text]),
        ["by enumeration", *_enumerated(card)] if card.exact else [],
        ["at the edges", *_table(list(card.edges.items()))],
        ["options", *_table(options)] if options else [],
        chart(card.curve),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _enumerated(card: Card) -> list[str]:
    lines = str(card.exact).splitlines()[2:]  # Without its heading and the target, which stand above.
    return [*lines, f"  length    {length_words(card.length)}"] if card.length else lines


def length_words(bias: LengthBias) -> str:
    """What a row does to the length of answers where length earns nothing."""

    def told(kind: str, value: float) -> str:
        return f"{kind} answers are pulled {'shorter' if value > 0 else 'longer'} ({value:+.3g})"

    pulls = {kind: value for kind, value in (("right", bias.right), ("wrong", bias.wrong)) if abs(value) > 1e-9}
    return ", ".join(told(kind, value) for kind, value in pulls.items()) or "no pull where length earns nothing"


def chart(curve: Curve) -> list[str]:
    """w(p) as text: a row for each success rate, everything relative to its value at ½."""
    width = (HIGH - LOW) * STEPS + 1
    scale = [" "] * (width + 2)
    for power in range(LOW, HIGH + 1):
        mark = str(2**power) if power >= 0 else f"1/{2**-power}"
        start = max(0, (power - LOW) * STEPS - len(mark) // 2)
        scale[start : start + len(mark)] = mark
    head = [
        *textwrap.wrap(f"w(p){'' if curve.unit == '1' else f', in units of {curve.unit}'}: {curve.how}", WIDTH),
        "●  w(p)/w(½)    │  expected reward, w = 1    ×  maximum likelihood, w = 1/p, over its value at ½",
        f"     p  {'w':>9}  cosine  {''.join(scale).rstrip()}",
    ]
    rows = zip(GRID, curve.w, curve.relative, curve.cosine, strict=True)
    return head + [f"  {p:>4.2f}  {w:>9.4g}  {_cosine(cosine):>6}  {_bar(p, own)}" for p, w, own, cosine in rows]


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines whose columns stand under each other, also where signs are drawn over others (r̄)."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(c + " " * (w - _width(c)) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _width(text: str) -> int:
    return sum(not unicodedata.combining(sign) for sign in text)


def _cosine(cosine: float) -> str:
    return "—" if math.isnan(cosine) else f"{cosine:.3f}"


def _bar(p: float, own: float) -> str:
    width = (HIGH - LOW) * STEPS + 1
    line = [" "] * width
    for value, sign in ((1.0, "│"), (0.5 / p, "×"), (own, "●")):
        if math.isnan(value) or value < 0:
            continue
        place = round((math.log2(value) - LOW) * STEPS) if value > 0 else -1
        if place < 0:
            line[0] = "◂"
        elif place >= width:
            line[-1] = "▸"
        else:
            line[place] = sign
    return "".join(line).rstrip()


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    left = max((len(label) for label, _ in rows), default=0) + 4
    lines = []
    for label, text in rows:
        folded = textwrap.wrap(text, WIDTH - left) or [""]
        lines.append(f"  {label:<{left - 2}}{folded[0]}".rstrip())
        lines += [" " * left + line for line in folded[1:]]
    return lines
