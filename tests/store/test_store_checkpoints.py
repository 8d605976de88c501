"""Checkpoints: whole or absent, verified byte for byte, and the last good one always there."""

import json
from pathlib import Path

import pytest

from gnomon.errors import RunError
from gnomon.store import Record, Run, RunReader, verify


def flip(path: Path) -> None:
    data = bytearray((path / "model.safetensors").read_bytes())
    data[1234] ^= 4
    (path / "model.safetensors").write_bytes(data)


def truncate(path: Path) -> None:
    (path / "optim" / "moments.safetensors").write_bytes(b"\x01" * 999)


def bend(name: str, change) -> object:
    def apply(path: Path) -> None:
        body = json.loads((path / "MANIFEST.json").read_text())
        body[name] = change(body[name])
        (path / "MANIFEST.json").write_text(json.dumps(body))

    return apply


DAMAGE = {
    "a flipped bit": (flip, "model.safetensors has changed"),
    "a truncated file": (truncate, "999 bytes instead of 1000"),
    "a missing file": (lambda path: (path / "model.safetensors").unlink(), "model.safetensors is missing"),
    "an extra file": (lambda path: (path / "optim" / "more").write_text(""), "optim/more is not in its manifest"),
    "changed state": (lambda path: (path / "state.json").write_text('{"step":3,"best":0.5}'), "state.json has"),
    "no manifest": (lambda path: (path / "MANIFEST.json").unlink(), "MANIFEST.json is missing"),
    "half a manifest": (lambda path: (path / "MANIFEST.json").write_text('{"format": 1, "run'), "cannot be read"),
    "a manifest of another kind": (lambda path: (path / "MANIFEST.json").write_text("[]"), "cannot be read"),
    "a changed manifest": (bend("seq", lambda seq: seq - 1), "does not match its own hash"),
    "another step's folder": (lambda path: path.rename(path.with_name("000009")), "taken at step 3"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_newest_checkpoint_falls_back_and_says_so(make, name):
    folder = make()
    newest = folder / "checkpoints" / "000003"
    damage, words = DAMAGE[name]
    damage(newest)
    report = verify(folder)
    assert report.checkpoints == (2,) and words in report.problems[0].why and report.problems[0].code == "E405"
    with Run.resume(folder) as run:
        found = run.latest_checkpoint()
        assert found.step == 2 and found.path.name == "000002" and found.state == {"step": 2, "best": 1 / 3}
        assert len(found.skipped) == 1 and words in found.skipped[0]
        run.rewind(found.seq)
        assert run.fingerprint == found.fingerprint
    assert not newest.exists() and len(list((folder / "quarantine").iterdir())) == 1
    with RunReader(folder) as reader:
        assert words in reader.events("quarantine")[0]["why"]
    assert verify(folder).checkpoints == (2,)


def test_none_good_is_none_and_every_one_is_reported(make):
    folder = make()
    for path in (folder / "checkpoints").iterdir():
        flip(path)
    with Run.resume(folder) as run:
        assert run.latest_checkpoint() is None
        assert [sentence.split(" is ")[0] for sentence in run.skipped] == [
            "The checkpoint of step 3",
            "The checkpoint of step 2",
        ]


def test_a_checkpoint_of_another_run_or_of_other_records_is_not_taken(make):
    folder, other = make("run"), make("other", seed=2)
    theirs = folder / "checkpoints" / "000009"
    (other / "checkpoints" / "000003").rename(theirs)
    assert "belongs to run" in verify(folder).problems[0].why
    with Run.resume(folder) as run:
        assert run.latest_checkpoint().step == 3 and len(run.skipped) == 1


def test_a_checkpoint_that_the_journal_does_not_reach_is_not_taken(make, weights):
    """As when an older copy of the journal is put back."""
    folder = make()
    old = (folder / "journal.db").read_bytes()
    with Run.resume(folder) as run:
        run.rewind(18)
        run.append([Record(kind="step", step=3, body={})])
        run.commit_checkpoint(4, weights, {})
    (folder / "journal.db").write_bytes(old)
    with Run.resume(folder) as run:
        assert run.latest_checkpoint().step == 3
        assert "the run's records before 19 have changed since it was written" in run.skipped[0]


def test_retention_keeps_the_last_ones_and_step_0(tmp_path, weights):
    with Run.create(tmp_path / "run", recipe="", manifest={}, genesis={}) as run:
        for step in range(6):
            run.append([Record(kind="step", step=step, body={})])
            run.commit_checkpoint(step, weights, {}, keep=3)
        names = {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()}
        assert names == {"000000", "000003", "000004", "000005"}
        run.commit_checkpoint(6, weights, {}, keep=1)
        assert {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()} == {"000000", "000006"}
    assert verify(tmp_path / "run").checkpoints == (6, 0)


def test_a_write_that_fails_leaves_nothing_behind(make, weights):
    folder = make()

    def fail(path: Path) -> None:
        weights(path)
        raise RuntimeError("the learner broke")

    def take_a_name_of_ours(path: Path) -> None:
        (path / "state.json").write_text("{}")

    def link(path: Path) -> None:
        (path / "weights").symlink_to("/dev/zero")

    before = verify(folder)
    with Run.resume(folder) as run:
        run.rewind(18)
        for write, state, kind in [
            (fail, {}, RuntimeError),
            (take_a_name_of_ours, {}, ValueError),
            (link, {}, ValueError),
            (weights, {"ema": float("nan")}, RunError),
        ]:
            with pytest.raises(kind):
                run.commit_checkpoint(4, write, state)
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"000002", "000003"}
    assert verify(folder) == before


def test_a_step_done_again_finds_its_checkpoint_and_keeps_it(make, weights):
    folder = make()
    with RunReader(folder) as reader:
        old = list(reader.records())
    path = folder / "checkpoints" / "000003"
    identity = path.stat().st_ino
    with Run.resume(folder) as run:
        run.rewind(2)
        run.append(old[2:17])
        assert run.commit_checkpoint(3, weights, {"step": 3, "best": 1 / 3}) == path
        assert path.stat().st_ino == identity
        with pytest.raises(RunError, match=r"E403[\s\S]*state.json"):
            run.commit_checkpoint(3, weights, {"step": 3, "best": 0.5})
        flip(path)
        run.commit_checkpoint(3, weights, {"step": 3, "best": 1 / 3})
        assert path.stat().st_ino != identity
    assert verify(folder).checkpoints == (3, 2)


def test_leftovers_are_cleaned_on_resume(make, weights):
    folder = make()
    for name in (".tmp-000004-dead", ".trash-000001-dead"):
        weights_folder = folder / "checkpoints" / name
        weights_folder.mkdir()
        weights(weights_folder)
    assert verify(folder).checkpoints == (3, 2)
    Run.resume(folder).close()
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"000002", "000003"}
