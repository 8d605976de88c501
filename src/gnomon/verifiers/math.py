r"""Mathematical equality in stages: the same text, the same number or polynomial, and only then computer algebra."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from gnomon.verifiers.boxes import boxed
from gnomon.verifiers.extract import Extraction
from gnomon.verifiers.latex import assigned, elements, plain, refuse, tidy, worded
from gnomon.verifiers.number import Percent, Quantity, Units, quantity
from gnomon.verifiers.polynomial import polynomial
from gnomon.verifiers.slot import Answered, Malformed
from gnomon.verifiers.symbolic import equivalent, needed

__all__ = ["Math"]


@dataclass(frozen=True, kw_only=True)
class Math(Answered):
    r"""The answer is a number, a formula, or a list of them, in one `\boxed{…}` or `<answer>…</answer>`.

    What exact arithmetic can decide, it decides. The rest goes to math-verify, in place and without a limit: judge in
    a `Pool`, as `judge` and training do, and a formula without end is `EXCEEDED` there.

    A list says its kind: `(1, 2)` in order, `\{1, 2\}` and the bare `1, 2` in any order, and no kind equals another.
    Raises: ResourceError E111, where the package math-verify is missing.
    """

    units: Units = Units.OPTIONAL
    percent: Percent = Percent.SHARE
    decimals: int = 6
    """To which numbers without an exact form are compared; rational numbers are compared exactly."""

    imports: ClassVar[tuple[str, ...]] = ("gnomon.verifiers.warm_algebra",)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "units", Units(self.units))
        object.__setattr__(self, "percent", Percent(self.percent))
        needed()

    def extract(self, reply: str) -> Extraction:
        return boxed(reply, self.strictness)

    def accepts(self, answer: str, gold: Any) -> bool:
        right = self._gold(gold)
        said = tidy(answer)
        if said == right:
            return True
        refuse(said, right)
        (name, said), (other, right) = assigned(said), assigned(right)
        return (not name or not other or name == other) and self.same(said, right)

    def same(self, said: str, right: str) -> bool:
        """Whether two tidy texts have the same value. Raises: Malformed, when the first has none."""
        mine, theirs = elements(said), elements(right)
        if mine is None and theirs is None:
            return self.equal(said, right)
        if mine is None or theirs is None or mine[0] != theirs[0] or len(mine[1]) != len(theirs[1]):
            return False
        if mine[0] in ("", "{}"):
            return self.matched(mine[1], theirs[1])
        return all(self.same(one, other) for one, other in zip(mine[1], theirs[1], strict=True))

    def matched(self, said: list[str], right: list[str]) -> bool:
        """Whether two lists have the same elements, in any order, each as often."""
        left = list(right)
        for one in said:
            place = next((place for place, other in enumerate(left) if self.same(one, other)), None)
            if place is None:
                return False
            del left[place]
        return True

    def equal(self, said: str, right: str) -> bool:
        """Whether two single values are equal: as quantities, as polynomials, else by computer algebra."""
        if said == right:
            return True
        mine, theirs = self.quantity(said), self.quantity(right)
        if mine is not None and theirs is not None:
            return self.agree(mine, theirs)
        (said, words), (right, others) = worded(said), worded(right)
        if words.lower() != others.lower() and ((words and others) or not said or not right):
            return False
        if bool(words) != bool(others) and self.units is not Units.OPTIONAL:
            return False
        if not said or not right:
            return not said and not right
        with suppress(Malformed):
            one, other = polynomial(plain(said)), polynomial(plain(right))
            # Letters side by side can be a function's name, and `e` and `i` are numbers: unequal proves nothing there.
            if one.terms == other.terms or not re.search("[a-zA-Z]{2}|[ei]", said + " " + right):
                return one.terms == other.terms
        return equivalent(said, right, self.decimals)

    def quantity(self, text: str) -> Quantity | None:
        """The number with its unit that a text is, if it is one."""
        with suppress(Malformed):
            return quantity(text, percent=self.percent, thousands=",")
        with suppress(Malformed):
            value, words = worded(text)
            constant = polynomial(plain(value)).constant if value else None
            if constant is not None:
                return Quantity(value=constant, unit=quantity(f"1 {words}").unit if words else None)
        return None

    def agree(self, said: Quantity, right: Quantity) -> bool:
        if said.unit is not None and right.unit is not None:
            ratio: Fraction = said.unit.factor / right.unit.factor
            return said.unit.dimension == right.unit.dimension and said.value * ratio == right.value
        if (said.unit is None) != (right.unit is None) and self.units is not Units.OPTIONAL:
            if said.unit is None:
                raise Malformed("the unit is missing")
            return False
        return said.value == right.value

    def _gold(self, gold: Any) -> str:
        """The task's own answer, tidy. Raises: ValueError when it is none; this is never the policy's doing."""
        if isinstance(gold, bool) or not isinstance(gold, str | int | float | Fraction):
            raise ValueError(f"the task's own answer {gold!r:.100} is no mathematical text")
        try:
            right = tidy(str(gold))
        except Malformed as problem:
            raise ValueError(f"the task's own answer {gold!r:.100} is no mathematical text: {problem}") from problem
        if not right:
            raise ValueError("the task's own answer is empty")
        return right
