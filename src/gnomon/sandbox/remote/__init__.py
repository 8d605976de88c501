"""Runners outside this host's sandbox, with the same protocol: containers and cloud providers."""

from __future__ import annotations

from gnomon.sandbox.remote.base import Elsewhere, Reply
from gnomon.sandbox.remote.docker import DockerRunner
from gnomon.sandbox.remote.hosted import DaytonaRunner, E2BRunner, ModalRunner

__all__ = ["DaytonaRunner", "DockerRunner", "E2BRunner", "Elsewhere", "ModalRunner", "Reply"]
