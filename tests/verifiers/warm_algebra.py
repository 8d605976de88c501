"""Imported where workers are forked: math-verify takes its first, slow steps here, and every worker has them done.

The first formula costs up to half a second, the second a millisecond. Without this the time that a reply
takes would depend on which worker it meets.
"""

from __future__ import annotations

from verifiers.odd_verifiers import equivalent

equivalent(r"\frac{16}{\sqrt{49}}", r"\frac{15}{7}")
