"""Kill -9 a training run at random moments, resume it, and compare fingerprints.

    python benchmarks/kill.py --trials 20

Each trial trains the same recipe in a process of its own, kills it once at a random moment, resumes it to the
end, and compares its fingerprint with that of a run nobody touched. The child notes in a file which phase it
is in, so that the report can say where every kill struck.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

STEPS = 5
SETTINGS = {
    "rollout": {"prompts": 8, "group": 4, "max_tokens": 96},
    "steps": STEPS,
    "eval": {"every": 3, "tasks": 16},
    "save": {"every": 2},
    "threads": 2,
}


def child(folder: str, notes: str) -> None:
    """Train, or go on if the folder holds a run; note the phase at every change of it."""
    import gnomon
    from gnomon.engines.embedded import Embedded
    from gnomon.learners.local import LocalLearner
    from gnomon.store import Run

    def noting(kind: type, name: str, phase: str) -> None:
        real = getattr(kind, name)

        def noted(*args: object, **kwargs: object) -> object:
            Path(notes).write_text(phase)
            result = real(*args, **kwargs)
            Path(notes).write_text("between")
            return result

        setattr(kind, name, noted)

    noting(Embedded, "_decode", "rollout")
    noting(LocalLearner, "forward_backward", "gradient")
    noting(LocalLearner, "optim_step", "update")
    noting(Run, "append", "record")
    noting(Run, "commit_checkpoint", "checkpoint")
    if (Path(folder) / "journal.db").exists():
        gnomon.resume(folder).close()
    else:
        gnomon.train("char_count", run=folder, quiet=True, **SETTINGS).close()


def run(folder: Path, notes: Path, kill_after: float | None = None) -> tuple[int, str]:
    """Run the child, killing it after some seconds of its training; its return code and last phase."""
    notes.write_text("start-up")
    process = subprocess.Popen(
        [sys.executable, __file__, "--child", str(folder), str(notes)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if kill_after is not None:
        while process.poll() is None and notes.read_text() == "start-up":
            time.sleep(0.01)
        time.sleep(kill_after)
        process.send_signal(signal.SIGKILL)
    error = process.communicate()[1].decode()
    if process.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"the child failed on its own:\n{error}")
    return process.returncode, notes.read_text()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return 0
    from gnomon.store import RunReader, verify

    home = Path(tempfile.mkdtemp(prefix="gnomon-kill-"))
    notes, rng = home / "phase", random.Random(options.seed)
    began = time.monotonic()
    run(home / "untouched", notes)
    with RunReader(home / "untouched") as reader:
        wanted = reader.fingerprint
        length = sum(float(row["seconds"]) for row in reader.timings())
    print(
        f"untouched: {time.monotonic() - began:.0f} s, {length:.1f} s of steps, fingerprint {wanted[:16]}", flush=True
    )
    same, phases = 0, Counter[str]()
    for trial in range(options.trials):
        folder, struck = home / f"trial-{trial}", []
        while True:
            moment = rng.uniform(0, 1.05 * length) if not struck else None
            code, phase = run(folder, notes, moment)
            if code == 0:
                break
            struck.append(f"{phase} at {moment:.2f} s")
            phases[phase] += 1
        with RunReader(folder) as reader:
            found = reader.fingerprint
        good = found == wanted and bool(verify(folder))
        same += good
        where = ", ".join(struck) or "no phase (it was done)"
        print(f"trial {trial + 1:>2}: killed in {where}: {'same' if good else f'DIFFERENT {folder}'}", flush=True)
        if good:
            shutil.rmtree(folder)
    print(f"{same} of {options.trials} equal; kills by phase: {dict(phases)}")
    return 0 if same == options.trials else 1


if __name__ == "__main__":
    sys.exit(main())
