"""A trainer: a process of a cluster that has the learner of a run."""

from __future__ import annotations

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from gnomon.learners.base import Closing, Learner
from gnomon.learners.verbs import carried_out
from gnomon.run.parts import make_trainer
from gnomon.workers import pack_value
from gnomon_ray.answering import answering

__all__ = ["Trainer"]


class Trainer:
    """Carries out the verbs of a learner, one after the other, in a thread of its own.

    Args: parts: a pickled `Carried` with the settings of a learner in this process, and the objective.
    """

    def __init__(self, parts: bytes) -> None:
        self._parts = parts
        self._thread = ThreadPoolExecutor(1)

    @answering
    async def start(self) -> None:
        await self._run(self._make)

    async def alive(self) -> None:
        """Answers also while a verb is carried out."""

    @answering
    async def call(self, verb: str, arguments: bytes) -> bytes:
        """Pickled, since arrays that Ray reads cannot be written to."""
        found: bytes = await self._run(self._call, verb, arguments)
        return found

    async def close(self) -> None:
        """End the processes of a learner that has any."""
        if isinstance(self._learner, Closing):
            self._learner.close()

    async def _run(self, work: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _make(self) -> None:
        config, row = pickle.loads(self._parts).load()
        torch.set_num_threads(1)  # Of this thread.
        self._learner: Learner = make_trainer(config, row)

    def _call(self, verb: str, arguments: bytes) -> bytes:
        return pack_value(carried_out(self._learner, verb, pickle.loads(arguments)))
