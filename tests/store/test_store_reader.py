"""Reading: a live run, a finished one, a folder that is none; and two runs side by side."""

import json
import shutil
import sqlite3

import pytest

from gnomon.errors import RunError
from gnomon.store import ABSENT, Record, Run, RunReader, RunStatus, diff, verify


def test_everything_that_was_written_is_read(make):
    folder = make()
    with RunReader(folder) as reader:
        assert reader.recipe == "seed = 1\n" and reader.manifest == {"python": "3.11"}
        assert reader.genesis["config"]["optim"] == {"lr": 0.1}
        assert reader.baseline == {"pass@1": 0.25} and reader.held_out == {"pass@1": 0.5}
        assert reader.steps == 3 and reader.length == 18
        assert [body["reward"] for body in reader.metrics()] == [0 / 7, 1 / 7, 2 / 7]
        rollout = reader.rollout(1, 1, 0)
        assert rollout.body["logprobs"][2] == -0.1 * 3 / 3 and rollout.place == "rollout of step 1, task 1, sample 0"
        assert rollout.seq == 9 and rollout.hash == reader.head(10)
        assert [r.seq for r in reader.records(task=1)] == [4, 5, 9, 10, 14, 15]
        assert [r.kind for r in reader.records(step=2)] == ["rollout"] * 4 + ["step"]
        assert len(list(reader.records("rollout", step=0, sample=1))) == 2
        assert [(row.task, row.reward, row.status, row.tokens) for row in reader.rollout_rows(step=1)] == [
            (0, 0.0, "wrong", 50),
            (0, 1.0, "correct", 50),
            (1, 0.0, "wrong", 50),
            (1, 1.0, "correct", 50),
        ]
        assert len(reader.rollout_rows()) == 12 and len(reader.rollout_rows(task=1)) == 6
        assert [t["sample_seconds"] for t in reader.timings()] == [0.5] * 3 and reader.timings()[0]["step"] == 0
        assert [event["step"] for event in reader.events("checkpoint")] == [1, 2, 3]
        with pytest.raises(RunError, match="E409"):
            reader.rollout(7, 0, 0)


def test_a_new_run_has_no_numbers_yet(tmp_path):
    with Run.create(tmp_path / "run", recipe="", manifest={}, genesis={}), RunReader(tmp_path / "run") as reader:
        assert (reader.baseline, reader.held_out, reader.steps, reader.metrics()) == (None, None, 0, [])
        assert reader.status is RunStatus.RUNNING


def test_reading_while_writing(tmp_path):
    folder = tmp_path / "run"
    with Run.create(folder, recipe="", manifest={}, genesis={}) as run, RunReader(folder) as reader:
        half_read = reader.records()
        assert next(half_read).kind == "genesis"
        for step in range(300):
            run.append([Record(kind="step", step=step, body={"x": step})])
            if step % 100 == 0:
                assert reader.steps == step + 1 and reader.fingerprint == run.fingerprint
        assert list(half_read) == []
        assert [record.step for record in reader.records("step")] == list(range(300))
        assert verify(folder).records == 301


def test_a_folder_that_is_no_run(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        for act in (RunReader, Run.resume, verify):
            with pytest.raises(RunError) as caught:
                act(folder)
            assert caught.value.code == "E404" and caught.value.fix and str(folder) in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    for data in (b"", b"not a database at all" * 100):
        (tmp_path / "journal.db").write_bytes(data)
        with pytest.raises(RunError, match="E405"):
            RunReader(tmp_path)


def test_a_run_of_a_newer_format_is_left_alone(make):
    folder = make()
    with sqlite3.connect(folder / "journal.db") as db:
        db.execute("PRAGMA user_version = 2")
    db.close()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "LOCK"}
    for act in (RunReader, Run.resume, verify):
        with pytest.raises(RunError) as caught:
            act(folder)
        assert caught.value.code == "E406" and "nothing was changed" in caught.value.why
    assert {path: path.read_bytes() for path in before} == before


def test_a_copied_run_reads_and_verifies(make, tmp_path):
    folder = make()
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "LOCK").unlink()
    assert verify(tmp_path / "copy").fingerprint == verify(folder).fingerprint
    assert not diff(folder, tmp_path / "copy")


def test_equal_runs_do_not_differ(make):
    found = diff(make("a"), make("b"))
    assert not found and found.parted is None and found.config == {} == found.metrics
    assert "the same run" in str(found)


def test_diff_finds_the_planted_first_difference(make):
    def plant(record):
        if (record.kind, record.step, record.task) == ("rollout", 1, 1):
            text = record.body["text"].replace("12, so 3", "13, so 3", 1)
            return {**record.body, "text": text, "verdict": {**record.body["verdict"], "status": "wrong"}}
        return {**record.body, "loss": -1.25} if (record.kind, record.step) == ("step", 2) else record.body

    found = diff(make("a"), make("b", change=plant))
    assert found and found.config == {}
    parted = found.parted
    assert (parted.seq, parted.record) == (9, "rollout of step 1, task 1, sample 0")
    assert list(parted.values) == ["text", "verdict.status"]
    assert parted.values["verdict.status"] == ('"correct"', '"wrong"')
    a, b = parted.values["text"]
    assert "12, so" in a and "13, so" in b and max(len(a), len(b)) <= 62
    assert found.metrics == {"loss": (-1.5, -1.25)}
    assert "parted   at record 9" in str(found)


def test_diff_of_configs_looks_past_the_first_record(make):
    found = diff(make("a", steps=2), make("b", steps=3, optim={"lr": 0.2, "beta": 0.9}))
    assert found.config == {"config.optim.lr": (0.1, 0.2), "config.optim.beta": (ABSENT, 0.9)}
    assert found.parted.seq == 12 and found.parted.values["kind"] == ('"evaluation"', '"rollout"')
    assert found.metrics["reward"] == (1 / 7, 2 / 7)


def test_diff_says_that_runs_of_two_recipes_have_equal_records(make):
    found = diff(make("a"), make("b", optim={"lr": 0.2}))
    assert found.config and found.parted is None and not found.metrics
    assert str(found).splitlines()[-1] == "records  equal: the runs differ in their settings alone"


def test_diff_says_when_a_run_ends_first(make, tmp_path):
    folder = make("a")
    with RunReader(folder) as reader:
        records, genesis = list(reader.records()), reader.genesis
    with Run.create(tmp_path / "b", recipe="", manifest={}, genesis=genesis) as run:
        run.append(records[1:6])
    parted = diff(folder, tmp_path / "b").parted
    assert parted.seq == 6 and parted.b is None and parted.record.endswith("| the run has ended")


def test_numbers_that_print_alike_still_differ(make):
    found = diff(make("a", flag=1), make("b", flag=True))
    assert json.dumps(found.config) == '{"config.flag": [1, true]}'
