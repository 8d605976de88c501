"""Run untrusted code without Docker, and refuse to where it could get out."""

from __future__ import annotations

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

__all__ = [
    "Broken",
    "Err",
    "Exceeded",
    "Finished",
    "Job",
    "Limits",
    "Ok",
    "Outcome",
    "Program",
    "Raised",
    "Resource",
    "Runner",
    "Value",
    "Work",
]
