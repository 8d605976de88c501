"""A tiny run in a process of its own, for the tests that kill it: `driver.py FOLDER [STEPS] [flaky|drifting]`.

Each step draws its numbers from the state left by the step before, so a resume from the wrong place
cannot repeat the records that are already there. A `flaky` run has a judge that is not deterministic; a `drifting`
one a policy that is not, and is known to be none; both fail in some steps and keep the rollouts of those.
"""

import json
import os
import sys
from hashlib import sha256
from pathlib import Path

from gnomon.store import Record, Run, Source


def write(path: Path, state: int) -> None:
    (path / "shards").mkdir()
    (path / "shards" / "weights.bin").write_bytes(sha256(str(state).encode()).digest() * 64)


def read(path: Path) -> bytes:
    return (path / "shards" / "weights.bin").read_bytes()


def advance(run: Run, step: int, state: int, how: str) -> int:
    draws = [(state >> shift) & 7 for shift in range(0, 12, 3)]
    chance = os.urandom(4) if how else bytes(4)
    tokens = [draw + 8 * (how == "drifting") * luck for draw, luck in zip(draws, chance, strict=True)]
    rewards = [token / 7 + (how == "flaky") * luck for token, luck in zip(tokens, chance, strict=True)]
    made = [
        Record(
            kind="rollout",
            step=step,
            task=place // 2,
            sample=place % 2,
            body={"reward": rewards[place], "token_ids": [tokens[place]], "reply": str(tokens[place])},
        )
        for place in range(4)
    ]
    if how and step == 2:
        run.set_aside(made, "the judge broke")
    for task in range(2):
        run.append(made[2 * task : 2 * task + 2])
    state = int.from_bytes(sha256(f"{state}/{rewards}".encode()).digest()[:6], "big")
    run.append([Record(kind="step", step=step, body={"reward": sum(rewards) / 4, "state": state})])
    return state


def main(folder: Path, steps: int, how: str) -> None:
    tolerate = {"": (), "flaky": {Source.JUDGE}, "drifting": set(Source)}[how]
    varies = "its policy drifts" if how == "drifting" else ""
    if (folder / "journal.db").exists():
        run = Run.resume(folder, tolerate)
    else:
        run = Run.create(folder, recipe="steps = 6\n", manifest={}, genesis={"seed": 1}, varies=varies)
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
            state = advance(run, step, state, how)
            run.commit_checkpoint(step + 1, lambda path, state=state: write(path, state), {"state": state})
        run.set_status("finished")
        print(json.dumps({"fingerprint": run.fingerprint, "position": run.position, "start": start}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 6, sys.argv[3] if len(sys.argv) > 3 else "")
