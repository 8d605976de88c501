"""A full disk, a disk that cannot be written, a file that may not grow: for real."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gnomon.errors import GnomonError, ResourceError
from gnomon.store import Record, Run, RunReader, RunStatus, verify


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting needs root; test_a_file_that_may_not_grow covers the same path without it")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"this machine does not let root mount: {made.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill(run: Run, body: dict[str, object]) -> ResourceError:
    """Append until the disk refuses."""
    with pytest.raises(ResourceError) as caught:
        for step in range(100_000):
            noise = os.urandom(2000).hex()
            run.append([Record(kind="rollout", step=step, task=0, sample=0, body={**body, "text": noise})])
    return caught.value


def test_a_full_disk_loses_nothing_and_the_run_goes_on_when_there_is_space(small_disk, weights, rollout):
    folder = small_disk / "run"
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(200_000))
    run = Run.create(folder, recipe="", manifest={}, genesis={})
    with pytest.raises(ResourceError), run:
        run.commit_checkpoint(0, weights, {})
        error = fill(run, rollout(0, 0, 0))
        assert error.code == "E501" and f"gnomon resume {folder}" in error.fix and "df -h" in error.fix
        position, fingerprint = run.position, run.fingerprint
        assert position > 10
        with RunReader(folder) as reader:
            assert (reader.length, reader.fingerprint) == (position, fingerprint)
        raise error
    report = verify(folder)
    assert report and (report.records, report.fingerprint, report.checkpoints) == (position, fingerprint, (0,))
    ballast.unlink()
    with Run.resume(folder) as run:
        run.rewind(position)
        run.append([Record(kind="step", step=0, body={})])
        run.set_status("finished")
    assert verify(folder).records == position + 1
    with RunReader(folder) as reader:
        assert reader.status is RunStatus.FINISHED


def test_a_checkpoint_on_a_full_disk_leaves_the_older_ones(small_disk, weights):
    folder = small_disk / "run"

    def large(path: Path) -> None:
        (path / "model.safetensors").write_bytes(bytes(2_000_000))

    def in_other_words(path: Path) -> None:
        raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")

    with Run.create(folder, recipe="", manifest={}, genesis={}) as run:
        run.commit_checkpoint(0, weights, {})
        run.commit_checkpoint(1, weights, {})
        for write in (large, in_other_words):
            with pytest.raises(ResourceError, match="E501"):
                run.commit_checkpoint(2, write, {})
            assert {path.name for path in (folder / "checkpoints").iterdir()} == {"000000", "000001"}
        run.append([Record(kind="step", step=2, body={})])
        assert run.latest_checkpoint().step == 1
    assert verify(folder).checkpoints == (1, 0)


def test_a_run_is_not_half_created_on_a_full_disk(small_disk):
    ballast = small_disk / "ballast"
    with pytest.raises(OSError), ballast.open("wb") as file:
        for _ in range(300):
            file.write(bytes(4096))
            file.flush()
    folder = small_disk / "run"
    with pytest.raises(ResourceError, match="E501"):
        Run.create(folder, recipe="seed = 1\n", manifest={}, genesis={})
    assert not (folder / "journal.db").exists()
    ballast.unlink()
    Run.create(folder, recipe="seed = 1\n", manifest={}, genesis={}).close()
    assert verify(folder).records == 1


def test_a_run_on_a_disk_that_cannot_be_written_is_read(small_disk):
    folder = small_disk / "run"
    with Run.create(folder, recipe="", manifest={}, genesis={}) as run:
        run.append([Record(kind="step", step=0, body={})])
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with RunReader(folder) as reader:
        assert reader.steps == 1 and reader.status is RunStatus.INTERRUPTED
    assert verify(folder)
    with pytest.raises(ResourceError) as caught:
        Run.resume(folder)
    assert caught.value.code == "E502" and caught.value.fix


LIMITED = """
import json, os, resource, sys
from pathlib import Path
from gnomon.errors import GnomonError, ResourceError
from gnomon.store import Record, Run
run = Run.create(sys.argv[1], recipe="", manifest={}, genesis={})
run.commit_checkpoint(0, lambda path: (path / "w").write_bytes(bytes(1000)) and None, {})
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
codes = []
try:
    run.commit_checkpoint(1, lambda path: (path / "w").write_bytes(bytes(400_000)) and None, {})
except ResourceError as error:
    codes.append(error.code)
try:
    for step in range(10_000):
        run.append([Record(kind="step", step=step, body={"x": os.urandom(3000).hex()})])
except ResourceError as error:
    codes.append(error.code)
print(json.dumps([codes, run.position, run.fingerprint]))
run.close()
"""


def test_a_file_that_may_not_grow(python, tmp_path):
    """The limit that every user can set: the same promises without root."""
    folder = tmp_path / "run"
    out, err = python("-c", LIMITED, folder).communicate(timeout=60)
    codes, position, fingerprint = json.loads(out or pytest.fail(err))
    assert codes == ["E501", "E502"] and position > 10
    report = verify(folder)
    assert report and (report.records, report.fingerprint, report.checkpoints) == (position, fingerprint, (0,))
    with Run.resume(folder) as run:
        run.rewind(position)
        run.append([Record(kind="step", step=0, body={})])


@pytest.mark.parametrize("how", ["deleted", "moved", "emptied"])
@pytest.mark.parametrize("act", ["append", "checkpoint", "note", "status", "aside"])
def test_a_folder_that_is_lost_under_way_is_told(tmp_path, weights, how, act):
    import shutil

    folder = tmp_path / "run"
    run = Run.create(folder, recipe="", manifest={}, genesis={})
    record = Record(kind="rollout", step=0, task=0, sample=0, body={})
    run.append([record])
    if how == "moved":
        folder.rename(tmp_path / "elsewhere")
    else:
        shutil.rmtree(folder)
        if how == "emptied":
            folder.mkdir()
    with pytest.raises(GnomonError) as caught:
        match act:
            case "append":
                run.append([record])
            case "checkpoint":
                run.commit_checkpoint(1, weights, {})
            case "note":
                run.note("lunch")
            case "status":
                run.set_status("finished")
            case "aside":
                run.set_aside([record], "why")
    assert caught.value.code in ("E412", "E502") and str(folder) in caught.value.where
    run.close()
