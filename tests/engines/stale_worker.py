"""The real worker with a load that leaves something old: the packed tied head, an adapter, or the prefix cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src/gnomon/engines/vllm"))
from worker import Server, Weights, main


class StaleHead(Weights):
    def repack(self):
        pass


class StaleAdapter(Server):
    async def adapt(self, folder):
        if self.adapter is None:
            await super().adapt(folder)


class StaleCache(Server):
    first = ""

    async def load(self, message, arrays):
        await self.adapted(message["path"]) if os.path.isdir(message["path"]) else await self.taken(message["path"])
        return {}, {}

    async def taken(self, path):
        await self.engine.collective_rpc("take", args=(path,))

    async def adapted(self, folder):
        """With the name and the path of the first version, by which vLLM finds what it has cached."""
        await self.adapt(folder)
        self.first = self.first or folder
        self.adapter = type(self.adapter)("adapter", 1, self.first)


KINDS = {"head": (Server, "stale_worker.StaleHead"), "adapter": (StaleAdapter,), "cache": (StaleCache,)}

if __name__ == "__main__":
    main(*KINDS[os.environ["GNOMON_TEST_STALE"]])
