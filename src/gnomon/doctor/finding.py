"""A fault that was found, and the order in which faults are named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["STAGES", "Finding", "in_order"]

STAGES = ("data", "program", "rollout", "judge", "advantage", "update", "run")
"""The parts of a step, in the order in which they work. A name of a finding begins with one."""
LATE = ("advantage", "update", "judge", "data", "program", "rollout", "run")
"""The order of what appears only after updates, which an update may have caused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault."""

    name: str
    """`stage.what`."""
    sentence: str
    """What was measured, with numbers."""
    fix: str
    """What to do; a command where there is one."""
    since: int = 0
    """The first step that shows it. 0: before any update."""
    read: tuple[str, ...] = ()
    """Rollouts to read, as `gnomon show RUN` takes them."""

    @property
    def stage(self) -> str:
        return self.name.partition(".")[0]

    def body(self) -> dict[str, Any]:
        return {**asdict(self), "read": list(self.read)}


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The earliest cause first.

    What is wrong before any update comes in the order of the stages. What appears later follows: an update or an
    advantage may have caused it, then a reward, then all else.
    """
    return sorted(
        findings, key=lambda finding: (bool(finding.since), (LATE if finding.since else STAGES).index(finding.stage))
    )
