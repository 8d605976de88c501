"""A pool cannot be hung, crashed or fooled by what it runs, and says what happened."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnomon.workers import Died, Exceeded, Pool, Raised, Returned, fork_server, import_time
from workers import pool_jobs

SECONDS = 0.3


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(pool_jobs.run, workers=2, seconds=SECONDS, wall=4 * SECONDS, output=2**16) as made:
        yield made


@pytest.fixture(scope="module")
def roomy() -> Iterator[Pool]:
    """With a clock so wide that a busy machine does not decide which limit is met first."""
    with Pool(pool_jobs.run, workers=1, seconds=SECONDS, wall=60) as made:
        yield made


@pytest.fixture
def slow_modules(tmp_path) -> str:
    """A folder of modules that take twice the limit to import: of processor time, or of the wall clock."""
    burn = f"import time\nend = time.process_time() + {2 * SECONDS}\nwhile time.process_time() < end: pass\nx = 1\n"
    (tmp_path / "burns.py").write_text(burn)
    (tmp_path / "nested.py").write_text("import burns\nfrom burns import x\n")
    (tmp_path / "sleeps.py").write_text(f"import time\ntime.sleep({6 * SECONDS})\nx = 1\n")
    (tmp_path / "broken.py").write_text(burn + "raise ValueError('no such table')\n")
    return str(tmp_path)


def test_the_wall_clock_is_not_time_of_imports_either(pool, slow_modules):
    assert pool.map([("import_and", slow_modules, "sleeps", "square", 3)], fresh=True) == [Returned(9)]
    assert pool.map([("import_and", slow_modules, "sleeps", "nap", 60)], fresh=True) == [Exceeded("wall")]


@pytest.mark.parametrize("how", ["statement", "function", "in a thread"])
@pytest.mark.parametrize("name", ["burns", "nested"])
def test_an_import_is_not_time_of_the_call(roomy, slow_modules, name, how):
    assert roomy.map([("import_slowly", slow_modules, name, how)] * 2, fresh=True) == [Returned(1)] * 2


def test_what_follows_an_import_is_time_of_the_call(roomy, slow_modules):
    assert roomy.map([("import_and", slow_modules, "burns", "spin")], fresh=True) == [Exceeded("cpu")]
    assert roomy.map([("import_and", slow_modules, "burns", "square", 3)]) == [Returned(9)]
    assert roomy.map([("spin",), ("square", 2)]) == [Exceeded("cpu"), Returned(4)]


def test_an_import_that_fails_ends_its_time(roomy, slow_modules):
    (outcome,) = roomy.map([("import_slowly", slow_modules, "broken", "statement")], fresh=True)
    assert isinstance(outcome, Raised) and outcome.error == "ValueError: no such table"
    assert roomy.map([("spin",)]) == [Exceeded("cpu")]


def test_imports_without_end_are_time_of_the_call(monkeypatch, slow_modules):
    monkeypatch.setattr(import_time, "MOST", SECONDS / 2)
    with Pool(pool_jobs.run, workers=1, seconds=SECONDS, wall=60) as made:
        assert made.map([("import_slowly", slow_modules, "burns", "statement")]) == [Exceeded("cpu")]


def test_a_process_of_the_function_does_not_count_imports_for_it(roomy, slow_modules):
    assert roomy.map([("fork_and_import", slow_modules, "burns")], fresh=True) == [Returned(True)]


def test_outcomes_come_in_the_order_of_the_jobs(pool):
    assert pool.map([("square", x) for x in range(300)]) == [Returned(x * x) for x in range(300)]
    late_first = [("nap", 0.2, "slow"), *[("square", x) for x in range(20)]]
    assert pool.map(late_first) == [Returned("slow"), *[Returned(x * x) for x in range(20)]]
    assert pool.map([]) == []


@pytest.mark.parametrize(
    ("job", "outcome"),
    [
        (("spin",), Exceeded("cpu")),
        (("spin_outside_python",), Exceeded("cpu")),
        (("nap", 3600), Exceeded("wall")),
        (("half_an_answer",), Exceeded("wall")),
        (("fill_memory",), Exceeded("memory")),
        (("talk",), Exceeded("output")),
        (("leave", 0), Died(2)),
        (("leave", 1), Died(2)),
        (("crash",), Died(2)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_a_job_does_to_its_worker_is_told_and_the_next_job_is_served(pool, roomy, job, outcome):
    if outcome == Exceeded("cpu"):
        assert roomy.map([job, ("square", 3)]) == [outcome, Returned(9)]
        return
    began = time.monotonic()
    assert pool.map([job, ("square", 3)]) == [outcome, Returned(9)]
    # Four times the wall limit: a call can wait for a limit and a restart, on a busy machine, but not for the job.
    assert time.monotonic() - began < 16 * SECONDS


@pytest.mark.parametrize(
    ("job", "error"),
    [
        (("quit_politely",), "SystemExit: 3"),
        (("stop_by_the_side_door",), "Sly (it cannot say why)"),
        (("unpicklable",), "pickle"),
        (("dive",), "RecursionError"),
        (("square", "x"), "TypeError"),
        (("no_such_job",), "KeyError"),
    ],
)
def test_whatever_is_raised_is_told(pool, job, error):
    (found,) = pool.map([job])
    assert isinstance(found, Raised) and error in found.error, found


def test_a_job_cannot_write_to_the_trainers_terminal_or_wait_for_it(pool, capfd):
    assert pool.map([("write_and_ask",)]) == [Returned(("", ""))]
    assert capfd.readouterr().out == ""


def test_a_worker_that_died_is_replaced_and_the_job_tried_once_more(pool, tmp_path):
    assert pool.map([("die_once", str(tmp_path / "note"))]) == [Returned("second try")]


def test_what_a_killed_job_started_ends_with_it(pool, tmp_path):
    assert pool.map([("leave_a_child", str(tmp_path / "note"))]) == [Exceeded("wall")]
    time.sleep(2.5)
    assert not (tmp_path / "note").exists()


def test_a_job_that_only_waits_for_its_turn_is_not_punished():
    """Four processes share a core, so each job takes four times its own time by the clock."""
    jobs = [("burn", 0.1)] * 4
    with Pool(pool_jobs.run, workers=4, seconds=0.25, wall=30) as crowded:
        os.sched_setaffinity(crowded._server.pid, {min(os.sched_getaffinity(0))})
        assert crowded.map(jobs) == [Returned(None)] * 4


def test_workers_are_replaced_after_their_time():
    with Pool(pool_jobs.pid, workers=1, recycle=3) as short:
        pids = [outcome.value for outcome in short.map([()] * 7)]
    assert pids[0] == pids[2] != pids[3] == pids[5] != pids[6]


def test_idle_workers_and_the_fork_server_may_be_killed():
    with Pool(pool_jobs.pid, workers=2) as pool:
        (first,) = pool.map([()])
        os.kill(first.value, signal.SIGKILL)
        (second,) = pool.map([()])
        assert second.value != first.value
        os.kill(pool._server.pid, signal.SIGKILL)
        while alive(second.value):  # It ends with its parent.
            time.sleep(0.01)
        (third,) = pool.map([()])
        assert third.value not in (first.value, second.value)


def test_pools_share_an_interpreter_and_nothing_that_was_imported_for_one(tmp_path, monkeypatch):
    (tmp_path / "guest.py").write_text("import sys\nsys.been_here = True\ndef told(): return sys.been_here\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with Pool(pool_jobs.parents, workers=1) as first, Pool(pool_jobs.parents, workers=1, imports=["guest"]) as second:
        (mine,), (theirs,) = first.map([()]), second.map([()])
    assert (
        mine.value["base server"] == theirs.value["base server"]
        and mine.value["fork server"] != theirs.value["fork server"]
    )
    assert theirs.value["been here"] and not mine.value["been here"]
    with Pool(pool_jobs.parents, workers=1, variables={"PYTHONHASHSEED": "7"}) as third:
        (other,) = third.map([()])
    assert other.value["base server"] != mine.value["base server"]


def test_a_worker_has_the_folder_and_the_variables_of_its_pool(tmp_path, monkeypatch):
    with Pool(pool_jobs.parents, workers=1) as before:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("GNOMON_TEST_WORD", "from the caller")
        with Pool(pool_jobs.parents, workers=1, variables={"GNOMON_TEST_MORE": "from the pool"}) as after:
            (old,), (new,) = before.map([()]), after.map([()])
    assert old.value["base server"] == new.value["base server"]
    assert new.value["folder"] == str(tmp_path) != old.value["folder"]
    assert old.value["words"] == [None, None] and new.value["words"] == ["from the caller", "from the pool"]


def test_a_killed_base_server_is_replaced_and_an_ended_one_is_gone():
    with Pool(pool_jobs.parents, workers=1) as first:
        base = first.map([()])[0].value["base server"]
        os.kill(base, signal.SIGKILL)
        with Pool(pool_jobs.parents, workers=1) as second:
            other = second.map([()])[0].value["base server"]
            assert other != base and len(first.map([()])) == 1
            fork_server.end_base_servers()
            assert not alive(other) and second.map([()])[0].value["words"]


def test_a_base_server_that_is_killed_before_it_is_ready_is_replaced(monkeypatch):
    started, begin = [], subprocess.Popen

    def struck(*words, **settings):
        started.append(begin(*words, **settings))
        if len(started) == 1:
            started[0].kill()
        return started[-1]

    fork_server.end_base_servers()
    monkeypatch.setattr(fork_server.subprocess, "Popen", struck)
    with Pool(pool_jobs.parents, workers=1) as pool:
        assert pool.map([()])[0].value["base server"] == started[1].pid


def test_a_server_that_is_killed_while_it_imports_is_replaced(tmp_path, monkeypatch):
    note = tmp_path / "killed"
    (tmp_path / "struck_guest.py").write_text(
        f"import os, pathlib, signal\nnote = pathlib.Path({str(note)!r})\n"
        "if not note.exists():\n    note.touch()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with Pool(pool_jobs.pid, imports=["struck_guest"]) as pool:
        assert isinstance(pool.map([()])[0], Returned)


@pytest.mark.parametrize(
    ("text", "said"),
    [("raise ValueError('not today')", "ValueError: not today"), ("import os; os._exit(3)", "it died"),
     ("import time; time.sleep(600)", "it died"), ("import sys; sys.exit(2)", "SystemExit: 2")],
)  # fmt: skip
def test_a_module_that_cannot_be_imported_is_told_and_leaves_no_process(tmp_path, monkeypatch, text, said):
    note = tmp_path / "pid"
    known = f"import os\nwith open({str(note)!r}, 'w') as file:\n    file.write(str(os.getpid()))\n"
    (tmp_path / "broken_guest.py").write_text(known + text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(fork_server, "START_SECONDS", 3.0)
    with pytest.raises(ImportError, match=f"broken_guest: {said}"):
        Pool(pool_jobs.pid, imports=["broken_guest"])
    assert not alive(int(note.read_text()))


def test_a_module_that_writes_to_the_terminal_is_imported_all_the_same(tmp_path, monkeypatch, capfd):
    (tmp_path / "loud_guest.py").write_text("import sys\nprint('out')\nprint('err', file=sys.stderr, flush=True)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with Pool(pool_jobs.pid, imports=["loud_guest"]) as pool:
        assert isinstance(pool.map([()])[0], Returned)
    assert capfd.readouterr() == ("", "")


def test_several_threads_share_a_pool(pool):
    found: dict[int, list[object]] = {}

    def ask(start: int) -> None:
        found[start] = pool.map([("square", x) for x in range(start, start + 50)] + [("nap", 3600)])

    threads = [threading.Thread(target=ask, args=(start,)) for start in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for start in (0, 100, 200):
        assert found[start] == [*[Returned(x * x) for x in range(start, start + 50)], Exceeded("wall")]


def test_async_calls_leave_the_loop_free_and_can_be_cancelled():
    async def main() -> tuple[int, float]:
        with Pool(pool_jobs.run, workers=2, seconds=30, wall=60) as pool:
            ticks, task = 0, asyncio.ensure_future(pool.amap([("nap", 0.3), ("nap", 0.3)]))
            while not task.done():
                await asyncio.sleep(0.01)
                ticks += 1
            assert await task == [Returned(None)] * 2
            task = asyncio.ensure_future(pool.amap([("nap", 50)]))
            await asyncio.sleep(0.2)
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await pool.amap([("square", 4)]) == [Returned(16)]
            return ticks, time.monotonic() - began

    ticks, seconds = asyncio.run(main())
    assert ticks >= 5 and seconds < 10


def test_a_method_of_an_object_can_be_the_function():
    with Pool(pool_jobs.Judge(4).verify, workers=1) as pool:
        assert pool.map([(4,), (5,)]) == [Returned(True), Returned(False)]


def test_a_function_that_no_worker_can_import_is_sent_by_value():
    script = (
        "from gnomon.workers import Pool\ndef f(n): return n + 1\nwith Pool(f, 1) as pool: print(pool.map([(41,)]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "Returned(value=42" in done.stdout, done.stderr
    with Pool(pool_jobs.pid, workers=1) as pool:
        pass
    with pytest.raises(ValueError, match="closed"):
        pool.map([()])


def test_nothing_outlives_a_parent_that_was_killed(tmp_path):
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "import threading\nfrom workers import pool_jobs\nfrom gnomon.workers import Pool\n"
        "pool = Pool(pool_jobs.run, workers=2, seconds=60)\n"
        "pids = [pool.map([('pid',)])[0].value, pool._server.pid]\n"
        "threading.Thread(target=pool.map, args=([('nap', 600)],), daemon=True).start()\n"
        "import time; time.sleep(0.3); print(*pids, flush=True); time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


MIB = 2**20


@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize("size", [80, 120, 200], ids=["not unpickled", "not received", "above the limit"])
def test_a_job_larger_than_a_workers_memory_is_given_up_after_its_tries(retries, size):
    """A worker of 128 MiB; jobs before and behind it are served."""
    with Pool(len, workers=1, seconds=5.0, memory=128 * MIB, retries=retries) as pool:
        began = time.monotonic()
        first, large, last = pool.map([("ab",), ("x" * (size * MIB),), ("abc",)])
        assert (first, last) == (Returned(2), Returned(3))
        assert isinstance(large, Died) and large.tries == (1 if size == 200 else retries + 1)
        assert f"{size * MIB:,}"[:3] in large.why and f"{128 * MIB:,} bytes of memory" in large.why
        assert time.monotonic() - began < 30
        assert pool.map([("abcd",)]) == [Returned(4)]


def test_a_result_larger_than_memory_or_output_is_told():
    with Pool(pool_jobs.repeated, workers=1, seconds=5.0, memory=256 * MIB) as pool:
        assert pool.map([(10,), (50 * MIB,), (200 * MIB,), (3,)]) == [
            Returned("x" * 10),
            Exceeded("output"),
            Exceeded("memory"),
            Returned("xxx"),
        ]


@pytest.mark.parametrize("job", [threading.Lock(), pool_jobs.Unsendable()], ids=["lock", "raises"])
def test_a_job_that_cannot_be_sent_is_told_and_the_others_are_served(pool, job):
    found = pool.map([("square", 2), ("nap", 0, job), ("square", 3)])
    assert found[0] == Returned(4) and found[2] == Returned(9)
    assert isinstance(found[1], Raised) and "cannot be sent to a worker" in found[1].error


def test_what_left_its_session_ends_with_the_pool(tmp_path):
    """A grandchild that calls setsid is in no process group of ours."""
    with Pool(pool_jobs.leave_a_daemon, workers=1) as pool:
        (first,) = pool.map([()])
        assert alive(first.value)
    deadline = time.monotonic() + 10
    while alive(first.value) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(first.value)
