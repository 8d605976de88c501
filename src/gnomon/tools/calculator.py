"""A calculator: the exact value of an expression, by the evaluator that verifiers use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gnomon.tools.base import Stateless, text_argument
from gnomon.verifiers import calculate

__all__ = ["CalculatorTool"]


@dataclass(frozen=True, kw_only=True)
class CalculatorTool(Stateless):
    """Evaluates an expression."""

    name: str = "calculator"
    description: str = "The exact value of an expression of whole numbers, + - * / and parentheses."
    parameters: Mapping[str, Any] = field(default_factory=lambda: text_argument("expression", "such as (3+4)*2"))

    def call(self, arguments: Mapping[str, Any]) -> str:
        return calculate(arguments["expression"])
