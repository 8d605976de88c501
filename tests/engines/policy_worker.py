"""A worker that samples with this package's own engine: for whole runs without vLLM. It dies as `unigram_worker`."""

from __future__ import annotations

import os
import signal
import sys
from array import array
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src/gnomon/engines/vllm"))
from frames import send
from worker import Server, main

from gnomon.engines.embedded import Embedded
from gnomon.images import SHELF, Image
from gnomon.models.policy import Policy
from gnomon.models.scoring import score
from gnomon.types import Request, Sampling

PLAN = Path(os.environ.get("GNOMON_TEST_PLAN", "/nowhere"))


class Tiny(Server):
    asleep = False
    sampled = 0

    def versions(self):
        return {"python": "3.11.0", "vllm": "0.32.0"}

    async def open(self, message, arrays):
        self.own = Embedded(Policy.load(message["arguments"]["model"]))
        self.own.in_flight = True
        return {"device": "cuda" if message["arguments"].get("enable_sleep_mode") else "cpu"}, {}

    async def answer(self, message, arrays):
        """Notes what is asked, if `GNOMON_TEST_ASKED` names a file. Asleep, it can do nothing but wake up."""
        if asked := os.environ.get("GNOMON_TEST_ASKED"):
            with open(asked, "a") as file:
                file.write(message["do"] + "\n")
        if self.asleep and message["do"] != "wake":
            send(self.channel, {"id": message["id"], "error": f"asleep in {message['do']}"})
        else:
            await super().answer(message, arrays)

    async def sleep(self, message, arrays):
        self.asleep = True
        return {}, {}

    async def wake(self, message, arrays):
        self.asleep = False
        return {}, {}

    async def load(self, message, arrays):
        from safetensors.torch import load_file

        if not message["in_flight"] and self.own._decoder is not None:
            raise RuntimeError("a request is still running")
        self.own.policy.update(load_file(message["path"]))
        self.own.version = message["version"]
        if self.own._decoder is not None:
            self.own._decoder.renew(self.own.version)
        return {}, {}

    async def sample(self, message, arrays):
        self.sampled += 1
        if PLAN.is_file() and self.sampled == int(PLAN.read_text().split()[1]):
            PLAN.unlink()
            os.killpg(0, signal.SIGKILL)
        wanted = message["sampling"]
        sampling = Sampling(
            max_tokens=wanted["max_tokens"],
            temperature=wanted["temperature"],
            stop=tuple(message["stop"]),
            stop_ids=frozenset(message["stop_ids"]),
        )
        key = wanted["seed"].to_bytes(16, "little")
        ids = list(arrays["prompt"])
        for path, first, end in message.get("images", ()):
            name = SHELF.keep(Image.read(path))
            ids[first:end] = [name if token == ids[first] else token for token in ids[first:end]]
        found = await self.own.sample(Request(prompt_ids=tuple(ids), key=key, sampling=sampling))
        versions = [(0, found.version), *found.changes]
        return {"finish": "length" if found.finish == "length" else "stop", "versions": versions}, {
            "token_ids": array("i", found.token_ids),
            "logprobs": array("d", found.logprobs),
        }

    async def score(self, message, arrays):
        ids = tuple(arrays["prompt"])
        found = score(self.own.policy, [ids[:1]], [(0, ids[1:])])
        return {}, {"logprobs": array("d", found.tolist())}


if __name__ == "__main__":
    main(Tiny)
