"""Drop, delay and cut the messages between two nodes of a Ray cluster, and compare fingerprints.

    python benchmarks/ray_network.py

The nodes are on this machine, in network namespaces of their own: two devices whose packets this script carries from
one to the other, or does not. The run and the head node are on the first, two samplers and the learner on the second. A
fault begins in step 3. With `symmetric`, both nodes run what SLURM would start on each of them. That command ends with
`ray stop`, which kills all Ray processes of this machine. Root is needed.
"""

from __future__ import annotations

import argparse
import fcntl
import heapq
import os
import random
import secrets
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gnomon.store import RunReader, verify

SETTINGS = ["char_count", "steps=12", "prompts=4", "group=4", "eval.tasks=4", "eval.every=100", "save.every=2",
            "rollout.lag=1"]  # fmt: skip
PLACES = ["launch=ray", "launch.samplers=2", "launch.episodes=8", "launch.seconds=120", "launch.resources.far=1",
          "learner=ray", "launch.learner.far=1"]  # fmt: skip
ADDRESSES = ("10.9.0.1", "10.9.0.2")
PORT = 6379
MARK = "GNOMON_RAY_NETWORK"
"""Environment variable by which the processes of a trial are found: all its descendants inherit it."""
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
LONG = 400.0
"""Seconds after which a run counts as hung."""


@dataclass(frozen=True)
class Fault:
    name: str
    loss: float = 0.0
    """Share of the packets that are dropped."""
    delay: float = 0.0
    """Seconds by which every packet is late."""
    cut: float = 0.0
    """Seconds in which no packet arrives. Loss and delay last to the end of the run."""
    gone: bool = False
    """Ray gives the node up meanwhile, and it is started again after the cut."""


FAULTS = [
    Fault("none"),
    Fault("symmetric"),
    Fault("loss of 1 %", loss=0.01),
    Fault("loss of 10 %", loss=0.1),
    Fault("delay of 0.1 s", delay=0.1),
    Fault("cut for 5 s", cut=5.0),
    Fault("cut for 90 s", cut=90.0, gone=True),
]


class Network:
    """Two namespaces, and the wire between them."""

    def __init__(self) -> None:
        self.names = [f"gnomon{secrets.token_hex(2)}" for _ in ADDRESSES]
        self.loss = self.delay = 0.0
        self.cut, self._ended = False, False
        self._ends = [self._device(name, address) for name, address in zip(self.names, ADDRESSES, strict=True)]
        self._wire = threading.Thread(target=self._carry, daemon=True)
        self._wire.start()

    def _device(self, name: str, address: str) -> int:
        end = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
        ip("netns", "add", name)
        ip("link", "set", name, "netns", name)
        ip("-n", name, "addr", "add", f"{address}/24", "dev", name)
        for device in (name, "lo"):
            ip("-n", name, "link", "set", device, "up")
        return end

    def _carry(self) -> None:
        rng, late, number = random.Random(0), list[tuple[float, int, int, bytes]](), 0
        while not self._ended:
            for end in select.select(self._ends, [], [], 0.001 if late else 0.05)[0]:
                packet = os.read(end, 2**16)
                if not self.cut and rng.random() >= self.loss:
                    number += 1
                    other = self._ends[1 - self._ends.index(end)]
                    heapq.heappush(late, (time.monotonic() + self.delay, number, other, packet))
            while late and late[0][0] <= time.monotonic():
                *_, other, packet = heapq.heappop(late)
                with suppress(OSError):
                    os.write(other, packet)

    def close(self) -> None:
        self._ended = True
        self._wire.join()
        for end, name in zip(self._ends, self.names, strict=True):
            os.close(end)
            ip("netns", "del", name)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Trial:
    """A run in a cluster of two nodes."""

    def __init__(self, home: Path, network: Network) -> None:
        self.home, self.network, self.folder, self.mark = home, network, home / "run", secrets.token_hex(8)
        access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
        self.environment = {**os.environ, **access, MARK: self.mark, "OMP_NUM_THREADS": "1"}
        self.environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.log = (home / "log").open("ab")

    def on(self, node: int, *words: str) -> subprocess.Popen[bytes]:
        """Start a command on a node."""
        command = ["ip", "netns", "exec", self.network.names[node], *words]
        return subprocess.Popen(command, env=self.environment, stdout=self.log, stderr=self.log)

    def ray(self, node: int, *words: str) -> subprocess.Popen[bytes]:
        return self.on(node, sys.executable, "-m", "ray.scripts.scripts", *words)

    def head(self) -> None:
        words = ["--head", f"--node-ip-address={ADDRESSES[0]}", f"--port={PORT}", "--include-dashboard=false"]
        assert not self.ray(0, "start", *words, "--num-cpus=0", f"--temp-dir={self.home}/r").wait()

    def join(self) -> None:
        words = [f"--address={ADDRESSES[0]}:{PORT}", f"--node-ip-address={ADDRESSES[1]}"]
        assert not self.ray(1, "start", *words, "--num-cpus=8", '--resources={"far": 8}').wait()

    @property
    def training(self) -> list[str]:
        words = ["-m", "gnomon", "train", *SETTINGS, *PLACES, f"launch.address={ADDRESSES[0]}:{PORT}"]
        return [sys.executable, *words, f"run={self.folder}"]

    def symmetric(self) -> subprocess.Popen[bytes]:
        """The command of SLURM on both nodes. Returns: that of the head node."""
        words = ["symmetric-run", f"--address={ADDRESSES[0]}:{PORT}", "--min-nodes=2", "--num-cpus=8"]
        words += ['--resources={"far": 8}', "--", *self.training]
        other = self.ray(1, *words)
        threading.Thread(target=other.wait, daemon=True).start()
        return self.ray(0, *words)

    def steps(self) -> int:
        with suppress(Exception), RunReader(self.folder) as reader:
            return reader.steps
        return 0

    def processes(self, word: str = "") -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                ours = f"{MARK}={self.mark}".encode() in (path / "environ").read_bytes()
                if ours and word.encode() in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
        return found

    def close(self) -> None:
        while found := self.processes():
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        self.log.close()


def ended(trial: Trial, fault: Fault) -> float:
    """Let the fault happen, and the run end. Returns: seconds of the whole run."""
    if fault.name == "symmetric":
        run = trial.symmetric()
    else:
        trial.head()
        trial.join()
        run = trial.on(0, *trial.training)
    began, struck, network = time.monotonic(), 0.0, trial.network
    while run.poll() is None and time.monotonic() - began < LONG:
        if not struck and trial.steps() >= 3:
            struck = time.monotonic()
            network.loss, network.delay, network.cut = fault.loss, fault.delay, bool(fault.cut)
        if network.cut and time.monotonic() - struck > fault.cut:
            network.cut = False
            if fault.gone:
                time.sleep(5.0)  # For the node to hear that it was given up, and to end.
                trial.join()
        time.sleep(0.2)
    return time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="faults whose name contains one of these")
    options = parser.parse_args()
    top = Path(tempfile.mkdtemp(prefix="gn-"))
    local = [sys.executable, "-m", "gnomon", "train", *SETTINGS, f"run={top / 'local'}"]
    subprocess.run(local, check=True, stdout=subprocess.DEVNULL)
    with RunReader(top / "local") as reader:
        wanted = reader.fingerprint
    good, chosen = 0, [fault for fault in FAULTS if any(part in fault.name for part in options.only)]
    for number, fault in enumerate(chosen):
        home, network = top / str(number), Network()
        home.mkdir()
        trial = Trial(home, network)
        try:
            seconds = ended(trial, fault)
        finally:
            network.loss = network.delay = 0.0
            network.cut = False
            trial.close()
            network.close()
        with RunReader(trial.folder) as reader:
            equal = reader.complete and reader.fingerprint == wanted and bool(verify(trial.folder))
            longest = max((float(row["training"]) for row in reader.timings()), default=0.0)
            died = len(reader.events("sampler_died")), len(reader.events("learner_died"))
        good += equal
        print(
            f"{fault.name:<18} {'same' if equal else 'DIFFERENT'}   {seconds:5.0f} s, longest step {longest:5.1f} s, "
            f"{died[0]} samplers and {died[1]} learners died",
            flush=True,
        )
        if not equal:
            print(f"kept: {home / 'log'}")
    if good == len(chosen):
        shutil.rmtree(top, ignore_errors=True)
    print(f"{good} of {len(chosen)} equal")
    return 0 if good == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
