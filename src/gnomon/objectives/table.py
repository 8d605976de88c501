"""The table of objectives: a named algorithm is a function of its options that returns one row."""

from __future__ import annotations

from collections.abc import Callable

from gnomon.objectives import (
    context_rows,
    count_rows,
    entropy_rows,
    group_rows,
    likelihood_rows,
    outcome_rows,
    position_rows,
    preference_rows,
    ratio_rows,
    state_rows,
    step_rows,
    token_rows,
    trust_region_rows,
    turn_rows,
)
from gnomon.objectives.declaration import Declaration, Value
from gnomon.objectives.options import OPTIONS, declaration_of
from gnomon.objectives.row import Objective, row_of

__all__ = ["TABLE", "add", "objective"]

ROWS = (
    context_rows, count_rows, entropy_rows, group_rows, likelihood_rows,
    outcome_rows, position_rows, preference_rows, ratio_rows, state_rows, step_rows, token_rows, trust_region_rows,
    turn_rows,
)  # fmt: skip

TABLE: dict[str, Callable[..., Objective]] = {
    name: getattr(module, name) for module in ROWS for name in module.__all__ if name in OPTIONS
}
"""Every row by its name."""


def objective(name: str, **options: Value) -> Objective:
    """The row of that name, with its options set.

    Raises: ValueError for an unknown name or option, with the nearest one that exists, and for an option out of range.
    """
    declaration_of(name)
    return TABLE[name](**options)


def add(declaration: Declaration, build: Callable[..., Objective]) -> Callable[..., Objective]:
    """Put a row of one's own into the table, for this process: `objective`, cards and recipes know it.

    Args: build: a function of all declared options.
    Returns: the row, as a function of any of its options.
    Raises: TypeError where the parameters of the function are not the declared options.
    """
    row = row_of(declaration, build)
    OPTIONS[declaration.name], TABLE[declaration.name] = declaration, row
    return row
