"""Kill random processes of runs that sample in a Ray cluster, and compare fingerprints.

    python benchmarks/ray_kills.py --kills 50
    python benchmarks/ray_kills.py --kills 50 --learner
    python benchmarks/ray_kills.py --fault stop --kills 10
    python benchmarks/ray_kills.py --fault node --kills 5

A run without Ray gives the fingerprint that all others must have. Then runs of the same recipe sample in clusters of
their own, with two samplers by default, and are struck every few seconds until they end:

kill    SIGKILL of a sampler, of a worker process of its environment, or of the run's own process, which is then resumed
stop    SIGSTOP of a sampler, which must be replaced after `launch.seconds`
node    SIGKILL of a node: the samplers have a resource that only the second node has. Another one joins 3 s later

With `--learner` the learner is in the cluster, too, and is killed, stopped or lost with its node like a sampler. After
every run, no process of it may be left: neither a sampler, a learner or a worker nor one of Ray.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from gnomon.store import RunReader, verify

SETTINGS = ["steps=24", "prompts=8", "group=8", "eval.tasks=16", "eval.every=8", "save.every=4", "rollout.lag=1"]
MARK = "GNOMON_RAY_KILLS"
"""Environment variable by which the processes of a trial are found: all its descendants inherit it."""
HUNG = 5
"""Value of `launch.seconds` where samplers are stopped."""
LEFT = 20.0
"""Seconds in which the last process of a trial must have ended."""


def processes(mark: str) -> dict[int, str]:
    """The processes of a trial, by id, with their command lines."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            zombie = (path / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if not zombie and f"{MARK}={mark}".encode() in (path / "environ").read_bytes():
                found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def samplers(mark: str) -> list[int]:
    return [pid for pid, words in processes(mark).items() if words.startswith("ray::Sampler")]


def learners(mark: str) -> list[int]:
    return [pid for pid, words in processes(mark).items() if words.startswith("ray::Trainer")]


def workers(mark: str) -> list[int]:
    """Processes below samplers."""
    above, found = set(samplers(mark)), list[int]()
    for pid in processes(mark):
        with suppress(OSError):
            up = parent(pid)
            while up > 1 and up not in above:
                up = parent(up)
            found += [pid] * (up in above)
    return found


class Trial:
    """One run, its cluster, and all their processes."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        self.folder, self.words, self.mark = folder, words, secrets.token_hex(8)
        self.environment = {**os.environ, MARK: self.mark, "OMP_NUM_THREADS": "1"}

    def begin(self, *more: str) -> subprocess.Popen[bytes]:
        """Start the run, or resume it if there is one."""
        resumed = (self.folder / "journal.db").exists()
        words = ["resume", str(self.folder)] if resumed else [*self.words, f"run={self.folder}", *more]
        with open(self.folder.with_suffix(".log"), "ab") as log:
            command = [sys.executable, "-m", "gnomon", *words]
            return subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def steps(self) -> int:
        with suppress(Exception), RunReader(self.folder) as reader:
            return reader.steps
        return 0

    def left(self) -> dict[int, str]:
        """The processes that have not ended in time."""
        deadline = time.monotonic() + LEFT
        while (found := processes(self.mark)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found


def strike(trial: Trial, run: subprocess.Popen[bytes], fault: str, rng: random.Random) -> str:
    """Strike a process. Returns: its role; empty if there was none."""
    roles = {"sampler": samplers, "worker": workers, "run": lambda _: [run.pid], "learner": learners}
    struck = ["sampler"] if fault == "stop" else ["run", "sampler", "worker"]
    role = rng.choice([*struck, "learner"] if "learner=ray" in trial.words else struck)
    pids = roles[role](trial.mark)
    if run.poll() is not None or not pids:
        return ""
    with suppress(ProcessLookupError):
        os.kill(rng.choice(sorted(pids)), signal.SIGSTOP if fault == "stop" else signal.SIGKILL)
        return role
    return ""


def ray_command(*words: str, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "ray.scripts.scripts", *words]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Nodes:
    """A cluster of two nodes on this machine. Only the second has the resource that samplers need."""

    def __init__(self, environment: dict[str, str], port: int) -> None:
        self.folder, self.address = tempfile.mkdtemp(prefix="rk"), f"127.0.0.1:{port}"
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
        subreaper = {"RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper": "true"}
        environment |= token | subreaper
        self.environment = environment
        head = ["start", "--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false"]
        ray_command(*head, f"--temp-dir={self.folder}", environment=environment)
        self.second = self.join()

    def join(self) -> list[int]:
        """Start a second node. Returns: its processes."""
        mark = self.environment[MARK]
        before = set(processes(mark))
        # With the address of the head, the run could connect with this node, and would die with it.
        words = ["start", f"--address={self.address}", "--node-ip-address=127.0.0.2", "--num-cpus=4"]
        words += ['--resources={"sampler": 4}']
        ray_command(*words, environment=self.environment)
        return [pid for pid, command in processes(mark).items() if pid not in before and "raylet" in command]

    def kill_second(self) -> None:
        """Kill the raylet of the second node, with all that it started."""
        for pid in self.second:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        for pid in processes(self.environment[MARK]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def ended(trial: Trial, options: argparse.Namespace, rng: random.Random, left: int) -> tuple[Counter[str], int]:
    """Strike a run until it ends, at most `left` times. Returns: what was struck, and the steps that were repeated."""
    nodes = Nodes(trial.environment, rng.randrange(20000, 30000)) if options.fault == "node" else None
    if nodes:
        trial.words += [f"launch.address={nodes.address}", "launch.resources.sampler=1"]
        trial.words += ["launch.learner.sampler=1"]
    found, repeated, run = Counter[str](), 0, trial.begin()
    try:
        while run.poll() is None:
            while run.poll() is None and not ((trial.folder / "journal.db").exists() and samplers(trial.mark)):
                time.sleep(0.02)
            time.sleep(rng.uniform(0, options.every))
            if found.total() >= left:
                run.wait()
            elif nodes and run.poll() is None:
                nodes.kill_second()
                found["node"] += 1
                time.sleep(3)
                nodes.second = nodes.join()
            elif not nodes and (role := strike(trial, run, options.fault, rng)):
                found[role] += 1
                if role == "run":
                    run.wait()
                    saved = max((int(p.name) for p in (trial.folder / "checkpoints").glob("[0-9]*")), default=0)
                    repeated += trial.steps() - saved
                    if remains := trial.left():
                        raise SystemExit(f"left by a run that was killed: {remains}")
                    run = trial.begin()
                elif options.fault == "stop":
                    time.sleep(2 * HUNG)
        if run.returncode:
            raise SystemExit(f"the run failed: {trial.folder.with_suffix('.log')}")
    finally:
        if nodes:
            nodes.close()
    return found, repeated


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--every", type=float, default=8.0, help="longest time between two strikes, in seconds")
    parser.add_argument("--fault", choices=["kill", "stop", "node"], default="kill")
    parser.add_argument("--samplers", type=int, default=2)
    parser.add_argument("--learner", action="store_true", help="the learner is in the cluster, too")
    parser.add_argument("--env", default="char_count")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    home, rng = Path(tempfile.mkdtemp(prefix="gnomon-ray-kills-")), random.Random(options.seed)
    recipe = ["train", options.env, *SETTINGS]
    local = Trial(home / "local", recipe)
    if local.begin().wait():
        raise SystemExit(f"the run without Ray failed: {home / 'local.log'}")
    with RunReader(home / "local") as reader:
        wanted = reader.fingerprint
        print(f"without Ray: {sum(float(row['seconds']) for row in reader.timings()):.1f} s of steps; {wanted[:16]}")
    cluster = ["launch=ray", f"launch.samplers={options.samplers}", "launch.episodes=16"]
    cluster += [f"launch.seconds={HUNG}"] if options.fault == "stop" else []
    cluster += ["learner=ray"] if options.learner else []
    good, roles, runs, lost, repeated, orphans = 0, Counter[str](), 0, 0, 0, 0
    while roles.total() < options.kills:
        trial, began = Trial(home / f"run-{runs}", [*recipe, *cluster]), time.monotonic()
        found, again = ended(trial, options, rng, options.kills - roles.total())
        remains = trial.left()
        with RunReader(trial.folder) as reader:
            equal = reader.fingerprint == wanted and bool(verify(trial.folder))
            losses, learner = reader.events("sampler_died"), reader.events("learner_died")
        episodes = sum(loss["episodes"] for loss in losses)
        facts = f"struck {dict(found)}, {len(losses)} samplers died with {episodes} episodes, {again} steps repeated"
        facts += f", the learner died {len(learner)} times after {[loss['calls'] for loss in learner]} calls" * bool(
            learner
        )
        took = f"{time.monotonic() - began:.0f} s, {len(remains)} processes left"
        print(f"run {runs + 1}: {'same' if equal else 'DIFFERENT'}; {facts}; {took}", flush=True)
        if remains:
            print("\n".join(f"   {pid}: {words[:100]}" for pid, words in remains.items()))
        good, runs, roles, lost = good + equal, runs + 1, roles + found, lost + episodes
        repeated, orphans = repeated + again, orphans + len(remains)
        if equal:
            shutil.rmtree(trial.folder)
    print(
        f"{good} of {runs} runs equal; struck {dict(roles)}; {lost} episodes played again, {repeated} steps repeated "
        f"after a resume; {orphans} processes left"
    )
    return 0 if good == runs and not orphans else 1


if __name__ == "__main__":
    sys.exit(main())
