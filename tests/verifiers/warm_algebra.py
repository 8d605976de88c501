"""Imported where workers are forked: computer algebra takes its first, slow steps here, and every worker has them done.

The first formula of a kind costs up to half a second, the second a millisecond. Without this the time that a reply
takes would depend on which worker it meets.
"""

from __future__ import annotations

from gnomon.verifiers.slot import Malformed
from verifiers.odd_verifiers import equivalent

__all__ = ["warm"]

PAIRS = (
    (r"\frac{16}{\sqrt{49}}", r"\frac{15}{7}"),
    (r"\sqrt{2} + x", "x + 2^{1/2}"),
    (r"\sin(x)", r"\cos(\frac{\pi}{2} - x)"),
    (r"\frac{x^2 - 1}{x - 1}", "x + 1"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&5\end{pmatrix}"),
    (r"\log(x)", r"\ln x"),
    ("x > 3", "x < 3"),
    (r"\sqrt{2}", "1.5"),
    (r"e^{i\pi}", "-1"),
    (r"[1, 2) \cup (3, 4]", "[1, 2]"),
    (r"2\pi", "6.28"),
    (r"\sqrt[3]{x}", "x^{1/3}"),
)


def warm() -> None:
    """Compare a few formulas of every kind. Nothing is done with what comes out."""
    for answer, gold in PAIRS:
        try:
            equivalent(answer, gold)
        except Malformed:
            continue


warm()
