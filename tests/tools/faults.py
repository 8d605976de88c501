"""Tools that misbehave, where a worker process can import them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gnomon.tools import Stateless, text_argument


@dataclass(frozen=True, kw_only=True)
class Stuck(Stateless):
    """Never returns where it is told so, and keeps no deadline of its own."""

    name: str = "stuck"
    description: str = "Waits."
    parameters: Mapping[str, Any] = field(default_factory=lambda: text_argument("how"))

    def call(self, arguments: Mapping[str, Any]) -> str:
        while arguments["how"] == "spin":
            pass
        if arguments["how"] == "sleep":
            time.sleep(600)
        return "fine"
