"""A run that is resumed proves that it is the same run, and a folder has one writer."""

import json
import os
import re
import signal
import sqlite3
from pathlib import Path

import pytest

import gnomon.store
from gnomon.errors import RunError
from gnomon.store import Record, Run, RunReader, RunStatus, Source, verify

STORE = Path(gnomon.store.__file__).parent
PLACES = sorted(set(re.findall(r'failpoint\("([a-z:-]+)"\)', "".join(p.read_text() for p in STORE.glob("*.py")))))

ONCE = ("create", "quarantine")
VARYING = [place for place in PLACES if place.startswith(("append", "aside", "checkpoint"))]
"""Places that matter to a run that gives records up."""


def records(folder: Path) -> list[Record]:
    with RunReader(folder) as reader:
        return list(reader.records())


def test_a_run_is_never_created_over_something(make, tmp_path):
    folder = make()
    before = verify(folder)
    with pytest.raises(RunError) as caught:
        Run.create(folder, recipe="", manifest={}, genesis={})
    assert caught.value.code == "E401" and f"gnomon resume {folder}" in caught.value.fix
    assert verify(folder) == before
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "thesis.tex").write_text("\\begin")
    with pytest.raises(RunError, match="E401"):
        Run.create(other, recipe="", manifest={}, genesis={})
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]


def test_replay_of_equal_records_stores_nothing_and_then_goes_on(make):
    folder = make()
    old = records(folder)
    with Run.resume(folder) as run:
        assert run.position == 1 and run.replaying
        run.rewind(0)
        run.append(old[:1])
        run.rewind(7)
        assert run.fingerprint == old[6].hash
        run.append(old[7:9])
        more = Record(kind="step", step=9, body={"loss": 2.0})
        run.append([*old[9:], more])
        assert not run.replaying and run.position == len(old) + 1
    assert [r.hash for r in records(folder)][:-1] == [r.hash for r in old]
    assert records(folder)[-1].body == more.body and verify(folder)


def test_replay_of_a_different_record_is_refused_and_overwrites_nothing(make):
    folder = make()
    old = records(folder)
    with Run.resume(folder) as run:
        run.rewind(2)
        logprobs = list(old[4].body["logprobs"])
        logprobs[31] += 1e-16 * 8
        bent = Record(kind="rollout", step=0, task=1, sample=0, body={**old[4].body, "logprobs": logprobs})
        with pytest.raises(RunError) as caught:
            run.append([old[2], old[3], bent])
        text = str(caught.value)
        assert caught.value.code == "E403" and "record 4 (rollout of step 0, task 1, sample 0)" in text
        assert "'logprobs'" in text and repr(logprobs[31])[:12] in text and caught.value.fix
        assert run.position == 2
        with pytest.raises(RunError, match="'kind' was"):
            run.append([Record(kind="step", step=0, body={})])
    assert [r.hash for r in records(folder)] == [r.hash for r in old] and verify(folder)


def test_rewind_past_the_end_is_refused(make):
    with Run.resume(make()) as run:
        for seq in (-1, 19):
            with pytest.raises(RunError, match="E408"):
                run.rewind(seq)
        run.rewind(18)
        assert not run.replaying


def test_another_process_keeps_the_lock_and_is_named(make, python):
    folder = make()
    hold = "import sys; from gnomon.store import Run; run = Run.resume(sys.argv[1]); print('held', flush=True); input()"
    process = python("-c", hold, folder)
    try:
        assert process.stdout.readline() == "held\n"
        with RunReader(folder) as reader:
            assert reader.status is RunStatus.RUNNING
            for enter in (Run.resume, lambda f: Run.create(f, recipe="", manifest={}, genesis={})):
                with pytest.raises(RunError) as caught:
                    enter(folder)
                assert caught.value.code == "E402" and f"process {process.pid}" in caught.value.what
                assert f"kill {process.pid}" in caught.value.fix
            process.kill()
            process.wait()
            assert reader.status is RunStatus.INTERRUPTED
    finally:
        process.kill()
        process.communicate()
    Run.resume(folder).close()


def test_a_forked_child_does_not_keep_the_lock_of_its_dead_parent(make, python):
    folder = make()
    fork = """
import os, signal, sys, time
from gnomon.store import Run
run = Run.resume(sys.argv[1])
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    process = python("-c", fork, folder)
    child = int(process.stdout.readline())
    try:
        assert process.wait(timeout=20) == -signal.SIGKILL
        os.kill(child, 0)
        Run.resume(folder).close()
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


def test_what_became_of_a_run(make, tmp_path):
    with RunReader(make()) as reader:
        assert reader.status is RunStatus.FINISHED
    with pytest.raises(ZeroDivisionError), Run.create(tmp_path / "b", recipe="", manifest={}, genesis={}) as run:
        run.note("about", {"to": "fail"})
        raise ZeroDivisionError("by zero")
    with RunReader(tmp_path / "b") as reader:
        assert (reader.status, reader.reason) == (RunStatus.FAILED, "ZeroDivisionError: by zero")
        assert [event["kind"] for event in reader.events()] == ["about", "status"]
    with pytest.raises(KeyboardInterrupt), Run.resume(tmp_path / "b"):
        raise KeyboardInterrupt
    with RunReader(tmp_path / "b") as reader:
        assert reader.status is RunStatus.INTERRUPTED
    with Run.resume(tmp_path / "b") as run:
        run.set_status(RunStatus.INTERRUPTED, "Ctrl-C")
        with pytest.raises(ValueError):
            run.set_status("great")
    with RunReader(tmp_path / "b") as reader:
        assert reader.reason == "Ctrl-C"


@pytest.fixture(scope="module")
def undisturbed(drive, tmp_path_factory) -> list[str]:
    """Hashes of the run that nobody kills."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    assert drive(folder, 4)[0] == 0
    return [record.hash for record in records(folder)]


@pytest.mark.parametrize(
    ("place", "passes"),
    [
        (place, passes)
        for place in PLACES
        for passes in (1, 2)
        if not place.startswith(("aside", "extend")) and (passes == 1 or not place.startswith(ONCE))
    ],
)
def test_killed_at_every_place_and_resumed_it_is_the_same_run(drive, tmp_path, undisturbed, place, passes):
    folder = tmp_path / "run"
    if place.startswith("quarantine"):
        assert drive(folder, 3)[0] == 0
        (folder / "checkpoints" / "000003" / "state.json").write_text('{"state":7}')
    code, _, err = drive(folder, 4, GNOMON_FAILPOINT=f"{place}:{passes}")
    assert code == -signal.SIGKILL, err
    if (folder / "journal.db").exists():
        with RunReader(folder) as reader:
            assert reader.status is RunStatus.INTERRUPTED
            assert [r.hash for r in reader.records()] == undisturbed[: reader.length]
            # Each step appends two rollouts, two rollouts and a step record: only whole appends are there.
            assert (reader.length - 1) % 5 in (0, 2, 4)
    code, out, err = drive(folder, 4)
    assert code == 0, err
    assert json.loads(out)["fingerprint"] == undisturbed[-1]
    report = verify(folder)
    assert report and report.records == len(undisturbed) and report.checkpoints[0] == 4 and 0 in report.checkpoints
    left = {path.name for path in (folder / "checkpoints").iterdir()}
    assert left == {f"{step:06d}" for step in report.checkpoints}
    with RunReader(folder) as reader:
        assert reader.status is RunStatus.FINISHED


def test_the_places_are_known():
    """A failpoint that is renamed or dropped should be noticed: a kill there is no longer tested."""
    assert len(PLACES) == 18, PLACES


def test_a_damaged_end_of_the_chain_stops_a_resume(make):
    folder = make()
    with sqlite3.connect(folder / "journal.db") as db:
        db.execute("UPDATE records SET hash = zeroblob(32) WHERE seq = 16")
    db.close()
    with pytest.raises(RunError) as caught:
        Run.resume(folder)
    assert caught.value.code == "E405" and "record 16" in caught.value.why
    assert f"gnomon verify {folder}" in caught.value.fix


@pytest.mark.parametrize("how", ["flaky", "drifting"])
@pytest.mark.parametrize("place", VARYING)
def test_a_run_that_varies_is_killed_three_times_and_ends(drive, tmp_path, how, place):
    """At the first, the second and the third pass of a place; each resume goes on from the last checkpoint."""
    folder, seen = tmp_path / "run", 0
    for passes in (3, 1, 2):
        code, _, err = drive(folder, 4, how, GNOMON_FAILPOINT=f"{place}:{passes}")
        assert code in (0, -signal.SIGKILL), err
        if not (folder / "journal.db").exists():
            continue
        report = verify(folder)
        assert report, report
        assert report.attempts >= seen
        seen = report.attempts
    code, _, err = drive(folder, 4, how)
    assert code == 0, err
    report = verify(folder)
    assert report and report.records == 1 + 4 * 5 and report.checkpoints[0] == 4
    with RunReader(folder) as reader:
        assert reader.status is RunStatus.FINISHED and reader.complete
        assert [record.step for record in reader.records("step")] == [0, 1, 2, 3]
        for attempt in reader.attempts:
            given_up = list(reader.records(attempt=attempt.number))
            assert len(given_up) == attempt.records and given_up[0].seq == attempt.seq
            assert {r.task for r in given_up if r.kind == "rollout"} <= {0, 1}
        assert bool(reader.varies) == (how == "drifting" or any(not attempt.failed for attempt in reader.attempts))


def test_an_exact_run_refuses_what_only_the_judge_said_otherwise(drive, tmp_path):
    folder = tmp_path / "run"
    drive(folder, 4, "flaky", GNOMON_FAILPOINT="append:after-commit:5")
    before = records(folder)
    code, _, err = drive(folder, 4)
    assert code == 1 and "E403" in err and "another verdict on the same reply" in err
    assert "--accept-divergence" in err and "'reward' was" in err
    assert records(folder) == before and verify(folder).attempts == 0


def test_what_is_tolerated_depends_on_the_source(make, tmp_path):
    """Each kind of difference is given up where it is named, and refused where any other is."""
    for kind, change in (
        (Source.JUDGE, {"reward": 9.0}),
        (Source.POLICY, {"token_ids": [1]}),
        (Source.POLICY, {"token_ids": [1], "reward": 9.0}),
        (Source.ENVIRONMENT, {"turns": [{"messages": ["other"], "reply": "a"}]}),
        (Source.POLICY, {"turns": [{"messages": [], "reply": "other"}]}),
        (Source.LEARNER, {"advantage": 2.0}),
    ):
        folder = make(f"run-{kind}-{len(str(change))}", steps=1)
        first = records(folder)[2]
        body = {**first.body, "turns": [{"messages": [], "reply": "a"}], "advantage": 1.0}
        old, new = (Record(kind="rollout", step=1, task=0, sample=0, body={**body, **more}) for more in ({}, change))
        with Run.resume(folder) as run:
            run.rewind(len(records(folder)))
            run.append([old])
        for tolerate in (set(), set(Source) - {kind}, {kind}):
            with Run.resume(folder, tolerate) as run:
                run.rewind(len(records(folder)) - 1)
                if kind in tolerate:
                    attempt = run.append([new])
                    assert attempt is not None and (attempt.number, attempt.records) == (1, 1) and attempt.why
                    assert run.varies == attempt.why
                else:
                    with pytest.raises(RunError, match="E403"):
                        run.append([new])
        with RunReader(folder) as reader:
            assert [r.body for r in reader.records(attempt=1)] == [old.body]
            assert list(reader.records())[-1].body == new.body


def test_the_first_record_is_never_given_up(make):
    with Run.resume(make(), set(Source)) as run:
        run.rewind(0)
        with pytest.raises(RunError) as caught:
            run.append([Record(kind="genesis", body={"seed": 2})])
    assert caught.value.code == "E403" and "--accept" not in caught.value.fix


def test_an_attempt_that_is_changed_or_cut_is_found(drive, tmp_path):
    folder = tmp_path / "run"
    for place in ("append:after-commit:7", "append:after-commit:3"):
        drive(folder, 4, "flaky", GNOMON_FAILPOINT=place)
    drive(folder, 4, "flaky")
    assert verify(folder).attempts >= 2
    good = (folder / "journal.db").read_bytes()
    for change, what in (
        ("UPDATE given_up SET body = x'7b7d', packed = 0 WHERE attempt = 1", "attempt 1"),
        ("UPDATE given_up SET reward = 5, task = 7 WHERE attempt = 2", "attempt 2"),
        ("DELETE FROM given_up WHERE attempt = 1", "attempt 1"),
        ("DELETE FROM given_up WHERE seq = (SELECT max(seq) FROM given_up)", "attempt"),
        ("UPDATE attempts SET previous = zeroblob(32) WHERE attempt = 1", "attempt 1"),
        ("DELETE FROM attempts WHERE attempt = 1", "attempt 1"),
        ("DELETE FROM attempts WHERE attempt = (SELECT max(attempt) FROM attempts)", "the list of attempts"),
    ):
        with sqlite3.connect(folder / "journal.db") as db:
            db.execute(change)
        db.close()
        report = verify(folder)
        assert not report and what in str(report), change
        (folder / "journal.db").write_bytes(good)
        assert verify(folder)


def test_a_step_that_fails_twice_alike_is_kept_once(make):
    folder = make()
    made = [Record(kind="rollout", step=9, task=0, sample=0, body={"reward": 0.0, "status": "failed"})]
    for _ in range(2):
        with Run.resume(folder) as run:
            run.rewind(18)
            run.set_aside(made, "it broke")
            run.set_status("failed")
    with RunReader(folder) as reader:
        (attempt,) = reader.attempts
        assert (attempt.failed, attempt.step, attempt.seq, attempt.why) == (True, 9, 18, "it broke")
        assert reader.length == 18 and [row.status for row in reader.rollout_rows(attempt=1)] == ["failed"]
        assert reader.rollout_rows(step=9) == [] == reader.rollout_rows(attempt=2)
    assert verify(folder)


@pytest.mark.parametrize("failed", [True, False])
def test_a_run_whose_first_step_failed_keeps_its_rollouts(tmp_path, failed):
    folder = tmp_path / "r"
    run = Run.create(folder, recipe="", manifest={}, genesis={})
    with run:
        if failed:
            run.set_aside([Record(kind="held_out", step=0, task=0, sample=0, body={"reward": 0.0})], "it broke")
    (folder / "journal.db notes").write_text("mine")
    assert run.discard_unused() != failed
    assert (folder / "journal.db notes").is_file()
    assert (folder / "journal.db").is_file() == failed
    if failed:
        with RunReader(folder) as reader:
            assert [attempt.why for attempt in reader.attempts] == ["it broke"]


def test_alarms_of_a_step_that_was_given_up_are_not_read(make):
    with Run.resume(make(), set(Source)) as run:
        for step in (0, 1, 2):
            run.note("alarm", {"name": "a", "step": step})
        run.rewind(8)
        run.append([Record(kind="rollout", step=1, task=0, sample=1, body={"reward": 5.0})])
        run.note("alarm", {"name": "b", "step": 1})
        with RunReader(run.folder) as reader:
            assert [(alarm["name"], alarm["step"]) for alarm in reader.alarms()] == [("a", 0), ("b", 1)]


def test_a_run_without_attempts_has_no_table_for_them(make):
    """Run folders are as they were before there were attempts, so that any gnomon reads them."""
    with sqlite3.connect(make() / "journal.db") as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    db.close()
    assert tables == {"meta", "records", "events", "timings"}


@pytest.mark.parametrize("finished", [True, False])
def test_a_lost_end_is_found(make, finished):
    """Of a finished run, records or checkpoints that are gone; of any run, its last checkpoint."""
    import shutil

    def sql(*commands: str) -> None:
        with sqlite3.connect(folder / "journal.db") as db:
            for command in commands:
                db.execute(command)
        db.close()

    ends = (
        "the last record",
        "records of the last checkpoint",
        "all checkpoints",
        "the last",
        "the first",
        "the end",
    )
    for what in ends:
        folder = make(what)
        if not finished:
            sql("UPDATE meta SET value = 'interrupted' WHERE name = 'status'")
        assert verify(folder)
        kept = sorted((folder / "checkpoints").iterdir())
        match what:
            case "the last record":
                sql("DELETE FROM records WHERE seq = 17")
                found = finished
            case "records of the last checkpoint":
                sql("DELETE FROM records WHERE seq >= 15")
                found = True
            case "all checkpoints":
                shutil.rmtree(folder / "checkpoints")
                found = True
            case "the last":
                shutil.rmtree(kept[-1])
                found = True
            case "the first":
                shutil.rmtree(kept[0])
                found = finished
            case "the end":
                sql("DELETE FROM meta WHERE name = 'end'")
                found = finished
        assert bool(verify(folder)) is not found, what
        if found:
            assert "E405" in str(verify(folder))
            with RunReader(folder) as reader:
                assert ("repeat the run" in str(verify(folder))) is reader.complete


def test_a_finished_run_without_its_end_can_be_resumed(make):
    folder = make()
    with RunReader(folder) as reader:
        assert reader.complete
    with sqlite3.connect(folder / "journal.db") as db:
        db.execute("DELETE FROM records WHERE seq = 17")
    db.close()
    with RunReader(folder) as reader:
        assert reader.status is RunStatus.FINISHED and not reader.complete
