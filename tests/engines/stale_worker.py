"""The real worker with a load that leaves something old: the packed tied head, or the prefix cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src/gnomon/engines/vllm"))
from worker import Server, Weights, main


class StaleHead(Weights):
    def repack(self):
        pass


class StaleCache(Server):
    async def load(self, message, arrays):
        await self.engine.collective_rpc("take", args=(message["file"],))
        return {}, {}


if __name__ == "__main__":
    if os.environ.get("GNOMON_TEST_STALE") == "head":
        main(extension="stale_worker.StaleHead")
    else:
        main(StaleCache)
