"""Run untrusted code without Docker. A host that cannot confine it is refused."""

from __future__ import annotations

from gnomon.sandbox.command import Ran, Session, run_command
from gnomon.sandbox.job import (
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
from gnomon.sandbox.probe import Capabilities, Probe, as_text, capabilities
from gnomon.sandbox.sandbox import Sandbox

__all__ = [
    "Broken",
    "Capabilities",
    "Err",
    "Exceeded",
    "Finished",
    "Job",
    "Limits",
    "Ok",
    "Outcome",
    "Probe",
    "Program",
    "Raised",
    "Ran",
    "Resource",
    "Runner",
    "Sandbox",
    "Session",
    "Value",
    "Work",
    "as_text",
    "capabilities",
    "run_command",
]
