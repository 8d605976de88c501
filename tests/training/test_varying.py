"""Runs that are not exact: they go on from their checkpoint, and what they do not repeat is kept."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from pathlib import Path
from shutil import rmtree

import pytest
import torch

import gnomon
from commands import command
from gnomon.api import configure
from gnomon.engines.base import Tier
from gnomon.errors import RunError
from gnomon.learners.local import LocalLearner
from gnomon.run import parts as run_parts
from gnomon.run.exactness import reasons
from gnomon.run.find import make_env
from gnomon.store import RunReader, diff, verify

ENVS = '''
import os
from dataclasses import dataclass

from gnomon.envs import SingleTurn, identity
from gnomon.types import Message, Task


@dataclass(frozen=True, kw_only=True)
class Steady(SingleTurn):
    format: float = 0.0

    def make(self, rng):
        n = rng.randint(0, 10**6)
        ask = f"Say {n % 10}. End with <answer>...</answer>"
        return Task(id=identity("f", n), messages=(Message(role="user", content=ask),), answer=n % 10)

    def check(self, task, answer):
        return answer.strip() == str(task.answer)

    def solution(self, task):
        return str(task.answer)


class Flaky(Steady):
    """A judge that is a service."""

    def check(self, task, answer):
        return int.from_bytes(os.urandom(1), "little") / 255


class Declared(Flaky):
    reproducible = False


class Later(Steady):
    """A judge whose grade depends on the process: asked twice in one, it says the same."""

    def check(self, task, answer):
        return (len(answer) * os.getpid() % 97) / 97


class Breaks(Steady):
    """A judge with a bug that none of the tasks shows that are tried before a run."""

    stream = "Breaks"

    def check(self, task, answer):
        if not os.path.exists(os.environ.get("MENDED", "/nowhere")) and len(answer) % 2 and task.answer > 4:
            raise RuntimeError("odd lengths")
        return len(answer) % 2 == 0
'''
SMALL = ["threads=1", "steps=3", "prompts=4", "group=4", "max_tokens=16", "eval.every=100", "eval.tasks=2"]
ACKNOWLEDGE = 'audit.acknowledge=["correctness","exploit","sentinels","failure","availability","search"]'


@pytest.fixture(scope="module")
def envs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("varying") / "varying.py"
    file.write_text(ENVS)
    return file


def trained(env: str, folder: Path, *more: str, place: str = "") -> int:
    """The exit code of a run that is killed at a failpoint, if one is named."""
    chance = {"GNOMON_FAILPOINT": place} if place else {}
    return command("train", env, f"run={folder}", *SMALL, ACKNOWLEDGE, *more, env=chance).returncode


@pytest.mark.parametrize(("name", "save"), [("Flaky", 1), ("Declared", 100), ("Later", 2)])
@pytest.mark.long
def test_a_run_whose_judge_varies_is_killed_and_resumed_to_its_end(envs, tmp_path, name, save):
    """Killed before the first step is stored, in the middle and before the end; resumed after every kill.

    The finished episodes of the last step are lost with every kill, so they are played and judged again.
    """
    folder = tmp_path / "run"
    assert trained(f"{envs}:{name}", folder, f"save.every={save}", place="append:after-commit:3") == -signal.SIGKILL
    for place in ("append:before-commit:1", "append:after-commit:2", "append:after-commit:1"):
        rmtree(folder / "unfinished", ignore_errors=True)
        done = command("resume", str(folder), env={"GNOMON_FAILPOINT": place})
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert verify(folder), verify(folder)
    done = command("resume", str(folder))
    assert done.returncode == 0, done.stderr
    with RunReader(folder) as reader:
        assert reader.status == "finished" and reader.steps == 3
        assert reader.varies and reader.attempts and all(not attempt.failed for attempt in reader.attempts)
        assert "another verdict on the same reply" in reader.attempts[0].why
    assert verify(folder)
    text = command("show", str(folder)).stdout
    assert "not exact" in text and "attempt 1" in text and "read: gnomon show" in text
    facts = json.loads(command("show", str(folder), "--json").stdout)
    lines = json.loads(command("show", str(folder), facts["attempts"][0]["read"], "--json").stdout)
    one = command("show", str(folder), lines[0]["address"])
    assert one.returncode == 0 and "--- verdict" in one.stdout, one.stderr
    assert not diff(folder, folder)
    replayed = command("replay", str(folder), "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert json.loads(replayed.stdout)["judged"] == 3 * 16 + 2 * 2


def test_an_exact_run_stays_exact(envs, tmp_path):
    assert trained(f"{envs}:Steady", tmp_path / "whole") == 0
    assert trained(f"{envs}:Steady", tmp_path / "run", place="append:after-commit:3") == -signal.SIGKILL
    assert command("resume", str(tmp_path / "run")).returncode == 0
    with RunReader(tmp_path / "run") as run, RunReader(tmp_path / "whole") as whole:
        assert run.fingerprint == whole.fingerprint
        assert run.varies == "" and run.attempts == []


def test_an_exact_run_whose_code_changed_is_refused_until_the_user_accepts(envs, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(envs.read_text())
    folder = tmp_path / "run"
    assert trained(f"{file}:Steady", folder, place="append:after-commit:3") == -signal.SIGKILL
    file.write_text(envs.read_text().replace("answer.strip() == str(task.answer)", "len(answer) % 2 == 0"))
    before = verify(folder)
    refused = command("resume", str(folder))
    assert refused.returncode == 1 and "E403" in refused.stderr
    assert "another verdict on the same reply" in refused.stderr and "--accept-divergence" in refused.stderr
    assert verify(folder).fingerprint == before.fingerprint
    assert command("resume", str(folder), "--accept-divergence").returncode == 0
    with RunReader(folder) as reader:
        assert reader.status == "finished" and len(reader.attempts) == 1 and reader.varies


@pytest.mark.parametrize("tier", [Tier.MEASURED, Tier.EXACT])
def test_the_tier_decides_whether_other_weights_may_follow(tmp_path, tier, monkeypatch):
    """A learner whose updates differ by rounding, as on another machine, between the kill and the resume."""
    build = run_parts.build

    def built(*given, **named):
        parts = build(*given, **named)
        parts.actor.engine.tier = tier
        return parts

    monkeypatch.setattr(run_parts, "build", built)
    monkeypatch.setattr("gnomon.run.exactness.CODE", ())
    small = {"threads": 1, "steps": 4, "prompts": 4, "group": 4, "max_tokens": 16, "eval": {"tasks": 2, "every": 100}}
    whole = tmp_path / "whole"
    gnomon.train("char_count", run=whole, quiet=True, save={"every": 2}, **small).close()
    shutil.rmtree(whole / "checkpoints" / "000004")
    with sqlite3.connect(whole / "journal.db") as db:
        db.execute("UPDATE meta SET value = 'interrupted' WHERE name = 'status'")
        db.execute("DELETE FROM meta WHERE name = 'end'")
    db.close()
    step = LocalLearner.optim_step

    def nudged(self, lr):
        stats = step(self, lr)
        with torch.no_grad():
            next(iter(self.policy.model.parameters())).mul_(1 + 1e-4)
        return stats

    monkeypatch.setattr(LocalLearner, "optim_step", nudged)
    if tier is Tier.EXACT:
        with pytest.raises(RunError) as caught:
            gnomon.resume(whole)
        assert caught.value.code == "E403" and "--accept-divergence" in caught.value.fix
        gnomon.resume(whole, accept_divergence=True).close()
    else:
        gnomon.resume(whole).close()
    with RunReader(whole) as reader:
        assert reader.status == "finished" and len(reader.attempts) == 1 and reader.steps == 4
    assert verify(whole)


def test_the_clock_makes_a_run_that_varies():
    config, _ = configure("char_count", {"rollout": {"seconds": 60.0}, "threads": 1})
    env = make_env(config.env)
    assert ["clock" in why for why in reasons(config, env, Tier.EXACT)] == [True]
    assert len(list(reasons(config, env, Tier.MEASURED))) == 2


@pytest.mark.parametrize("objective", ["rloo", "refill"])
@pytest.mark.long
def test_the_rollouts_of_a_failed_step_are_kept_and_the_run_goes_on_when_mended(envs, tmp_path, objective):
    folder, mended = tmp_path / "run", tmp_path / "mended"
    more = ["rollout.refill=2"] if objective == "refill" else []
    words = ["train", f"{envs}:Breaks", f"run={folder}", *SMALL, "prompts=8", ACKNOWLEDGE, *more]
    failed = command(*words, env={"MENDED": str(mended)})
    assert failed.returncode == 1 and ("E104" in failed.stderr or "E106" in failed.stderr), failed.stderr
    with RunReader(folder) as reader:
        assert reader.status == "failed"
        (attempt,) = reader.attempts
        step, rows = attempt.step, reader.rollout_rows(attempt=attempt.number)
        kind = "rollout" if rows else "held_out"
        rows = reader.rollout_rows(kind=kind, attempt=attempt.number)
        assert attempt.failed and "failed" in {row.status for row in rows}
        assert reader.rollout_rows(kind=kind, step=step) == []
    assert verify(folder)
    place = f"held-out:{step}" if kind == "held_out" else str(step)
    assert f"gnomon show {folder} {place}" in failed.stdout
    shown = command("show", str(folder), place)
    assert shown.returncode == 0 and " failed " in shown.stdout, shown.stderr
    address = next(line.split()[1] for line in shown.stdout.splitlines() if " failed " in line)
    assert "odd lengths" in command("show", str(folder), address).stdout
    again = command("resume", str(folder), env={"MENDED": str(mended)})
    assert again.returncode == 1 and len(RunReader(folder).attempts) == 1
    mended.write_text("")
    os.environ["MENDED"] = str(mended)
    try:
        whole = command("train", f"{envs}:Breaks", f"run={tmp_path / 'whole'}", *words[3:])
        assert whole.returncode == 0, whole.stderr
        resumed = command("resume", str(folder))
    finally:
        del os.environ["MENDED"]
    assert resumed.returncode == 0, resumed.stderr
    assert verify(folder)
    with RunReader(folder) as run, RunReader(tmp_path / "whole") as other:
        # What was recorded before the failure stands as it was, so the run is that of a judge that was never broken
        # only where nothing had failed before.
        before = [row.status for row in run.rollout_rows()]
        assert ("failed" in before) or run.fingerprint == other.fingerprint


def test_a_failure_after_the_rollouts_keeps_them_with_their_advantages(tmp_path, monkeypatch):
    def broken(self, *args):
        raise RuntimeError("the gradient is gone")

    monkeypatch.setattr(LocalLearner, "forward_backward", broken)
    small = {"threads": 1, "steps": 2, "prompts": 2, "group": 4, "max_tokens": 8, "eval": {"tasks": 2}}
    with pytest.raises(RuntimeError, match="gradient"):
        gnomon.train("char_count", run=tmp_path / "run", quiet=True, **small)
    with RunReader(tmp_path / "run") as reader:
        (attempt,) = reader.attempts
        kept = list(reader.records("rollout", attempt=1))
        assert len(kept) == 8 and all("advantage" in record.body for record in kept)
        assert "gradient" in attempt.why and reader.steps == 0
    monkeypatch.undo()
    gnomon.resume(tmp_path / "run").close()
    gnomon.train("char_count", run=tmp_path / "whole", quiet=True, **small).close()
    assert RunReader(tmp_path / "run").fingerprint == RunReader(tmp_path / "whole").fingerprint
