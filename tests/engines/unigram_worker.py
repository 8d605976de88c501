"""A worker without vLLM: every token is drawn from one distribution, whatever came before it. Standard library only.

The loop, the frames and the watch over the parent are the real worker's. What goes wrong is planned in the file that
`GNOMON_TEST_PLAN` names, which is removed as soon as it has gone wrong: `die N`, `hang N` (at the N-th sample), `stale`
(a load that does nothing), `half` (a load of half the tensor), `cache` (decoding goes on with the old weights),
`refuse` (one request), `memory N` (out of memory at the N-th sample), `full` (out of memory in a load), `tired` (dies
when it should sleep), `oversleep` (out of memory when it should wake up). `sick`, `lacks TEXT` (a
release without what the worker uses), `unstamped` (one that does not say which weights sampled a token), `only DTYPE`
(a device that has no other) and `broken TEXT` (vLLM does not start, and its output is the text) stay.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import struct
import sys
from array import array
from itertools import accumulate
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src/gnomon/engines/vllm"))
from frames import send
from worker import Server, main

PLAN = Path(os.environ.get("GNOMON_TEST_PLAN", "/nowhere"))


def read(file: str) -> list[float]:
    """The one tensor of a safetensors file."""
    data = Path(file).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    start, end = json.loads(data[8 : 8 + size])["logits"]["data_offsets"]
    return list(array("f", data[8 + size + start : 8 + size + end]))


def logps(logits: list[float], temperature: float) -> list[float]:
    top = [value / temperature for value in logits]
    total = math.log(sum(map(math.exp, top)))
    return [value - total for value in top]


class OutOfMemoryError(RuntimeError):
    """As torch names it."""


class Unigram(Server):
    asleep = False
    sampled = 0
    decoded: tuple[float, ...] | list[float] = ()
    scored: tuple[float, ...] | list[float] = ()

    def versions(self):
        return {"python": "3.11.0", "vllm": "0.32.0"}

    def plan(self):
        return PLAN.read_text().split() if PLAN.is_file() else [""]

    async def open(self, message, arrays):
        if self.plan()[0] == "sick":
            print("no room on the device", file=sys.stderr, flush=True)
            os.killpg(0, signal.SIGKILL)
        if self.plan()[0] == "broken":
            print(" ".join(self.plan()[1:]), file=sys.stderr, flush=True)
            raise RuntimeError("Engine core initialization failed. See root cause above.")
        if self.plan()[0] == "lacks":
            return {"lacking": self.plan()[1:]}, {}
        head, stamps = self.head(**message["arguments"]), self.plan()[0] != "unstamped"
        return {"device": "none", "head": head, "stamps": stamps}, {}

    def head(self, model, dtype="float32", hf_overrides=None, **others):
        """As vLLM 0.32 finds the dtype of the vocabulary projection (`ModelConfig.head_dtype`)."""
        config = json.loads((Path(model) / "config.json").read_text()) | (hf_overrides or {})
        wanted = {"model": dtype}.get(found := config.get("head_dtype", "model"), found)
        kind, *only = self.plan()
        return dtype if kind == "only" and wanted not in only else wanted

    async def answer(self, message, arrays):
        """Asleep, it can do nothing but wake up: vLLM has no memory for it."""
        if self.asleep and message["do"] != "wake":
            send(self.channel, {"id": message["id"], "error": f"asleep in {message['do']}"})
        else:
            await super().answer(message, arrays)

    async def sleep(self, message, arrays):
        if self.plan()[0] == "tired":
            PLAN.unlink()
            os.killpg(0, signal.SIGKILL)
        self.asleep = True
        return {}, {}

    async def wake(self, message, arrays):
        if self.plan()[0] == "oversleep":
            PLAN.unlink()
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        if not self.asleep:
            raise RuntimeError("it does not sleep")
        self.asleep = False
        return {}, {}

    async def load(self, message, arrays):
        found, kind = read(message["path"]), self.plan()[0]
        if kind == "full":
            PLAN.unlink()
            raise RuntimeError("Worker failed with error 'CUDA out of memory. Tried to allocate 2.00 GiB.'")
        if kind in ("stale", "half", "cache") and self.scored:
            PLAN.unlink()
            kept = len(found) // 2 if kind == "half" else 0
            self.decoded = found[:kept] + list(self.scored)[kept:]
            self.scored = found if kind == "cache" else self.decoded
        else:
            self.decoded = self.scored = found
        return {}, {}

    async def sample(self, message, arrays):
        self.sampled += 1
        kind, *at = self.plan()
        if kind in ("die", "hang") and self.sampled == int(at[0]):
            PLAN.unlink()
            os.killpg(0, signal.SIGKILL if kind == "die" else signal.SIGSTOP)
        if kind == "memory" and self.sampled == int(at[0]):
            PLAN.unlink()
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        if kind == "refuse":
            PLAN.unlink()
            raise ValueError("the prompt is too long")
        wanted = message["sampling"]
        if wanted["temperature"] == 0:
            best = max(range(len(self.decoded)), key=self.decoded.__getitem__)
            ids = array("i", [best] * wanted["max_tokens"])
            return {"finish": "length"}, {"token_ids": ids, "logprobs": array("d", [-1.0] * len(ids))}
        own, draw = logps(list(self.decoded), wanted["temperature"]), random.Random(wanted["seed"])
        ends, ids = list(accumulate(map(math.exp, own))), list[int]()
        while len(ids) < wanted["max_tokens"] and not (ids and ids[-1] in message["stop_ids"]):
            ids.append(min(sum(end < draw.random() * ends[-1] for end in ends), len(own) - 1))
        found = array("d", (own[token] for token in ids))
        return {"finish": "length"}, {"token_ids": array("i", ids), "logprobs": found}

    async def score(self, message, arrays):
        own = logps(list(self.scored), 1.0)
        return {}, {"logprobs": array("d", (own[token] for token in arrays["prompt"][1:]))}


if __name__ == "__main__":
    main(Unigram)
