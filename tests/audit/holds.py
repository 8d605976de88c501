"""An environment whose verifier holds address space, as one does that loads a model."""

import mmap
from dataclasses import dataclass

from gnomon.envs import Arithmetic
from gnomon.types import Task


@dataclass(frozen=True, kw_only=True)
class Holds(Arithmetic):
    format: float = 0.0
    mib: int = 0
    kind: str = "map"

    def check(self, task: Task, answer: str) -> bool:
        size = self.mib * 2**20
        if self.kind == "object":
            bytes(size)
        elif size:
            try:
                mmap.mmap(-1, size).close()
            except OSError as error:
                if self.kind == "library":
                    raise RuntimeError("DefaultCPUAllocator: can't allocate memory (Cannot allocate memory)") from error
                raise
        return answer == str(task.answer)
