"""A rule that says which rollouts are right: `reward >= 1`, or several comparisons joined by `and`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gnomon.errors import ConfigError

__all__ = ["Rule", "rule"]

TERM = re.compile(r"([A-Za-z_][\w./@-]*)\s*(>=|<=|==|!=|>|<)\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")
COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """Comparisons that must all hold."""

    text: str
    terms: tuple[tuple[str, str, float], ...]
    """Name, comparison and limit of each."""

    def __call__(self, values: Mapping[str, float | None], source: str) -> bool | None:
        """Whether a rollout is right; None if a value is unknown. Raises: ConfigError E061 for a name it lacks."""
        absent = next((name for name, _, _ in self.terms if name not in values), None)
        if absent is not None:
            raise ConfigError(
                "E061", f"the rule names {absent!r}, which a rollout does not have", where=source,
                why=f"it has {', '.join(values)}", fix='--correct "reward >= 1"',
            )  # fmt: skip
        terms = [(values[name], sign, limit) for name, sign, limit in self.terms]
        if any(value is None for value, _, _ in terms):
            return None
        return all(COMPARE[sign](value, limit) for value, sign, limit in terms if value is not None)


def rule(text: str) -> Rule | None:
    """The rule that a text states; None for the empty text. Raises: ConfigError E060."""
    if not text.strip():
        return None
    terms = []
    for part in re.split(r"\s+and\s+", text.strip()):
        match = TERM.fullmatch(part.strip())
        if match is None:
            raise ConfigError(
                "E060", f"{part!r} is not a comparison", where="--correct",
                why="a rule is NAME, one of >= <= > < == !=, and a number", fix='--correct "reward >= 1"',
            )  # fmt: skip
        terms.append((match[1], match[2], float(match[3])))
    return Rule(text, tuple(terms))
