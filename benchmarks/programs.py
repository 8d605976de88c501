"""Many programs at once against one policy: what the endpoint costs beside sampling, and how busy the engine stays.

    python benchmarks/programs.py --programs 256 --calls 8 --sample 0.5 --tool 0.5

Every program is an interpreter of its own in a sandbox. It makes calls over HTTP, each with the whole conversation, and
sleeps between them, as if it ran a tool. The policy is a script that replies 24 tokens after a fixed time, so all other
time is that of the endpoint, of the sandboxes and of waiting for a processor. Printed are:

- the processor time of this process to start and end a program, and per call: reading the request, rendering,
  recording, writing the reply;
- the time of a call inside the program, beyond sampling;
- memory of a sandbox with its program (proportional set size), and of this process, per program;
- the share of the wall-clock time in which at least one request is sampled, and how many there are on average.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gnomon.agents.recorder import Bounds, Recorder
from gnomon.envs.agent import End, Launch
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.rendering import Transcript, choose
from gnomon.rollout.programs import Programs
from gnomon.sandbox.descendants import descendants
from gnomon.types import Completion, Finish, Request, Sampling

PROGRAM = """
import http.client, json, os, sys, time
calls, tool, text = int(sys.argv[1]), float(sys.argv[2]), sys.stdin.read()
client = http.client.HTTPConnection("127.0.0.1", 8000)
messages, took = [{"role": "user", "content": text}], []
for _ in range(calls):
    began = time.monotonic()
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    client.request("POST", "/v1/chat/completions", json.dumps({"messages": messages}), headers)
    reply = json.load(client.getresponse())["choices"][0]["message"]
    took.append(time.monotonic() - began)
    time.sleep(tool)
    messages += [reply, {"role": "user", "content": "go on with the next part of the work"}]
print(json.dumps(took))
"""


@dataclass
class Scripted:
    """Replies after a fixed time, and notes how many requests are sampled at once."""

    reply: Completion
    seconds: float
    active: int = 0
    busy: float = 0.0
    """Seconds with at least one request."""
    load: float = 0.0
    """Sum over seconds of the number of requests."""
    changed: float = field(default_factory=time.monotonic)

    def count(self, change: int) -> None:
        now = time.monotonic()
        self.busy += (now - self.changed) * (self.active > 0)
        self.load += (now - self.changed) * self.active
        self.active, self.changed = self.active + change, now

    async def sample(self, request: Request) -> Completion:
        self.count(1)
        await asyncio.sleep(self.seconds)
        self.count(-1)
        return self.reply


def proportional() -> tuple[int, float]:
    """Bytes of all descendants of this process, shared pages divided among those that share them; and the processor
    time of reading this."""
    total, began = 0, time.thread_time()
    for child in descendants():
        try:
            rollup = Path(f"/proc/{child}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total, time.thread_time() - began


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def measure(options: argparse.Namespace) -> None:
    tokenizer = Tokenizer(model_folder("tiny"))
    renderer = choose(tokenizer, turns=options.calls)
    ids = (*tokenizer.encode("abcdefgh" * 4)[:23], min(renderer.stop))
    reply = Completion(token_ids=ids, logprobs=(-1.0,) * len(ids), text="", finish=Finish.EOS, version=0)
    policy, programs = Scripted(reply, options.sample), Programs(room=options.programs)

    async def play(number: int, calls: int) -> End:
        command = (sys.executable, "-S", "-c", PROGRAM, str(calls), str(options.tool))
        launch = Launch(command=command, stdin=b"Work on this task. " * 20, calls=options.calls, seconds=600.0)
        recorder = Recorder(
            renderer,
            partial(Transcript.begin, renderer),
            policy.sample,
            key=Key(0).at("program", number=number),
            sampling=Sampling(max_tokens=64),
            bounds=Bounds(calls=options.calls),
            piece=str,
        )
        end = await programs.play(launch, recorder, "key")
        assert end.status == 0 and len(recorder.turns()) == calls, end
        return end

    cpu, few = time.process_time(), min(options.programs, 32)
    await asyncio.gather(*(play(number, 0) for number in range(few)))
    start = (time.process_time() - cpu) / few
    before, cpu, began = resident(), time.process_time(), time.monotonic()
    peak, watched = [0, 0], [0.0]

    async def watch() -> None:
        while True:
            await asyncio.sleep(1.0)
            found, seconds = await asyncio.to_thread(proportional)
            watched[0] += seconds
            peak[:] = max(peak[0], found), max(peak[1], resident() - before)

    watching = asyncio.create_task(watch())
    ends = await asyncio.gather(*(play(number, options.calls) for number in range(options.programs)))
    watching.cancel()
    policy.count(0)
    wall, calls = time.monotonic() - began, options.programs * options.calls
    beyond = [1000 * (seconds - options.sample) for end in ends for seconds in json.loads(end.output)]
    deciles = statistics.quantiles(beyond, n=10)
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{options.programs} programs, {options.calls} calls each, in {wall:.1f} s")
    each = (time.process_time() - cpu - watched[0] - start * options.programs) / calls
    print(f"processor time of this process   {1000 * each:.2f} ms per call, {1000 * start:.1f} ms per program besides")
    print(f"a call beyond sampling           median {deciles[4]:.1f} ms, 90 % below {deciles[8]:.1f} ms")
    print(f"memory of a program              {peak[0] / options.programs / 2**20:.1f} MiB, its sandbox included")
    print(f"memory of this process           {peak[1] / options.programs / 2**20:.2f} MiB per program")
    print(
        f"engine                           busy {policy.busy / wall:.0%} of the time, {policy.load / wall:.1f} requests"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=256)
    parser.add_argument("--calls", type=int, default=8)
    parser.add_argument("--sample", type=float, default=0.5, help="seconds of a reply")
    parser.add_argument("--tool", type=float, default=0.5, help="seconds between calls")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
