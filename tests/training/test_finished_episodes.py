"""Episodes that finished before a run died are not played again, and the resumed run has the bytes of a whole one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.rollout.played import Played
from gnomon.rollout.runner import Episode, LocalRunner
from gnomon.store import Record, RunReader
from gnomon.store.unfinished import Unfinished

SMALL: dict[str, Any] = {
    "steps": 3,
    "prompts": 3,
    "group": 4,
    "eval": {"tasks": 3, "samples": 1, "every": 2},
    "save": {"every": 1},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "one turn, entropies": ("char_count", {"rollout": {"entropy": True}}),
    "several turns, a lag": ("calculator", {"rollout": {"lag": 1, "turns": 2}, "max_tokens": 24}),
    "two players, greedy": ("nim", {"max_tokens": 12, "objective": "remax"}),
    "refilled groups": ("char_count", {"rollout": {"refill": 2}}),
    "an evaluation set": ("char_count", {"eval": SMALL["eval"] | {"sets": {"greedy": {"temperature": 0.0}}}}),
}


class Plays:
    """Counts the episodes that are played, and dies with one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.last, real = 0, 0, LocalRunner.run

        async def run(runner: LocalRunner, episode: Episode) -> Played:
            played = await real(runner, episode)
            self.count += 1
            if self.count == self.last:
                raise RuntimeError("killed")
            return played

        monkeypatch.setattr(LocalRunner, "run", run)


def trained(folder: Path, env: str, settings: dict[str, Any]) -> str:
    with gnomon.train(env, run=folder, quiet=True, threads=1, **{**SMALL, **settings}) as run:
        return run.fingerprint


@pytest.mark.parametrize(("env", "settings"), CASES.values(), ids=CASES)
def test_a_run_that_dies_loses_no_finished_episode(tmp_path, monkeypatch, env, settings):
    plays = Plays(monkeypatch)
    whole = trained(tmp_path / "whole", env, settings)
    all_of_them, plays.count = plays.count, 0
    plays.last = round(0.75 * all_of_them)
    with pytest.raises(RuntimeError, match="killed"):
        trained(tmp_path / "died", env, settings)
    assert list((tmp_path / "died" / "unfinished").iterdir())
    with gnomon.resume(tmp_path / "died") as run:
        assert run.fingerprint == whole and run.complete
        read = sum(event["episodes"] for event in run.events("continued"))
    assert read > 0 and plays.count == all_of_them + 1, "only the episode in which it died was played twice"
    assert not (tmp_path / "died" / "unfinished").exists()


def test_other_code_does_not_read_them(tmp_path, monkeypatch):
    """They might have other verdicts now."""
    plays = Plays(monkeypatch)
    plays.last = 12
    with pytest.raises(RuntimeError, match="killed"):
        trained(tmp_path / "died", "char_count", {})
    monkeypatch.setattr("gnomon.run.manifest.code_hash", lambda: "other")
    with gnomon.resume(tmp_path / "died") as run:
        assert run.complete and not run.events("continued")


def record(task: int) -> Record:
    return Record(kind="rollout", step=3, task=task, sample=0, body={"reply": "ä\n", "reward": 0.1})


def test_what_was_written_in_part_or_changed_is_not_read(tmp_path):
    """Cut at every byte, and with every byte changed, a file gives the episodes before that place and no other one."""
    files = Unfinished(tmp_path)
    files.add(3, "a", [record(0)])
    path = tmp_path / "unfinished" / "000003.jsonl"
    first = path.stat().st_size
    files.add(3, "b", [record(1)])
    whole = path.read_bytes()
    for place in range(len(whole)):
        for data in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            path.write_bytes(data)
            found = {name: Unfinished(tmp_path).get(3, name) for name in "ab"}
            assert found["a"] in ([], [record(0)]) and found["b"] in ([], [record(1)])
            assert found["a"] or place < first
    path.write_bytes(whole)
    again = Unfinished(tmp_path)
    assert again.get(3, "b") == [record(1)] and again.get(3, "b") == [] and again.get(4, "a") == []
    assert again.drop(3) == 1 and again.drop(3) == 0 and not path.exists()


def test_a_reader_does_not_mind(tmp_path, monkeypatch):
    """`show` and `verify` of a run that died see the chain alone."""
    plays = Plays(monkeypatch)
    plays.last = 20
    with pytest.raises(RuntimeError, match="killed"):
        trained(tmp_path / "died", "char_count", {})
    assert gnomon.store.verify(tmp_path / "died")
    with RunReader(tmp_path / "died") as run:
        assert run.steps < 3
