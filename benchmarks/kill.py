"""Kill -9 a training run at random moments, resume it, and compare fingerprints.

    python benchmarks/kill.py --trials 20
    python benchmarks/kill.py --trials 20 --env agent      programs with threads and branches play the episodes

Each trial trains the same recipe in a process of its own, kills it, resumes it to the end, and compares its
fingerprint with that of a run nobody touched. The processes are forked from one that has imported the libraries and
done nothing else. Every other trial is killed at a random moment of the clock. Most of the clock is sampling, so the
rest draw a phase and one of its occurrences, and the kill falls as soon as the child says that it has begun. A trial
whose kill came too late is run again: every trial counted was struck.
"""

from __future__ import annotations

import argparse
import inspect
import mmap
import multiprocessing
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TEAM = Path(__file__).resolve().parent.parent / "tests/endpoint/team_env.py"
SETTINGS = {
    "char_count": {
        "rollout": {"prompts": 16, "group": 8, "max_tokens": 96},
        "steps": 8,
        "eval": {"every": 4, "tasks": 32},
        "save": {"every": 2},
    },
    f"{TEAM}:Team": {
        "rollout": {"prompts": 2, "group": 2, "max_tokens": 24},
        "steps": 3,
        "eval": {"every": 3, "tasks": 2},
        "save": {"every": 1},
    },
}
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["gnomon.api", "gnomon.run.start", "transformers.models.gpt_neox.modeling_gpt_neox"])
PHASES = ("between", "rollout", "program", "gradient", "update", "record", "checkpoint")


class Board:
    """A few shared bytes: the phase a child is in, and how often each was entered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(bytes(1 + len(PHASES)))
        with path.open("r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 0)

    def enter(self, phase: str) -> None:
        place = PHASES.index(phase)
        self.bytes[1 + place] = min(255, self.bytes[1 + place] + 1)
        self.bytes[0] = place

    def leave(self) -> None:
        self.bytes[0] = 0

    @property
    def phase(self) -> str:
        return PHASES[self.bytes[0]]

    def entered(self, phase: str) -> int:
        return self.bytes[1 + PHASES.index(phase)]

    def __reduce__(self) -> tuple[type[Board], tuple[Path]]:
        return Board, (self.path,)

    def clear(self) -> None:
        self.bytes[:] = bytes(len(self.bytes))


def child(folder: Path, env: str, board: Board, threads: int) -> None:
    """Train, or go on if the folder holds a run, and say which phase it is in."""
    import gnomon
    from gnomon.engines.embedded import Embedded
    from gnomon.learners.local import LocalLearner
    from gnomon.rollout.programs import Programs
    from gnomon.store import Run

    def noting(kind: type, name: str, phase: str) -> None:
        real = getattr(kind, name)

        def noted(*args: object, **kwargs: object) -> object:
            board.enter(phase)
            try:
                return real(*args, **kwargs)
            finally:
                board.leave()

        async def noted_async(*args: object, **kwargs: object) -> object:
            board.enter(phase)
            try:
                return await real(*args, **kwargs)
            finally:
                board.leave()

        setattr(kind, name, noted_async if inspect.iscoroutinefunction(real) else noted)

    noting(Embedded, "sample", "rollout")
    noting(Programs, "play", "program")
    noting(LocalLearner, "forward_backward", "gradient")
    noting(LocalLearner, "optim_step", "update")
    noting(Run, "append", "record")
    noting(Run, "commit_checkpoint", "checkpoint")
    if (Path(folder) / "journal.db").exists():
        gnomon.resume(folder).close()
    else:
        gnomon.train(env, run=folder, quiet=True, threads=threads, **SETTINGS[env]).close()


def run(folder: Path, env: str, board: Board, threads: int, strike: tuple[str, float] | None = None) -> str | None:
    """Run the child. `strike` is ("clock", seconds after its first record) or (phase, occurrence).

    Returns: the phase that the kill struck; None when the child ended by itself.
    """
    board.clear()
    process = FORKS.Process(target=child, args=(folder, env, board, threads))
    process.start()
    struck = None
    if strike is not None:
        how, when = strike
        while process.is_alive() and board.entered("rollout" if how == "clock" else how) < (how == "clock" or when):
            time.sleep(0.0001)
        if how == "clock":
            time.sleep(when)
        struck = board.phase
        process.kill()
    process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        raise SystemExit("the child failed on its own")
    return struck if process.exitcode else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--env", choices=["char_count", "agent"], default="char_count")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    from gnomon.store import RunReader, verify

    home = Path(tempfile.mkdtemp(prefix="gnomon-kill-"))
    board, rng = Board(home / "board"), random.Random(options.seed)
    env = options.env if options.env in SETTINGS else f"{TEAM}:Team"
    began = time.monotonic()
    run(home / "untouched", env, board, options.threads)
    times = {phase: count for phase in PHASES[1:] if (count := board.entered(phase))}
    with RunReader(home / "untouched") as reader:
        wanted = reader.fingerprint
        length = sum(float(row["seconds"]) for row in reader.timings())
    print(
        f"untouched: {time.monotonic() - began:.0f} s, {length:.1f} s of steps, fingerprint {wanted[:16]}", flush=True
    )
    same, phases = 0, Counter[str]()
    for trial in range(options.trials):
        folder, struck = home / f"trial-{trial}", None
        while struck is None:
            shutil.rmtree(folder, ignore_errors=True)
            phase = list(times)[trial // 2 % len(times)]
            strike = (phase, rng.randint(1, times[phase])) if trial % 2 else ("clock", rng.uniform(0, length))
            struck = run(folder, env, board, options.threads, strike)
        phases[struck] += 1
        if not (folder / "journal.db").exists():
            raise SystemExit(f"the kill of trial {trial + 1} left no journal in {folder}")
        run(folder, env, board, options.threads)
        with RunReader(folder) as reader:
            found = reader.fingerprint
        good = found == wanted and bool(verify(folder))
        same += good
        told = f"{strike[1]:.2f} s" if strike[0] == "clock" else f"{strike[0]} {strike[1]} of {times[strike[0]]}"
        print(f"trial {trial + 1:>2}: {told:<18} struck {struck:<11} {'same' if good else 'DIFFERENT'}", flush=True)
        if good:
            shutil.rmtree(folder)
    print(f"{same} of {options.trials} equal; struck {dict(phases)}")
    return 0 if same == options.trials else 1


if __name__ == "__main__":
    sys.exit(main())
