"""A tiny deterministic run in a process of its own, for the tests that kill it: `driver.py FOLDER [STEPS]`.

Each step draws its numbers from the state left by the step before, so a resume from the wrong place
cannot repeat the records that are already there.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path

from gnomon.store import Record, Run


def write(path: Path, state: int) -> None:
    (path / "shards").mkdir()
    (path / "shards" / "weights.bin").write_bytes(sha256(str(state).encode()).digest() * 64)


def read(path: Path) -> bytes:
    return (path / "shards" / "weights.bin").read_bytes()


def advance(run: Run, step: int, state: int) -> int:
    rewards = [((state >> shift) & 7) / 7 for shift in range(0, 12, 3)]
    for task in range(2):
        run.append(
            [
                Record(kind="rollout", step=step, task=task, sample=sample, body={"reward": rewards[2 * task + sample]})
                for sample in range(2)
            ]
        )
    state = int.from_bytes(sha256(f"{state}/{rewards}".encode()).digest()[:6], "big")
    run.append([Record(kind="step", step=step, body={"reward": sum(rewards) / 4, "state": state})])
    return state


def main(folder: Path, steps: int) -> None:
    new = not (folder / "journal.db").exists()
    run = Run.create(folder, recipe="steps = 6\n", manifest={}, genesis={"seed": 1}) if new else Run.resume(folder)
    with run:
        start, state = 0, 1
        found = run.latest_checkpoint()
        if found is not None:
            start, state = found.step, found.state["state"]
            expected = sha256(str(state).encode()).digest() * 64
            assert read(found.path) == expected, "files and state of the checkpoint do not belong together"
            run.rewind(found.seq)
        else:
            run.commit_checkpoint(0, lambda path: write(path, 1), {"state": 1})
        for step in range(start, steps):
            state = advance(run, step, state)
            run.commit_checkpoint(step + 1, lambda path, state=state: write(path, state), {"state": state})
        run.set_status("finished")
        print(json.dumps({"fingerprint": run.fingerprint, "position": run.position, "start": start}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 6)
