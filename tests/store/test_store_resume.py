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
from gnomon.store import Record, Run, RunReader, RunStatus, verify

STORE = Path(gnomon.store.__file__).parent
PLACES = sorted(set(re.findall(r'failpoint\("([a-z:-]+)"\)', "".join(p.read_text() for p in STORE.glob("*.py")))))

ONCE = ("create", "quarantine")


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
    [(place, passes) for place in PLACES for passes in (1, 2) if passes == 1 or not place.startswith(ONCE)],
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
    assert len(PLACES) == 14, PLACES


def test_a_damaged_end_of_the_chain_stops_a_resume(make):
    folder = make()
    with sqlite3.connect(folder / "journal.db") as db:
        db.execute("UPDATE records SET hash = zeroblob(32) WHERE seq = 16")
    db.close()
    with pytest.raises(RunError) as caught:
        Run.resume(folder)
    assert caught.value.code == "E405" and "record 16" in caught.value.why
    assert f"gnomon verify {folder}" in caught.value.fix
