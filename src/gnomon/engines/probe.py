"""Whether a worker holds the weights that it was sent: log-probabilities that must be equal up to rounding."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.errors import NumericsError

__all__ = ["require_equal"]


def require_equal(
    actual: Sequence[float], expected: Sequence[float], bound: float, version: str, *, decoding: bool
) -> None:
    """Args: decoding: whether completions are compared with their scoring, else scoring with the learner.

    Raises: NumericsError E201.
    """
    gaps = [abs(a - b) for a, b in zip(actual, expected, strict=True)]
    worst = next((gap for gap in gaps if gap != gap), max(gaps, default=0.0))
    if worst <= bound:
        return
    raise NumericsError(
        "E201",
        f"the engine decodes with other weights than it holds: log-probabilities of a probe differ by {worst:.2g}"
        if decoding
        else f"the engine's weights differ from the learner's: log-probabilities of a probe differ by {worst:.2g}",
        where=f"{version}, {sum(not gap <= bound for gap in gaps)} of {len(gaps)} tokens, largest allowed {bound:g}",
        why="keys and values of an earlier version are still in the prefix cache"
        if decoding
        else "a layer, or a packed copy of one, still has the weights of an earlier version",
        fix="engine.arguments.enable_prefix_caching=false" if decoding else "engine.type=embedded",
    )
