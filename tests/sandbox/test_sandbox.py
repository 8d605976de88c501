"""What a sandbox answers to code that means well, or merely errs, and what it does when its own parts fail."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gnomon.sandbox import Broken, Err, Exceeded, Finished, Job, Limits, Ok, Program, Raised, Sandbox
from gnomon.sandbox.reports import Reports
from gnomon.sandbox.run import HEAD, NONCE, frame
from sandbox.conftest import LIMITS, descendants


def once(sandbox, source, *inputs, call="solve", seed=0):
    (outcome,) = sandbox.map([Job(source=source, call=call, inputs=inputs or ((),), seed=seed)])
    return outcome


def test_outcomes_come_in_the_order_of_the_jobs():
    slow = Job(source="import time\ndef solve(x): time.sleep(0.3); return x", call="solve", inputs=(("slow",),))
    quick = [Job(source="def solve(x): return x * x", call="solve", inputs=((x,),)) for x in range(20)]
    with Sandbox(workers=2, limits=LIMITS) as sandbox:
        assert sandbox.map([slow, *quick]) == [Finished(values=(Ok(x),)) for x in ("slow", *(x * x for x in range(20)))]
        assert sandbox.map([]) == []


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        ("None", None),
        ("True", True),
        ("1", 1),
        ("1.0", 1.0),
        ("-0.0", -0.0),
        ("float('inf')", math.inf),
        ("'\\ud800 é'", "\ud800 é"),
        ("(1, [2, (3,)])", [1, [2, [3]]]),
        ("{'a': {'b': []}}", {"a": {"b": []}}),
        ("2**200", 2**200),
        ("type('Same', (str,), {'__eq__': lambda s, o: True})('x')", "x"),
    ],
)
def test_a_value_comes_out_as_plain_json(sandbox, returned, value):
    (found,) = once(sandbox, f"def solve(): return {returned}").values
    assert repr(found) == repr(Ok(value))


def test_an_integer_has_any_length_in_and_out(sandbox):
    values = (-(2**20_000), [{"a": 2**13_000}], {"\0integer": "7"}, {"\0integer": 7})
    found = once(sandbox, "def solve(x): return x", *((value,) for value in values))
    assert found == Finished(values=tuple(map(Ok, values)))


@pytest.mark.parametrize(
    ("returned", "type_", "message"),
    [
        ("{1, 2}", "TypeError", "set"),
        ("{1: 2}", "TypeError", "key of type int"),
        ("[{None: 2}]", "TypeError", "key of type NoneType"),
        ("1j", "TypeError", "complex"),
        ("b''", "TypeError", "bytes"),
        ("(lambda x: (x.append(x), x)[1])([])", "RecursionError", ""),
        ("1/0", "ZeroDivisionError", "division by zero"),
        ("(_ for _ in ()).throw(SystemExit(0))", "SystemExit", "0"),
        ("(_ for _ in ()).throw(KeyboardInterrupt)", "KeyboardInterrupt", ""),
        ("(_ for _ in ()).throw(type('Sly', (Exception,), {'__str__': lambda s: 1/0}))", "Exception", "no readable"),
    ],
)
def test_what_is_no_value_is_an_error_and_the_next_input_is_served(sandbox, returned, type_, message):
    found = once(sandbox, f"def solve(x):\n    return {returned} if x else 'fine'", (1,), (0,))
    assert isinstance(found, Finished) and found.values[1] == Ok("fine")
    assert isinstance(found.values[0], Err) and found.values[0].type == type_ and message in found.values[0].message


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def solve(:", "SyntaxError"),
        ("1/0", "ZeroDivisionError: division by zero"),
        ("solved = 1", "NameError: name 'solve' is not defined"),
        ("import numpy", "ModuleNotFoundError"),
        ("\0", "SyntaxError|ValueError"),
        ("x = '\ud800'", "UnicodeEncodeError"),
        ("(" * 5000, "SyntaxError|MemoryError"),
        ("raise SystemExit('no')", "SystemExit: no"),
    ],
)
def test_source_that_does_not_load_is_told(sandbox, source, error):
    found = once(sandbox, source)
    told = found.error if isinstance(found, Raised) else f"MemoryError {found}"
    assert any(name in told for name in error.split("|")), found


def test_a_method_can_be_called_and_each_call_has_its_own_arguments(sandbox):
    source = "class Solution:\n    def push(self, xs):\n        xs.append(1)\n        return xs"
    found = once(sandbox, source, ([],), ([],), call="Solution().push")
    assert found == Finished(values=(Ok([1]), Ok([1])))


def test_dataclasses_and_pickles_work_in_the_source(sandbox):
    source = (
        "from __future__ import annotations\nimport pickle\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Point:\n    x: int\n"
        "def solve(): return pickle.loads(pickle.dumps(Point(3))).x"
    )
    assert once(sandbox, source) == Finished(values=(Ok(3),))


def test_limits_are_per_input_and_values_before_are_kept(sandbox):
    burn = (
        "import time\ndef solve(seconds):\n    end = time.process_time() + seconds\n"
        "    while time.process_time() < end: pass\n    return seconds"
    )
    enough, too_much = LIMITS.cpu_seconds / 2, 9
    assert once(sandbox, burn, *[(enough,)] * 3) == Finished(values=(Ok(enough),) * 3)
    assert once(sandbox, burn, (enough,), (too_much,), (0,)) == Exceeded(resource="cpu", values=(Ok(enough),))


def test_the_surroundings_are_the_same_every_time(sandbox, monkeypatch):
    source = (
        "import os, random, sys, time, locale\ndef solve():\n"
        "    return [hash('x'), random.random(), time.tzname, os.getcwd(), os.listdir('.'), dict(os.environ),\n"
        "            os.umask(0o22), sys.getfilesystemencoding(), sys.flags.utf8_mode, os.getuid(), sys.stdin.read()]"
    )
    first = once(sandbox, source)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    with Sandbox(workers=1, limits=LIMITS) as other:
        assert once(other, source) == first
        assert once(other, source, seed=1).values != first.values
    assert isinstance(first.values[0], Ok) and first.values[0].json[2] == ["UTC", "UTC"]


def test_programs_read_and_write_text(sandbox):
    source = "import sys\nn = int(input())\nprint(n * 2)\nprint('seen', file=sys.stderr)\nif n > 2: sys.exit(n)"
    (found,) = sandbox.map([Program(source=source, stdins=("1\n", "2", "3", "x"))])
    assert found.values[:3] == (Ok("2\n"), Ok("4\n"), Err("Exit", "ended with status 3"))
    assert found.values[3].type == "ValueError"
    assert found.stdout == "2\n4\n6\n" and found.stderr.count("seen") == 3
    assert sandbox.map([Program(source="print(1)", stdins=())]) == [Finished(values=())]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("print(__name__)", Ok("__main__\n")),
        ("import os; print(1, flush=True); os._exit(0)", Ok("1\n")),
        ("import os; print(1, flush=True); os._exit(1)", Err("Exit", "ended with status 1")),
        ("import os; os.kill(os.getpid(), 11)", Err("Signal", "ended by SIGSEGV")),
        ("import os; os.write(1, b'\\xff')", Ok("\ufffd")),
        ("print('\\ud800')", Ok("\\ud800\n")),
        (
            "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()",
            Ok("late\n"),
        ),
        ("open('note', 'a').write('x'); print(len(open('note').read()))", Ok("1\n")),
        ("import sys; print(len(sys.stdin.read()))", Ok("200000\n")),
    ],
)
def test_a_program_is_what_it_writes(sandbox, source, value):
    stdin = "x" * 200_000
    (found,) = sandbox.map([Program(source=source, stdins=(stdin, stdin))])
    assert isinstance(found, Finished) and found.values == (value, value)


def test_a_program_over_its_limits_keeps_the_values_before(sandbox):
    source = "if input() == 'spin':\n    while True: pass\nprint('ok')"
    (found,) = sandbox.map([Program(source=source, stdins=("go", "spin", "go"))])
    assert found == Exceeded(resource="cpu", values=(Ok("ok\n"),), stdout="ok\n")


def test_inputs_that_are_no_json_are_the_callers_mistake(sandbox):
    with pytest.raises(TypeError):
        once(sandbox, "def solve(x): return x", ({1},))
    with pytest.raises(ValueError, match="file_bytes"):
        sandbox.map([Program(source="", stdins=("x" * (LIMITS.file_bytes + 1),))])


def test_modules_can_be_given(tmp_path, monkeypatch):
    (tmp_path / "friend.py").write_text("import fractions\nHALF = fractions.Fraction(1, 2)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with Sandbox(workers=1, limits=LIMITS, imports=("friend",)) as sandbox:
        assert once(sandbox, "import friend\ndef solve(): return str(friend.HALF)") == Finished(values=(Ok("1/2"),))


def test_a_sandbox_that_dies_is_replaced_and_the_job_tried_again():
    nap = Job(source="import time\ndef solve(): time.sleep(0.6); return 1", call="solve", inputs=((),))
    with Sandbox(workers=1, limits=LIMITS) as sandbox:
        strike = strikes(sandbox, 1)
        assert sandbox.map([nap]) == [Finished(values=(Ok(1),))]
        strike.join()
        # Three times is every try: since other code still runs, it is held against the job, and never dropped.
        strike = strikes(sandbox, 3)
        (found,) = sandbox.map([nap])
        strike.join()
        assert isinstance(found, Raised) and "died 3 times" in found.error


def strikes(sandbox: Sandbox, times: int) -> threading.Thread:
    """Kill the first process of the sandbox that runs, several times, from outside."""

    def strike() -> None:
        for _ in range(times):
            before = time.monotonic()
            while not (found := inner(before)):
                time.sleep(0.02)
            os.kill(found, signal.SIGKILL)
            time.sleep(0.05)

    seen: set[int] = set()

    def inner(before: float) -> int:
        for pid in descendants() - seen:
            try:
                with open(f"/proc/{pid}/status") as file:
                    spaces = next(line.split() for line in file if line.startswith("NSpid"))
            except (OSError, StopIteration):
                continue
            if len(spaces) == 3 and int(spaces[2]) > 1:  # A job is under way: strike at the first process above it.
                with open(f"/proc/{pid}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
                seen.update((pid, parent))
                return parent
        return 0

    thread = threading.Thread(target=strike)
    thread.start()
    return thread


def test_when_no_sandbox_serves_anything_it_is_our_failure(tmp_path, monkeypatch):
    (tmp_path / "stillborn.py").write_text("import os\nos.register_at_fork(after_in_child=lambda: os._exit(0))\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with Sandbox(workers=1, limits=LIMITS, imports=("stillborn",)) as sandbox:
        found = once(sandbox, "def solve(): return 1")
    assert isinstance(found, Broken) and "sandboxes die" in found.reason


@pytest.mark.needs("bwrap")
def test_nothing_outlives_a_trainer_that_is_killed(tmp_path):
    code = (
        "import sys; from gnomon.sandbox import *\n"
        "session = Session(('sh', '-c', 'setsid sleep 61234 & sleep 61234')); sandbox = Sandbox(workers=1)\n"
        "idle = Sandbox(workers=1); idle.map([Job(source='solve = int', call='solve', inputs=((),))])\n"
        "print('up', flush=True)\n"
        'source = \'import subprocess\\ndef solve(): subprocess.run(["sleep", "61234"])\'\n'
        "sandbox.map([Job(source=source, call='solve', inputs=((),))])\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    trainer = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE)
    assert trainer.stdout is not None and trainer.stdout.read(2) == b"up"
    due = time.monotonic() + 20
    while sleepers() != 3 and time.monotonic() < due:
        time.sleep(0.02)
    assert sleepers() == 3
    trainer.kill()
    trainer.communicate()
    while sleepers() and time.monotonic() < due:
        time.sleep(0.02)
    assert sleepers() == 0


def sleepers() -> int:
    found = 0
    for entry in Path("/proc").iterdir():
        try:
            found += entry.name.isdigit() and (entry / "cmdline").read_bytes() == b"sleep\x0061234\x00"
        except OSError:
            continue
    return found


def test_a_job_holds_no_descriptor_but_its_own(sandbox):
    source = (
        "import os\ndef solve():\n    held = []\n    for number in range(256):\n"
        "        try: os.fstat(number); held.append(number)\n        except OSError: pass\n    return len(held)"
    )
    assert once(sandbox, source) == Finished(values=(Ok(4),))  # Input, output, errors, and where it answers.


@pytest.mark.parametrize(
    ("line", "forged"),
    [
        (b"[" * 100_000, "not JSON"),
        (b"[1,", "not JSON"),
        (b"\xff", "not JSON"),
        (b'["ok", ' + b"9" * 5000 + b"]", "not JSON"),
        (b'["ok"]', "unknown kind"),
        (b'{"ok": 1}', "unknown kind"),
        (b'["reward", 1.0]', "unknown kind"),
        (b'["exceeded", "patience"]', "unknown kind"),
        (b'["ready"]', "unknown kind"),
    ],
)
def test_lines_that_break_the_form_are_the_end_of_all_reading(line, forged):
    nonce = b"n" * NONCE
    reports = Reports(nonce, 2**20)
    good = frame(["ready"], nonce) + frame(["ok", {"a": [1.5, None]}], nonce)
    stream = good + len(line).to_bytes(HEAD, "little") + nonce + line + frame(["ok", 2], nonce)
    for start in range(0, len(stream), 7):
        reports.feed(stream[start : start + 7])
    assert reports.values == [Ok({"a": [1.5, None]})] and forged in reports.forged


def test_a_cancelled_call_kills_its_jobs(sandbox):
    nap = Job(source="import time\ndef solve(): time.sleep(60)", call="solve", inputs=((),))

    async def main() -> float:
        task = asyncio.create_task(sandbox.amap([nap]))
        await asyncio.sleep(0.3)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    assert asyncio.run(main()) < 2
    assert asyncio.run(sandbox.amap([Job(source="solve = lambda: 1", call="solve", inputs=((),))]))[0].values == (
        Ok(1),
    )


def test_many_threads_share_a_sandbox(sandbox):
    found: list[object] = []
    job = Job(source="def solve(x): return x", call="solve", inputs=((1,),))
    threads = [threading.Thread(target=lambda: found.extend(sandbox.map([job] * 5))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Finished(values=(Ok(1),))] * 20


def test_workers_are_recycled():
    with Sandbox(workers=1, limits=LIMITS, recycle=2) as sandbox:
        seen = [once(sandbox, "import os\ndef solve(): return os.getpid()").values[0].json for _ in range(4)]
    assert seen[0] == seen[2] and seen[1] == seen[3] != seen[0]


def test_a_closed_sandbox_refuses_and_limits_are_above_zero():
    sandbox = Sandbox(workers=1)
    sandbox.close()
    with pytest.raises(ValueError, match="closed"):
        once(sandbox, "solve = print")
    with pytest.raises(ValueError, match="cpu_seconds"):
        Limits(cpu_seconds=0)
