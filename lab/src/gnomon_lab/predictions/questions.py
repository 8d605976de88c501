"""What can be predicted of a run, each with the rule by which it is decided."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["Beats", "Interval", "Quantiles", "Question", "Reaches", "impossible"]

Metric = Annotated[str, Field(pattern=r"^([A-Za-z_]\w*/)?(pass@[1-9]\d*|reward|length|truncated)$")]
"""Of an evaluation on held-out tasks: `pass@1`, mean `reward`, mean `length` in tokens, fraction `truncated`.

`SET/` before it means the evaluation set of this name.
"""
Probability = Annotated[float, Field(ge=0, le=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
END = "in the held-out evaluation (the first eval.tasks tasks of the test split) after the last step of the run"


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Interval(Model):
    """A metric at the end of the run lies between two values, ends included."""

    kind: Literal["interval"] = "interval"
    metric: Metric
    low: Finite
    high: Finite
    level: Annotated[float, Field(gt=0, lt=1)] = 0.8
    """Probability that the value lies inside."""

    @model_validator(mode="after")
    def check_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low is {self.low:g}, which is above high, {self.high:g}")
        return self

    @property
    def values(self) -> tuple[float, ...]:
        return self.low, self.high

    @property
    def sentence(self) -> str:
        return f"final {self.metric} from {self.low:g} to {self.high:g} ({self.level:.0%})"

    @property
    def rule(self) -> str:
        return f"{self.metric} {END}; the interval includes its ends; scored by the interval score"


class Quantiles(Model):
    """Quantiles of a metric at the end of the run."""

    kind: Literal["quantiles"] = "quantiles"
    metric: Metric
    at: Annotated[dict[str, Finite], Field(min_length=1)]
    """By quantile level as text, such as "0.5", the value."""

    @property
    def levels(self) -> dict[float, float]:
        return {float(level): value for level, value in self.at.items()}

    @model_validator(mode="after")
    def check_order(self) -> Self:
        try:
            levels = sorted(self.levels.items())
        except ValueError:
            raise ValueError("a quantile level is a number between 0 and 1") from None
        if not all(0 < level < 1 for level, _ in levels):
            raise ValueError("a quantile level lies between 0 and 1")
        values = [value for _, value in levels]
        if values != sorted(values) or len(levels) != len(self.at):
            raise ValueError("quantiles are different levels whose values do not decrease")
        return self

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(self.at.values())

    @property
    def sentence(self) -> str:
        stated = ", ".join(f"{level:.0%}: {value:g}" for level, value in sorted(self.levels.items()))
        return f"quantiles of final {self.metric} ({stated})"

    @property
    def rule(self) -> str:
        return f"{self.metric} {END}; scored by the mean pinball loss"


class Reaches(Model):
    """A metric reaches a value by some step."""

    kind: Literal["reaches"] = "reaches"
    metric: Metric = "pass@1"
    value: Finite
    step: Annotated[int, Field(ge=1)]
    probability: Probability

    @property
    def values(self) -> tuple[float, ...]:
        return (self.value,)

    @property
    def sentence(self) -> str:
        return f"{self.metric} reaches {self.value:g} by step {self.step} ({self.probability:.0%})"

    @property
    def rule(self) -> str:
        return (
            f"yes if {self.metric} is at least {self.value:g} in a held-out evaluation after 1 to {self.step} finished "
            f"steps; void if the run has fewer steps or no such evaluation; scored by Brier and log score"
        )


class Beats(Model):
    """The run ends with a higher pass@1 than another run."""

    kind: Literal["beats"] = "beats"
    other: str
    """The folder of the other run, relative to the folder of this one."""
    uuid: str = ""
    """Of the other run, where it had begun when this was registered."""
    probability: Probability

    @property
    def sentence(self) -> str:
        return f"final pass@1 is above that of {self.other} ({self.probability:.0%})"

    @property
    def rule(self) -> str:
        return (
            f"pass@1 {END} is greater than in that of {self.other}; void if both are equal, or if the runs differ in "
            "environment, held-out tasks or samples; scored by Brier and log score"
        )


Question = Annotated[Interval | Quantiles | Reaches | Beats, Field(discriminator="kind")]


def impossible(question: Question) -> str:
    """Why a question states a value that its metric cannot have, such as a rate in percent; empty if it states none."""
    if isinstance(question, Beats) or question.metric == "reward":
        return ""
    most = math.inf if question.metric == "length" else 1.0
    wrong = [value for value in question.values if not 0 <= value <= most]
    allowed = "0 or more" if question.metric == "length" else "between 0 and 1"
    return f"{question.metric} is {allowed}, not {wrong[0]:g}" if wrong else ""
