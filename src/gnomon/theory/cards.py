"""A card of an objective: what it maximises, how it treats edge cases and what it needs."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from gnomon.objectives.declaration import Option, Value
from gnomon.objectives.options import declaration_of
from gnomon.objectives.row import Objective
from gnomon.objectives.table import TABLE, objective
from gnomon.theory.card_text import card_text
from gnomon.theory.curves import GRID, Curve, curve
from gnomon.theory.edge_cases import edges
from gnomon.theory.exact import LARGEST, ExactReport, report
from gnomon.theory.length import LengthBias, length_bias

__all__ = ["Card", "card"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What there is to know of a row, declared, derived, enumerated and tried out."""

    name: str
    summary: str
    expected_gradient: str
    """The declared expected gradient of one group, on policy."""
    equation: str
    source: str
    differs: str
    """Deliberate departures from the source; empty where there are none."""
    group: int
    """Rollouts per group, wherever a number below depends on it."""
    curve: Curve
    """How strongly prompts are pushed, by their success rate."""
    exact: ExactReport | None
    """What enumeration says in the world of 15 answers. None for groups too large to be enumerated."""
    length: LengthBias | None
    """What it does to the length of answers where length earns nothing. None for groups too large to be enumerated."""
    min_group: int
    declared: dict[str, StrEnum]
    """What the row declares of itself: its behaviour off policy, with a sampler apart, for a group of one, and more."""
    needs: tuple[str, ...]
    """What a learner must provide beyond log-probabilities at the moment of the gradient."""
    edges: dict[str, str]
    """What happens to groups at an edge, in words."""
    options: Mapping[str, Option]

    def __str__(self) -> str:
        return card_text(self)

    def as_dict(self) -> dict[str, Any]:
        """The card in plain values for JSON; numbers that are not finite become null."""
        options = [
            {"name": name, "default": option.default, "text": option.text, "allowed": option.values_in_words}
            for name, option in self.options.items()
        ]
        plain: dict[str, Any] = _plain(asdict(replace(self, options={})) | {"options": options})
        plain["curve"] = {"p": list(GRID), **plain["curve"]}
        return plain


def card(name: str, group: int = 4, **options: Value) -> Card:
    """The card of a row of the table.

    Args:
        group: rollouts per group, ≥ 1; above 6 nothing is enumerated, and w(p) has to be derivable.
        options: of the row; those that are missing have their defaults.
    Raises: ValueError for an unknown name or option, a group that the row refuses, or one too large.
    """
    if group < 1:
        raise ValueError(f"a group has at least one rollout, not {group}")
    row, declaration = objective(name, **options), declaration_of(name)
    changed = [f"{key}={value}" for key, value in options.items() if value != declaration.options[key].default]
    text = sections(inspect.getdoc(TABLE[name]) or "")
    return Card(
        name=" ".join([row.name, *changed]),
        summary=declaration.summary,
        expected_gradient=row.expected_gradient,
        equation=row.equation,
        source=row.source,
        differs=text.get("Differs", ""),
        group=group,
        curve=curve(row, group=group),
        exact=report(row, group=group) if group <= LARGEST else None,
        length=length_bias(row, group=group) if group <= LARGEST else None,
        min_group=row.min_group,
        declared=declarations(row),
        needs=tuple(sorted(need.value for need in row.asks)),
        edges=edges(row, group=group),
        options=declaration.options,
    )


def declarations(row: Objective) -> dict[str, StrEnum]:
    """What a row declares, by what is declared; with a sampler apart for one update to a batch and for several."""
    values: dict[str, StrEnum] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if field.name == "mismatch":
            values |= {"mismatch_one_update": row.mismatch_of_one_update, "mismatch_several_updates": value}
        elif isinstance(value, StrEnum):
            values[field.name] = value
    return values


SECTION = re.compile(r"^(Equation|Args|Returns|Raises|Source|Differs)\b[^:\n]*:\s*", re.M)


def sections(docstring: str) -> dict[str, str]:
    """The sections of a docstring by their title, on one line each; its first line under the empty title."""
    pieces = SECTION.split(docstring)
    first = pieces[0].partition("\n")[0].strip()
    return {
        "": first,
        **{title: " ".join(text.split()) for title, text in zip(pieces[1::2], pieces[2::2], strict=True)},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
