"""An environment of one turn as a task set of `verifiers` 0.4."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from gnomon.envs.base import Env
from gnomon.envs.messages import text_of
from gnomon.errors import ResourceError
from gnomon.integrations.exports.plays import Plays
from gnomon.integrations.exports.rewards import Splits, prompt_of, single, sound

__all__ = ["verifiers_taskset"]


def verifiers_taskset(env: Env, *, split: str = "train", count: int = 100, workers: int = 2) -> Any:
    """A task set class, for a package that `verifiers` finds by its id.

    The reward is the verdict on the assistant's last message. A failure of the verifier raises.

    Raises: ConfigError E177 for an environment of several turns; ResourceError E530 if `verifiers` is not installed.
    """
    try:
        vf: Any = importlib.import_module("verifiers.v1")
    except ImportError as error:
        raise ResourceError("E530", "the package verifiers is not installed", fix="pip install verifiers") from error
    plays, splits = Plays(single(env), workers=workers), Splits(env)

    class GnomonData(vf.TaskData):  # type: ignore[misc]
        split: str
        index: int

    class GnomonTask(vf.Task[GnomonData]):  # type: ignore[misc]
        @vf.reward(weight=1.0)  # type: ignore[untyped-decorator]
        async def verdict(self, trace: Any) -> float:
            task = splits.task(self.data.split, self.data.index)
            replies = [text_of(node.message.content or "") for node in trace.nodes if node.message.role == "assistant"]
            verdicts = await asyncio.to_thread(plays.verdicts, [(task, replies[-1] if replies else "")])
            return sound(verdicts)[0].reward

    class GnomonTaskset(vf.Taskset[GnomonTask, vf.TasksetConfig]):  # type: ignore[misc]
        def load(self) -> list[Any]:
            tasks = [splits.task(split, index) for index in range(count)]
            return [
                GnomonTask(GnomonData(id=task.id, prompt=prompt_of(task), split=split, index=index), self.config.task)
                for index, task in enumerate(tasks)
            ]

    return GnomonTaskset
