"""How far an objective moves the policy by the number of successes of a group, over the groups of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gnomon.objectives import Objective, objective, regime_of
from gnomon.store import RunReader
from gnomon.theory import Posterior
from gnomon.theory.edge_cases import on_policy

__all__ = ["row_of_run", "scale_of", "scale_of_run", "scale_text"]


def row_of_run(reader: RunReader) -> Objective:
    """The objective that a run was trained with."""
    options = dict(reader.genesis.get("config", {}).get("objective", {}))
    return objective(options.pop("type", "rl2ml"), **{name: _number(value) for name, value in options.items()})


def _number(value: Any) -> Any:
    """An infinite number, which records have as text."""
    return float(value) if value in ("inf", "-inf") else value


def scale_of(row: Objective, group: int) -> list[float] | None:
    """s(K), K = 0 … N: the step is s(K) times the mean score of the successes, less that of the failures if they count.

    Of rollouts of one length, on policy.
    Equation: s(K) = K·a(K)/N, a(K) the advantage of a success, where failures have none or the opposite of it all.
    Returns: relative to the largest in size. None where the row refuses such groups, or failures have another amount,
        which moves the policy by itself.
    """
    found = []
    for right in range(group + 1):
        try:
            kappa = on_policy(row, [1.0] * right + [0.0] * (group - right), [1] * group).tolist()
        except ValueError:
            return None
        won, lost = sum(kappa[:right]), sum(kappa[right:])
        if abs(lost) > 1e-9 and abs(won + lost) > 1e-9:
            return None
        found.append(won)
    return relative(found)


def relative(scale: Sequence[float]) -> list[float]:
    """A scale over the largest of it in size."""
    most = max(map(abs, scale))
    return [value / most if most else 0.0 for value in scale]


def scale_of_run(reader: RunReader, counts: Counter[Posterior], group: int) -> dict[str, Any] | None:
    """The update scale of a run's own objective, by the number of successes, with how many groups had it.

    Args: counts: groups by successes and failures; group: only groups of so many judged rollouts are shown.
    Returns: `objective`, `regime`, `rows` of successes, groups, scale, and share of the movement: s(K) times the
        groups, of all. None for an objective without such a scale.
    """
    row = row_of_run(reader)
    scale = scale_of(row, group)
    if scale is None:
        return None
    groups = [counts[Posterior(right, group - right)] for right in range(group + 1)]
    moved = [abs(s) * n for s, n in zip(scale, groups, strict=True)]
    total = sum(moved)
    return {
        "objective": row.name,
        "group": group,
        "regime": regime_of(scale[1:]).value,
        "rows": [
            {"successes": right, "groups": n, "scale": s, "share": m / total if total else 0.0}
            for right, (n, s, m) in enumerate(zip(groups, scale, moved, strict=True))
        ],
    }


def scale_text(facts: Mapping[str, Any], best: Sequence[float] | None) -> list[str]:
    """The scale for a reader. Args: best: s(K) of the best scale for the metric, to be shown beside it."""
    shown = None if best is None else relative(best)
    lines = [
        f"update scale of {facts['objective']}, which trained this run, in its groups of {facts['group']}: "
        f"{facts['regime']}",
        "correct   groups   scale     share" + ("     best scale" if shown is not None else ""),
    ]
    for row in facts["rows"]:
        line = f"{row['successes']:<9} {row['groups']:<8} {row['scale']:<9.4g} {row['share']:<6.0%}"
        lines.append((line + (f"    {shown[row['successes']]:.4g}" if shown is not None else "")).rstrip())
    lines.append("scale: how far a group moves the policy, relative to the farthest; share: of all movement.")
    return lines
