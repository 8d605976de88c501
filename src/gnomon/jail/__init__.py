"""Run untrusted code without Docker, and refuse to where it could get out."""

from __future__ import annotations

from gnomon.jail.jail import Jail
from gnomon.jail.job import (
    Broken,
    Err,
    Exceeded,
    Finished,
    Job,
    Limits,
    Ok,
    Outcome,
    Program,
    Raised,
    Resource,
    Runner,
    Value,
    Work,
)
from gnomon.jail.probe import Capabilities, Probe, as_text, capabilities
from gnomon.jail.session import Session

__all__ = [
    "Broken",
    "Capabilities",
    "Err",
    "Exceeded",
    "Finished",
    "Jail",
    "Job",
    "Limits",
    "Ok",
    "Outcome",
    "Probe",
    "Program",
    "Raised",
    "Resource",
    "Runner",
    "Session",
    "Value",
    "Work",
    "as_text",
    "capabilities",
]
