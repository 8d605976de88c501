"""Verifiers that are broken on purpose. They need no torch: worker processes import this file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from gnomon.envs import CharCount
from gnomon.types import Part, Status, Task, Verdict

__all__ = ["AlwaysRight", "Failing"]


@dataclass(frozen=True, kw_only=True)
class AlwaysRight(CharCount):
    """Every reply is right."""

    def verify(self, task: Task, reply: str) -> Verdict:
        found = super().verify(task, reply)
        parts = (Part(name="correct", value=1.0),)
        return Verdict(status=Status.CORRECT, parts=parts, extracted=found.extracted, span=found.span)


@dataclass(frozen=True, kw_only=True)
class Failing(CharCount):
    """The verifier raises on a third of the replies, but for the tasks that are tried before a run."""

    def verify(self, task: Task, reply: str) -> Verdict:
        if task.id not in tried() and sha256(f"{task.id}{reply}".encode()).digest()[0] % 3 == 0:
            raise RuntimeError("the answer service did not respond")
        return super().verify(task, reply)


@cache
def tried() -> frozenset[str]:
    """Ids of the tasks that are tried before a run."""
    return frozenset(Failing().tasks("train")[index].id for index in range(4))
