"""A card as text for a terminal, with a chart of how much prompts weigh."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import textwrap
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from gnomon.theory.curves import GRID, Curve
from gnomon.theory.length import LengthBias

if TYPE_CHECKING:
    from gnomon.theory.cards import Card

__all__ = ["card_text", "chart", "columns", "declarations", "enumeration", "length_words", "number", "words"]

WIDTH = 80
LABELS = {
    "off_policy": "policy has moved",
    "mismatch_one_update": "sampler apart, one update",
    "mismatch_several_updates": "sampler apart, several",
    "noise": "under noise",
}
"""Of declarations whose name says too little."""
LOW, HIGH, STEPS = -3, 4, 6
"""The chart runs from 2^LOW to 2^HIGH, in so many columns for each doubling."""


def card_text(card: Card) -> str:
    """The whole card, lines of at most 80 characters."""
    facts = [
        ("target", card.expected_gradient),
        ("equation", card.equation),
        ("source", card.source),
        ("differs", card.differs),
        ("group", f"{card.group} here, at least {card.min_group}"),
        *declarations(card),
        ("asks for", ", ".join(card.needs)),
    ]
    options = [(f"{name} = {one.default}", f"{one.text}; {one.values_in_words}") for name, one in card.options.items()]
    blocks = [
        textwrap.wrap(f"{card.name}: {card.summary}", WIDTH),
        _table([(label, text) for label, text in facts if text]),
        ["by enumeration", *_table(enumeration(card))] if card.exact else [],
        ["at the edges", *_table(list(card.edges.items()))],
        ["options", *_table(options)] if options else [],
        chart(card.curve),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


@cache
def definition(kind: type[StrEnum]) -> list[ast.stmt]:
    """The statements of an enumeration's source."""
    (node,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    return node.body


def words(member: StrEnum) -> str:
    """What is written under a member of an enumeration, on one line; empty where nothing is."""
    for line, below in itertools.pairwise(definition(type(member))):
        name = isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and line.targets[0].id
        if name == member.name and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            return " ".join(str(below.value.value).split())
    return ""


def declarations(card: Card) -> list[tuple[str, str]]:
    """What the row declares of itself, with what each declaration means where it comes first."""
    rows, described = [], set()
    for name, value in card.declared.items():
        meaning = "" if value in described else words(value)
        label = LABELS.get(name, name.replace("_", " "))
        rows.append((label, f"{value}: {meaning}" if meaning else str(value)))
        described.add(value)
    return rows


def enumeration(card: Card) -> list[tuple[str, str]]:
    """What was found by enumerating groups; empty where they are too large."""
    if card.exact is None or card.length is None:
        return []
    exact = card.exact
    cosine = "nothing moves" if math.isnan(exact.cosine) else f"{exact.cosine:.6f} with the policy gradient ∇p"
    noise = (
        "nothing moves" if math.isinf(exact.noise) else f"{number(exact.noise)}, √variance / norm of the expectation"
    )
    return [
        ("groups", f"{exact.groups}, of answers of up to 3 tokens, at p = {exact.success:.3f}"),
        ("bias", f"{'below 1e-9' if exact.bias < 1e-9 else number(exact.bias)}, largest error relative to the target"),
        ("cosine", cosine),
        ("variance", f"{number(exact.variance)}, trace of the covariance, per group"),
        ("noise", noise),
        ("length", length_words(card.length)),
    ]


def length_words(bias: LengthBias) -> str:
    """What a row does to the length of answers where length earns nothing."""

    def effect(kind: str, value: float) -> str:
        return f"{kind} answers become {'shorter' if value > 0 else 'longer'} ({value:+.3g})"

    moved = {kind: value for kind, value in (("right", bias.right), ("wrong", bias.wrong)) if abs(value) > 1e-9}
    return ", ".join(effect(kind, value) for kind, value in moved.items()) or "no effect where length earns nothing"


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
    if all(map(math.isnan, curve.relative)):
        still = all(map(math.isnan, curve.cosine))
        head.insert(-1, "nothing moves" if still else "more than 60° off ∇p at ½: it maximises something else")
    rows = zip(GRID, curve.w, curve.relative, curve.cosine, strict=True)
    return head + [f"  {p:>4.2f}  {number(w):>9}  {_cosine(cosine):>6}  {_bar(p, own)}" for p, w, own, cosine in rows]


def number(value: float, digits: int = 4) -> str:
    """A number for a reader. Cut to nine digits first, so that noise beyond them cannot decide how it is rounded."""
    return f"{float(f'{value:.9g}'):.{digits}g}"


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
        column = round(round((math.log2(value) - LOW) * STEPS, 6)) if value > 0 else -1
        if column < 0:
            line[0] = "◂"
        elif column >= width:
            line[-1] = "▸"
        else:
            line[column] = sign
    return "".join(line).rstrip()


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    indent = max((len(label) for label, _ in rows), default=0) + 4
    lines = []
    for label, text in rows:
        folded = textwrap.wrap(text, WIDTH - indent) or [""]
        lines.append(f"  {label:<{indent - 2}}{folded[0]}".rstrip())
        lines += [" " * indent + line for line in folded[1:]]
    return lines
