"""Jails that are not on this host: containers, and machines of others, behind the same protocol."""

from __future__ import annotations

from gnomon.jail.remote.base import Elsewhere, Reply
from gnomon.jail.remote.daytona import DaytonaRunner
from gnomon.jail.remote.docker import DockerRunner
from gnomon.jail.remote.e2b import E2BRunner
from gnomon.jail.remote.modal import ModalRunner

__all__ = ["DaytonaRunner", "DockerRunner", "E2BRunner", "Elsewhere", "ModalRunner", "Reply"]
