"""A sandbox session that first checks whether the host can confine it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnomon.sandbox.job import Limits
from gnomon.sandbox.probe import capabilities
from gnomon.sandbox.session import RawSession

__all__ = ["Session"]


class Session(RawSession):
    """A `RawSession` on a host that can confine it. Args: unsafe: skip the check of the host.

    Raises: ResourceError, E520 to E522, if the host cannot confine.
    """

    def __init__(
        self, argv: Sequence[str], limits: Limits | None = None, *, unsafe: bool = False, **options: Any
    ) -> None:
        if not unsafe:
            capabilities(("session",))
        super().__init__(argv, limits, **options)
