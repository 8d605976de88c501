"""Equality of two formulas by computer algebra: math-verify on SymPy. It can take for ever; call it in a `Pool`."""

from __future__ import annotations

import importlib.util

from gnomon.errors import ResourceError
from gnomon.verifiers.slot import Malformed

__all__ = ["equivalent", "needed"]


def needed() -> None:
    """Raises: ResourceError E111, where the package math-verify is missing."""
    if importlib.util.find_spec("math_verify") is None:
        raise ResourceError("E111", "the verifier Math needs the package math-verify", fix='pip install "gnomon[math]"')


def equivalent(answer: str, gold: str, decimals: int = 6) -> bool:
    """Whether two formulas in LaTeX have the same value.

    No limit of time or memory is set here, and none of math-verify's own is used: its alarm works in the main thread
    alone, takes away alarms of others, and makes a reply that took too long look like a wrong one.

    Args: decimals: to which numbers without an exact form are compared.
    Raises: Malformed, when the answer cannot be read. A gold that cannot be read is equal to nothing.
    """
    from math_verify import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        LatexExtractionConfig,
        parse,
        verify,
    )

    def read(text: str) -> list[object]:
        found: list[object] = parse(
            f"${text}$",
            [LatexExtractionConfig(boxed_match_priority=-1)],
            fallback_mode="no_fallback",
            parsing_timeout=None,  # type: ignore[arg-type, unused-ignore]
            raise_on_error=True,
        )
        return found

    try:
        said = read(answer)
    except MemoryError:
        raise
    except Exception as problem:
        raise Malformed(f"no formula that can be read: {type(problem).__name__}") from problem
    if not said:
        raise Malformed("no formula that can be read")
    try:
        right = read(gold)
    except MemoryError:
        raise
    except Exception:
        return False
    return bool(right and verify(right, said, float_rounding=decimals, timeout_seconds=None, raise_on_error=True))
