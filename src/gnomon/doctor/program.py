"""Faults of programs that play episodes: limits, refused and repeated calls, replies that nobody received."""

from __future__ import annotations

from collections.abc import Iterator

from gnomon.doctor.evidence import Evidence
from gnomon.doctor.finding import Finding
from gnomon.doctor.rates import percent, sign
from gnomon.monitoring.programs import FAULTS

__all__ = ["find"]


def find(evidence: Evidence) -> Iterator[Finding]:
    """Findings about programs, in the order of `FAULTS`."""
    for name, fault in FAULTS.items():
        found = sign(evidence, lambda seen, name=name: name in seen.faults, fault.share)  # type: ignore[misc]
        if found is not None:
            yield Finding(
                name=name,
                sentence=f"{percent(found.rate)} of the programs {fault.sentence}, {found.when}",
                fix=fault.advice,
                since=found.since,
                read=found.read,
            )
