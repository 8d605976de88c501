"""Faults of programs that play episodes: limits, refused and repeated calls, replies that nobody received."""

from __future__ import annotations

from collections.abc import Iterator

from gnomon.doctor.evidence import Evidence
from gnomon.doctor.finding import Finding
from gnomon.doctor.rates import excess_of, percent
from gnomon.monitoring.programs import FAULTS

__all__ = ["find"]


def find(evidence: Evidence) -> Iterator[Finding]:
    """Findings about programs, in the order of `FAULTS`."""
    for name, fault in FAULTS.items():
        evident = excess_of(evidence, lambda rollout, name=name: name in rollout.faults, fault.share)  # type: ignore[misc]
        if evident is not None:
            yield Finding(
                name=name,
                sentence=f"{percent(evident.rate)} of the programs {fault.sentence}, {evident.when}",
                fix=fault.advice,
                since=evident.since,
                read=evident.addresses,
            )
