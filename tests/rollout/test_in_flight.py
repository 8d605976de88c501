"""Runs whose weights change while completions are sampled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gnomon
from gnomon.errors import ConfigErrors
from gnomon.store import RunReader, StepRecord

STEPS = 5


def settings(lag: int = 2, **more: object) -> dict[str, object]:
    rollout = {"prompts": 8, "group": 8, "lag": lag, "in_flight": True, **more.pop("rollout", {})}  # type: ignore[dict-item]
    plain = {"steps": STEPS, "eval": {"tasks": 8, "every": 2}, "save": {"every": 2}, "optim": {"lr": 1e-3}}
    return {**plain, "rollout": rollout, "quiet": True, **more}


def within(run: RunReader, lag: int, updates: int = 1, steps: int = STEPS) -> int:
    """Check every rollout's versions. Returns: how many had weights that changed while they were sampled."""
    changed = 0
    for step in range(steps):
        trained_with = updates * step
        for record in run.records("rollout", step=step):
            for turn in record.body.get("turns", [record.body]):
                versions = [turn["version"], *(version for _, version in turn.get("changes", ()))]
                places = [0, *(place for place, _ in turn.get("changes", ()))]
                assert versions == sorted(set(versions)) and places == sorted(set(places)), turn
                assert places[-1] < max(1, turn["tokens"])
                assert updates * max(0, step - lag) <= versions[0] and versions[-1] <= trained_with
                changed += len(versions) > 1
    return changed


@pytest.mark.parametrize(
    ("lag", "env", "more"),
    [
        (1, "char_count", {}),
        (2, "calculator", {"objective": "tis"}),
        (2, "kuhn_poker", {"rollout": {"refill": 2}}),
        (2, "char_count", {"objective": "dapo", "optim": {"lr": 1e-3, "minibatches": 2, "epochs": 2}}),
        (9, "char_count", {"policy": {"lora": {"rank": 2}}}),
        (2, "char_count", {"engine": {"round_weights": "bfloat16"}}),
        (1, "kuhn_poker", {"players": {"opponent": "tiny"}}),
    ],
)
@pytest.mark.long
def test_no_token_is_older_than_the_lag_allows(tmp_path, lag, env, more):
    """Rows × turns × players × updates × adapters × precision; the lag of 9 is longer than the run."""
    with gnomon.train(env, run=tmp_path / "r", **settings(lag, **more)) as run:
        updates = 4 if "minibatches" in more.get("optim", {}) else 1
        within(run, lag, updates)
        ages = [step["metrics"]["staleness_max"] for step in run.metrics()]
        assert ages[0] == 0 and max(ages) <= lag * updates
        assert run.status == "finished" and run.manifest["tier"] == "measured"


def test_weights_change_within_completions(tmp_path):
    """A few replies that run to their limit take longer to sample than to train, so the next weights meet them."""
    few = {"prompts": 2, "group": 4, "temperature": 2.0, "max_tokens": 250}
    with gnomon.train("char_count", run=tmp_path / "r", **settings(1, steps=8, rollout=few)) as run:
        assert within(run, 1, steps=8) > 0
        assert "rollout.in_flight" in run.varies


class Interrupt:
    """An observer that stops the run after a step, once episodes of the next have ended."""

    def __init__(self, folder: Path, after: int) -> None:
        self.next, self.after = folder / f"unfinished/{after + 1:06d}.jsonl", after

    def start(self, manifest: object) -> None: ...

    def step(self, record: StepRecord) -> None:
        if record.step == self.after:
            while not self.next.exists() or self.next.read_bytes().count(b"\n") < 8:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

    def evaluation(self, record: object) -> None: ...

    def finish(self, status: object) -> None: ...


def unfinished(folder: Path) -> int:
    """Episodes that had ended, of all steps that are not recorded."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("unfinished/*.jsonl"))


def test_a_resumed_run_reads_the_episodes_that_had_ended_under_earlier_weights(tmp_path):
    folder = tmp_path / "r"
    with gnomon.train("char_count", run=folder, **settings(2), observers=[Interrupt(folder, 1)]) as run:
        assert not run.complete
    ended = unfinished(folder)
    with gnomon.resume(folder, quiet=True) as run:
        read = {event["step"]: event["episodes"] for event in run.events("continued")}
        assert set(read) <= {2, 3} and sum(read.values()) == ended >= 8
        within(run, 2)


SCRIPT = """
import sys, gnomon
if __name__ == "__main__":
    gnomon.train("char_count", run=sys.argv[1], **SETTINGS).close()
"""


@pytest.mark.long
def test_killed_it_trains_again_on_what_was_recorded(tmp_path):
    """SIGKILL once step 3 is recorded, where the newest checkpoint is that of step 2."""
    script, folder = tmp_path / "go.py", tmp_path / "r"
    script.write_text(SCRIPT.replace("SETTINGS", repr(settings(steps=6, save={"every": 2}))))
    process = subprocess.Popen([sys.executable, str(script), str(folder)])
    while process.poll() is None:
        time.sleep(0.02)
        if (folder / "checkpoints/000002").exists():
            with RunReader(folder) as run:
                if len(run.metrics()) > 3:
                    break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with RunReader(folder) as run:
        reached = len(run.metrics())
        before = [record.body for step in range(reached) for record in run.records("rollout", step=step)]
    assert 3 < reached < 6
    with gnomon.resume(folder, quiet=True) as run:
        after = [record.body for step in range(reached) for record in run.records("rollout", step=step)]
        assert after == before and len(run.metrics()) == 6 and not run.attempts
        assert {event["step"] for event in run.events("read")} >= set(range(2, reached))


@pytest.mark.parametrize(
    "more",
    [
        {"rollout": {"lag": 0}},
        {"players": {"opponent": "past"}},
        {"objective": "fcp", "rollout": {"offline": 0.5}},
    ],
)
def test_what_cannot_change_in_flight_is_refused(tmp_path, more):
    with pytest.raises(ConfigErrors, match="E046"):
        gnomon.train("char_count", run=tmp_path / "r", **settings(1, **more))
