"""What is declared of a row before it is built: its options with their limits, what it needs, which rewards it takes.

Nothing here needs torch: a configuration, a command line or a page reads a declaration without the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import NamedTuple

from gnomon.objectives.spelling import nearest

__all__ = ["Data", "Declaration", "Mistake", "Need", "Option", "OptionError", "Rewards", "Value"]

Value = float | str
"""Of an option: a number or a word."""


class Need(StrEnum):
    """What a row asks of a learner beyond the policy's log-probabilities at the moment of the gradient."""

    LOGP = "logp"
    """Credit looks at the policy's log-probabilities as the step begins."""
    ENTROPY = "entropy"
    """Entropies of the policy's next-token distributions, as the step begins."""
    COLLISION = "collision"
    """Σ_v π(v)² of the policy's next-token distributions, as the step begins."""
    REFERENCE = "reference"
    """Log-probabilities under a reference policy that stands still."""
    TEACHER = "teacher"
    """A reference policy other than the one that the run begins with."""
    SOLUTION = "solution"
    """The reference answer of every task, which the reference policy reads before the prompt."""
    VALUES = "values"
    """A critic."""
    BEYOND = "beyond"
    """What a critic expects after the last token of a rollout that a limit ended."""
    BASELINE = "baseline"
    """What the run's past expects of each rollout."""
    VISITS = "visits"
    """Rewards of the earlier visits of each task in the run: their mean and variance."""
    GREEDY = "greedy"
    """One more rollout of every task, of temperature 0, which is not trained on."""
    DEMONSTRATIONS = "demonstrations"
    """Rollouts that were given rather than sampled, in the groups of those that were."""
    BUDGETS = "budgets"
    """The reward of the answer at every token budget, from an environment with `token_budgets` or from a script that
    passes `segment_rewards`."""


class Data(StrEnum):
    """Where the tokens of a step come from."""

    SAMPLED = "sampled"
    DEMONSTRATED = "demonstrated"
    """Replies that somebody else wrote."""
    MIXED = "mixed"
    """Sampled, with one demonstrated reply in every group."""
    SPLICED = "spliced"
    """Sampled up to the answer; the reference answer is put behind it, as the segment after."""
    CONDITIONED = "conditioned"
    """Sampled after a wish for praise, trained after the feedback that came."""


class Rewards(StrEnum):
    """Which rewards a row accepts."""

    REAL = "real"
    BINARY = "binary"
    """Zero and one: it counts successes. Others are refused: ValueError."""
    NONE = "none"
    """Any, and they change nothing: it learns from the answers themselves."""


class Mistake(NamedTuple):
    """One option that a row does not take."""

    row: str
    option: str
    value: object
    requirement: str
    """What the value must be; empty where the row has no such option."""
    fix: str
    near: str = ""
    """The option of the row that was meant, where the row has no such option."""

    def __str__(self) -> str:
        if self.requirement:
            return f"{self.option} is {self.value!r}; it must be {self.requirement} ({self.fix})"
        return f"{self.row} has no option {self.option} ({self.fix})"


class OptionError(ValueError):
    """Options that a row does not take, all of them named."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a row. Its type is that of its default: a number, an integer, or one of `choices`."""

    default: Value
    text: str
    """What it does, after its name."""
    _: KW_ONLY
    least: float | None = None
    above: float | None = None
    below: float | None = None
    most: float | None = None
    """∞ allows an infinite number, which is refused otherwise."""
    choices: tuple[str, ...] = ()
    asks: frozenset[Need] = frozenset()
    """What a learner must provide where the value is not the default."""
    if_set: bool = False
    """The first record of a run has it only where it is not the default: the row is older than the option."""

    @property
    def values_in_words(self) -> str:
        """The values that it takes, in words: `number ≥ 0`."""
        if self.choices:
            return " · ".join(self.choices)
        limits = [("≥", self.least), (">", self.above), ("<", self.below)]
        limits += [("≤", self.most)] if self.most != math.inf else []
        bounds = " and ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)
        return f"{'integer' if isinstance(self.default, int) else 'number'} {bounds}".strip()

    @property
    def requirement(self) -> str:
        """The same within a sentence: `a number ≥ 0`."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return f"{'an' if isinstance(self.default, int) else 'a'} {self.values_in_words}"

    def takes(self, value: object) -> bool:
        """Whether a value has the option's type and lies within its limits."""
        if self.choices:
            return value in self.choices
        if isinstance(value, bool) or not isinstance(value, int if isinstance(self.default, int) else int | float):
            return False
        return (
            (math.isfinite(value) or value == self.most)
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (self.most is None or value <= self.most)
        )


@dataclass(frozen=True, slots=True)
class Declaration:
    """A row as the table of options has it."""

    name: str
    summary: str
    """One sentence."""
    source: str
    options: Mapping[str, Option] = field(default_factory=dict)
    _: KW_ONLY
    min_group: int | Callable[[Mapping[str, Value]], int] = 2
    """The smallest group that can move the policy, by the options where it depends on them."""
    max_group: int | None = None
    data: Data = Data.SAMPLED
    rewards: Rewards = Rewards.REAL
    any_sampler: bool = False
    """Whether its target is an expectation over the rollouts of whoever sampled them, which need not be the policy."""
    needs: frozenset[Need] = frozenset()
    """With any options; an option may ask for more."""
    brings: Mapping[str, float] = field(default_factory=dict)
    """Settings of a run that come with the row, by their dotted key, where none are given."""

    @property
    def demonstrated(self) -> bool:
        """Whether it learns from replies that somebody else wrote."""
        return self.data in (Data.DEMONSTRATED, Data.MIXED)

    def needs_with(self, options: Mapping[str, Value]) -> frozenset[Need]:
        """Everything that a learner must provide for a row with these options, all of them given."""
        return self.needs.union(
            *(option.asks for name, option in self.options.items() if options[name] != option.default)
        )

    def unrecorded_options(self, options: Mapping[str, Value]) -> list[str]:
        """The options that the first record of a run does not have, all of them given."""
        return [name for name, option in self.options.items() if option.if_set and options[name] == option.default]

    def least_group(self, options: Mapping[str, Value]) -> int:
        """The smallest group that can move the policy of a row with these options, all of them given."""
        return self.min_group(options) if callable(self.min_group) else self.min_group

    def mistakes(self, options: Mapping[str, object], prefix: str = "") -> list[Mistake]:
        """What is wrong with options. Args: prefix: stands before the name of every option in a fix."""
        mistakes = []
        for name, value in options.items():
            option = self.options.get(name)
            if option is None:
                near = nearest(name, self.options)
                mistakes.append(Mistake(self.name, name, value, "", self._suggestion(near, prefix), near))
            elif not option.takes(value):
                fix = f"{prefix}{name}={option.default}, the default"
                mistakes.append(Mistake(self.name, name, value, option.requirement, fix))
        return mistakes

    def complete(self, options: Mapping[str, Value]) -> dict[str, Value]:
        """Options with the defaults of those that are missing, in the order of the table.

        Raises: OptionError, with every mistake and its fix, for an option that does not exist or is out of range.
        """
        if mistakes := self.mistakes(options):
            raise OptionError("; ".join(map(str, mistakes)))
        kinds = {name: type(option.default) for name, option in self.options.items()}
        return {name: kinds[name](options.get(name, option.default)) for name, option in self.options.items()}

    def _suggestion(self, near: str, prefix: str) -> str:
        if near:
            return f"did you mean {prefix}{near} (default {self.options[near].default})?"
        names = ", ".join(prefix + each for each in self.options)
        return f"its options are {names}" if names else "leave it out; it has no options"
