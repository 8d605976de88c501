"""A session that starts only on a host that can confine it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnomon.sandbox.job import Limits
from gnomon.sandbox.probe import capabilities
from gnomon.sandbox.session import RawSession

__all__ = ["Session"]


class Session(RawSession):
    """Args: unsafe: do not ask first whether the host can confine; the others as of `RawSession`.

    Raises: ResourceError, E520 to E522, where the host cannot confine.
    """

    def __init__(
        self, argv: Sequence[str], limits: Limits | None = None, *, unsafe: bool = False, **options: Any
    ) -> None:
        if not unsafe:
            capabilities(("session",))
        super().__init__(argv, limits, **options)
