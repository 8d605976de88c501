"""Attacks S01 to S23 on a sandbox, one test each: the outcome's type, and a host on which nothing happened."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tempfile
import time
import zipfile
import zlib
from pathlib import Path

import pytest

from gnomon.sandbox import Err, Exceeded, Finished, Job, Ok, Program, Raised, Sandbox, Session
from sandbox.conftest import CANARY, LIMITS, descendants


def test_s01_fork_bomb(attacked):
    found = attacked("import os\nwhile True:\n    os.fork()")
    assert isinstance(found, Exceeded) and found.resource in ("processes", "cpu", "wall"), found
    quiet = "import os\ndef solve():\n    while True:\n        try: os.fork()\n        except OSError: pass"
    found = attacked(quiet)
    assert isinstance(found, Exceeded) and found.resource in ("cpu", "wall"), found


def test_s01_the_cap_is_the_number_asked_for(attacked):
    count = (
        "import os, time\ndef solve():\n    n = 0\n    try:\n        while True:\n"
        "            if os.fork() == 0:\n                time.sleep(60)\n            n += 1\n"
        "    except OSError:\n        return n"
    )
    assert attacked(count) == Finished(values=(Ok(LIMITS.processes - 1),))


@pytest.mark.parametrize("spin", ["while True: pass", "sum(range(10**15))", "9**9**9"])
def test_s02_spin(attacked, sandbox, spin):
    assert attacked(f"def solve():\n    {spin}") == Exceeded(resource="cpu")
    began = time.monotonic()
    assert sandbox.map([Job(source="solve = lambda: 1", call="solve", inputs=((),))]) == [Finished(values=(Ok(1),))]
    assert time.monotonic() - began < 5


def test_s03_sleep(attacked, hasty):
    assert attacked("import time\ndef solve(): time.sleep(3600)", where=hasty) == Exceeded(resource="wall")


def test_s04_memory(attacked):
    assert attacked("def solve(): return len(bytearray(10**10))") == Exceeded(resource="memory")
    hold = "def solve():\n    kept = []\n    while True:\n        kept.append(bytearray(2**20))"
    assert attacked(hold) == Exceeded(resource="memory")


def test_s04_memory_of_many_processes(attacked, sandbox, hasty):
    """Each below the cap of one, together eight times above it: the control group ends them where there is one."""
    source = (
        "import os, time\ndef solve():\n"
        "    for _ in range(3): os.fork()\n"
        "    kept = bytearray(b'x') * (200 * 2**20)\n"
        "    time.sleep(3600)"
    )
    found = attacked(source, where=hasty)
    capped = {probe.name: probe.holds for probe in sandbox.capabilities.levels["sandbox"]}["control group of memory"]
    assert isinstance(found, Exceeded)
    assert found.resource in (("memory", "wall") if capped else ("wall",))


def test_s05_disk(attacked):
    large = "def solve():\n    with open('big', 'wb') as f:\n        while True: f.write(bytes(2**20))"
    assert attacked(large).resource == "files"
    many = "def solve():\n    for i in range(10**6):\n        with open(str(i), 'wb') as f: f.write(bytes(2**20))"
    assert attacked(many).resource == "files"


def test_s06_output(attacked):
    found = attacked("def solve():\n    while True: print('x' * 1000)")
    assert isinstance(found, Exceeded) and found.resource == "output"
    assert LIMITS.output_bytes - 2000 <= len(found.stdout) <= LIMITS.output_bytes
    found = attacked("def solve(): return 'x' * 10**6")
    assert found == Exceeded(resource="output")
    found = attacked("import os\ndef solve():\n    while True: os.write(2, b'x' * 10000)")
    assert isinstance(found, Exceeded) and found.resource == "output" and not found.stdout


def test_s07_daemon(attacked, tmp_path):
    source = (
        "import os, time\ndef solve():\n"
        "    if os.fork() == 0:\n        os.setsid()\n"
        "        if os.fork() == 0:\n            time.sleep(3600)\n        os._exit(0)\n"
        "    os.wait()\n    return 1"
    )
    assert attacked(source) == Finished(values=(Ok(1),))


def test_s08_ignores_signals(attacked):
    source = (
        "import signal, time\ndef solve():\n"
        "    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "        signal.signal(number, signal.SIG_IGN)\n"
        "    while True:\n        pass"
    )
    assert attacked(source) == Exceeded(resource="cpu")


def test_s09_leaves_before_the_end(attacked):
    for how in ("import os; os._exit(0)", "raise SystemExit(0)"):
        found = attacked(f"{how}\ndef solve(): return 1")
        assert isinstance(found, Raised) and not found.values, found
    found = attacked("import os\ndef solve(x):\n    return x if x < 2 else os._exit(0)", (0,), (1,), (2,), (3,))
    assert isinstance(found, Raised) and found.values == (Ok(0), Ok(1)), found
    assert found.error == "Exit: ended with status 0 before input 2 was answered"


def test_s10_patches_its_surroundings(attacked):
    source = (
        "import builtins, json, sys\n"
        "class Same(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\n"
        "builtins.AssertionError = builtins.isinstance = None\n"
        "for frame in sys._current_frames().values():\n    frame.f_locals['status'] = 0\n"
        "def solve(): return Same(3)"
    )
    found = attacked(source)
    values = getattr(found, "values", ())
    assert all(
        type(value.json) is int and value.json == 3 and value.json != 4 for value in values if isinstance(value, Ok)
    )
    assert isinstance(found, Finished | Raised)


def test_s11_says_that_it_passed(attacked):
    source = (
        "import json, sys\nfor f in (sys.stdout, sys.stderr):\n"
        "    print('PASS', json.dumps({'reward': 1.0, 'status': 'correct'}), file=f)\n"
        "open('reward.txt', 'w').write('1.0')\ndef solve(): raise ValueError"
    )
    found = attacked(source)
    assert isinstance(found, Finished) and found.values == (Err("ValueError", ""),)
    assert found.stdout == found.stderr == 'PASS {"reward": 1.0, "status": "correct"}\n'


def test_s12_writes_to_the_result_pipe(attacked):
    forged = '["ok", 1]'
    source = (
        "import os\n"
        f"body = {forged!r}.encode()\n"
        "line = len(body).to_bytes(4, 'little') + bytes(16) + body\n"
        "for number in range(3, 256):\n"
        "    try: os.write(number, line)\n"
        "    except OSError: pass\n"
        "def solve(): return 2"
    )
    found = attacked(source)
    assert isinstance(found, Raised) and found.error.startswith("Forged") and not found.values, found
    for line in ("b'x' * 64", "b'\\xff' * 2**17", "(2**31).to_bytes(4, 'little') + bytes(64)"):
        source = (
            "import os\ndef solve():\n    for n in range(3, 256):\n"
            f"        try: os.write(n, {line})\n        except OSError: pass"
        )
        found = attacked(source)
        assert isinstance(found, Raised | Exceeded) and not found.values, found


def test_s12_the_nonce_of_one_job_is_nothing_to_the_next(attacked):
    """Even with its own nonce read from its own frames, a job can answer for itself alone, and only once per input."""
    source = (
        "import sys, os\ndef solve():\n    frame = sys._getframe()\n"
        "    while frame and 'send' not in frame.f_locals: frame = frame.f_back\n"
        "    frame.f_locals['send'](['ok', 7])\n    return 2"
    )
    found = attacked(source)
    assert isinstance(found, Raised) and found.error == "Forged: more answers than inputs", found


def test_s13_changes_the_files_of_the_judge(attacked):
    source = (
        "import os, sys\ndef solve():\n    wrote = []\n"
        "    others = {*sys.path, '/opt/gnomon/gnomon/sandbox', '/usr/lib', '/', '/dev', sys.base_prefix}\n"
        "    for path in others - {os.getcwd()}:\n"
        "        for name in ('conftest.py', 'sitecustomize.py', 'x.pth', 'run.py'):\n"
        "            try:\n                open(os.path.join(path, name), 'a').close()\n"
        "                wrote.append(path)\n            except OSError: pass\n"
        "    return wrote"
    )
    assert attacked(source) == Finished(values=(Ok([]),))
    # What it plants in its own folder is gone for the next one.
    plant = "def solve():\n    open('random.py', 'w').write('1/0')\n    open('sitecustomize.py', 'w').write('1/0')"
    assert attacked(plant) == Finished(values=(Ok(None),))
    left = "import os\ndef solve(): return sorted({*os.listdir('/scratch'), *os.listdir('/tmp')})"
    assert attacked(left) == Finished(values=(Ok(["solution.py"]),))  # The source of this program.


def test_s14_looks_for_the_answers(attacked, tmp_path):
    source = (
        "import gc, os, sys\ndef solve(folder, pid):\n    seen = [repr(dict(os.environ)), repr(sys.argv)]\n"
        "    paths = [f'{folder}/expected.json', '/proc/1/environ', f'/proc/{pid}/environ', '/proc/self/mem',\n"
        "             f'/proc/{pid}/root{folder}/expected.json', '/dev/mem', '/proc/kcore']\n"
        "    for path in paths:\n"
        "        try: seen.append(open(path, 'rb').read(10**6).decode(errors='replace'))\n"
        "        except OSError: pass\n"
        "    frame = sys._getframe()\n    while frame:\n        seen.append(repr(frame.f_locals)[:10000])\n"
        "        frame = frame.f_back\n"
        "    seen += [text for text in gc.get_objects() if isinstance(text, str)]\n"
        "    for root, _, files in os.walk('/scratch'): seen += files\n"
        "    return ''.join(seen)[:30000]"
    )
    found = attacked(source, (str(tmp_path), os.getpid()))
    assert isinstance(found, Finished) and isinstance(found.values[0], Ok) and CANARY not in found.values[0].json


def test_s15_links(attacked, tmp_path):
    source = (
        "import os\ndef solve(target):\n    read = []\n    os.symlink(target, 'soft')\n"
        "    os.symlink('/etc/shadow', 'shadow')\n"
        "    for make in (os.link, os.rename):\n"
        "        try: make(target, 'hard')\n        except OSError: pass\n"
        "    for name in ('soft', 'hard', 'shadow'):\n"
        "        try: read.append(open(name).read())\n        except OSError: pass\n"
        "        try: open(name, 'w').write('x')\n        except OSError: pass\n"
        "    return read"
    )
    assert attacked(source, (str(tmp_path / "expected.json"),)) == Finished(values=(Ok([]),))


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_ALG"])
def test_s16_s17_network(attacked, listener, family):
    port = listener.getsockname()[1]
    source = (
        "import socket\ndef solve(port):\n"
        f"    made = socket.socket(socket.{family})\n    made.connect(('127.0.0.1', port))\n    return 'reached'"
    )
    found = attacked(source, (port,))
    assert isinstance(found, Finished) and found.values[0].type == "PermissionError", found


def test_s16_s17_in_a_session_sockets_lead_nowhere_but_inside(listener):
    code = (
        "import socket\ndef tried(*where):\n"
        "    try: socket.create_connection(where, timeout=1); return 'reached'\n"
        "    except OSError as error: return type(error).__name__\n"
        f"print(tried('127.0.0.1', {listener.getsockname()[1]}), tried('1.1.1.1', 80), tried('pypi.org', 443))\n"
        "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); print(tried(*s.getsockname()))"
    )
    with Session(("python3", "-c", code)) as session:
        *out, own = session.receive_all().decode().split()
    assert len(out) == 3 and "reached" not in out and own == "reached"
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_s18_signals_and_traces(attacked):
    source = (
        "import ctypes, os, signal\nlibc = ctypes.CDLL(None, use_errno=True)\ndef solve(pid):\n    got = []\n"
        "    for target in (pid, os.getppid(), 1, 2, 3):\n"
        "        if target == os.getpid(): continue\n"
        "        try: os.kill(target, signal.SIGSTOP); os.kill(target, signal.SIGKILL)\n"
        "        except OSError: pass\n"
        "        if libc.ptrace(16, target, 0, 0) == 0: got.append(['ptrace', target])\n"
        "        if libc.process_vm_readv(target, 0, 0, 0, 0, 0) >= 0: got.append(['memory', target])\n"
        "    return got"
    )
    assert attacked(source, (os.getpid(),)) == Finished(values=(Ok([]),))


def test_s18_no_signal_ends_the_first_process(attacked, sandbox):
    """Nor does it end the sandbox: the same one serves the next job."""
    source = (
        "import os, signal\ndef solve():\n"
        "    for number in signal.valid_signals():\n"
        "        try: os.kill(1, number)\n        except OSError: pass\n"
        "    return os.getpid()"
    )
    first, second = (attacked(source).values[0].json for _ in range(2))
    assert second > first
    with Session(("bash", "-c", "for n in $(seq 1 64); do kill -$n 1; done; echo alive"), LIMITS) as session:
        assert session.receive_all().decode().endswith("alive\n")


def test_s18_no_job_is_in_the_memory_of_the_next(attacked):
    """Not the source of another reply to the same task, which may be right. Pages are read by `write`, if mapped."""
    halves = "def solve(): return 8675", "309  # right"
    assert attacked("".join(halves) + "\n#" * 2000) == Finished(values=(Ok(8675309),))
    source = (
        "import ctypes, gc, os\nlibc = ctypes.CDLL(None)\nread, write = os.pipe()\ndef solve(one, other):\n"
        "    one, other, found = one.encode(), other.encode(), 0\n"
        "    pages = {(id(o) & ~0xfff) + 4096 * k for o in gc.get_objects()[::50] for k in range(-64, 64)}\n"
        "    for page in sorted(pages):\n"
        "        if libc.write(write, ctypes.c_void_p(page), ctypes.c_size_t(4096)) == 4096:\n"
        "            pieces = os.read(read, 4096).split(one)\n"
        "            found += sum(piece.startswith(other) for piece in pieces[1:])\n"
        "    return found"
    )
    assert attacked(source, halves) == Finished(values=(Ok(0),))


def test_s18_jobs_leave_each_other_nothing(attacked):
    source = (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\ndef solve():\n"
        "    made = [libc.shmget(7, 4096, 0o1666), libc.msgget(7, 0o1666), libc.semget(7, 1, 0o1666)]\n"
        "    try: os.chmod('/scratch', 0); made.append(0)\n    except OSError: pass\n"
        "    return [number for number in made if number >= 0]"
    )
    found = attacked(source)
    assert isinstance(found, Finished) and isinstance(found.values[0], Ok) and found.values[0].json in ([], [0])


def test_s18_sandboxes_do_not_see_each_other():
    nap = "import time\ndef solve(): time.sleep(0.5); return 'woke'"
    hunt = (
        "import os, time\ndef solve():\n    time.sleep(0.1)\n"
        "    for pid in range(2, 5000):\n        if pid != os.getpid():\n"
        "            try: os.kill(pid, 9)\n            except OSError: pass"
    )
    with Sandbox(workers=2, limits=LIMITS) as two:
        slept, hunted = two.map([Job(source=source, call="solve", inputs=((),)) for source in (nap, hunt)])
    assert slept == Finished(values=(Ok("woke"),)) and isinstance(hunted, Finished)


def test_s19_the_kernels_rare_doors(attacked):
    source = (
        "import ctypes, os, platform\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "x86 = platform.machine() == 'x86_64'\n"
        "CALLS = dict(mount=165, pivot_root=155, unshare=272, bpf=321, io_uring=425, userfaultfd=323, perf=298,\n"
        "    init_module=175, keyctl=250, open_by_handle=304, memfd=319, fsopen=430, chroot=161, reboot=169,\n"
        "    setns=308, future=500, x32=0x40000000 + 39) if x86 else dict(mount=40, pivot_root=41, unshare=97,\n"
        "    bpf=280, io_uring=425, userfaultfd=282, perf=241, init_module=105, keyctl=219, memfd=279)\n"
        "def solve():\n    got = []\n"
        "    for name, number in CALLS.items():\n"
        "        if libc.syscall(number, 0x10000000, 0, 0, 0, 0) >= 0 or ctypes.get_errno() not in (1, 38):\n"
        "            got.append([name, ctypes.get_errno()])\n"
        "    for kind in (0o020000, 0o060000):\n"
        "        try: os.mknod('device', kind | 0o666, os.makedev(1, 1)); got.append('mknod')\n"
        "        except OSError: pass\n"
        "    return got"
    )
    assert attacked(source) == Finished(values=(Ok([]),))


def test_s20_setuid_program(attacked):
    source = (
        "import os, shutil, subprocess\ndef solve():\n"
        "    shutil.copy('/usr/bin/id', 'id')\n    os.chmod('id', 0o6755)\n"
        "    said = [subprocess.run(['./id', '-u'], capture_output=True, text=True).stdout.strip()]\n"
        "    try: os.setuid(0); said.append('root')\n    except OSError: pass\n    return said"
    )
    (value,) = attacked(source).values
    assert value.json == [value.json[0]] and value.json[0] != "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program that is root's")
def test_s20_setuid_program_of_root():
    """One of the host's own, shown inside: it gains nothing there, and it does outside."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "id"
        shutil.copy("/usr/bin/id", program)
        program.chmod(0o4755)
        Path(folder).chmod(0o755)
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        outside = subprocess.run([program], **nobody, capture_output=True, text=True).stdout
        with Session((str(program),), readable=(folder,)) as session:
            inside = session.receive_all().decode()
    assert "euid=0(root)" in outside
    assert "uid=" in inside and "euid" not in inside and "root" not in inside


def test_s21_no_core_image(attacked):
    source = (
        "import ctypes, resource\ndef solve(x):\n    return list(resource.getrlimit(4)) if x else ctypes.string_at(0)"
    )
    found = attacked(source, (1,), (0,))
    assert isinstance(found, Raised) and found.values == (Ok([0, 0]),) and "SIGSEGV" in found.error
    raising = "import resource\ndef solve(): resource.setrlimit(resource.RLIMIT_CORE, (1, 1))"
    assert attacked(raising).values[0].type == "ValueError"


def test_s22_a_folder_full_of_odd_names(attacked):
    source = (
        "import os\ndef solve():\n"
        "    for i in range(20000): open(f'f{i}', 'w').close()\n"
        "    for name in (b'new\\nline', b'\\xff\\xfe', b'..x', b'-rf', b' ', '\\u202e'): open(name, 'w').close()\n"
        "    for _ in range(1500): os.mkdir('d'); os.chdir('d')\n"
    )
    began = time.monotonic()
    found = attacked(source)
    assert isinstance(found, Finished | Exceeded), found
    assert time.monotonic() - began < LIMITS.wall_seconds + 3


def test_s23_archives_are_bytes(attacked):
    """No part of a sandbox unpacks anything: an archive in an answer is text like any other."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../../escape", "x")
    for data in (packed.getvalue(), zlib.compress(bytes(10**7))):
        text = data.decode("latin-1")
        assert attacked("def solve(x): return x", (text,)) == Finished(values=(Ok(text),))
    bomb = "import zlib\ndef solve(): return len(zlib.decompress(zlib.compress(bytes(10**6)), bufsize=10**9))"
    assert attacked(bomb) == Exceeded(resource="memory")


def test_closing_leaves_no_process_even_under_way(tmp_path):
    before = descendants()
    made = Sandbox(workers=2, limits=LIMITS)
    assert (
        made.map([Program(source="print(input())", stdins=("a",))] * 3)
        == [Finished(values=(Ok("a\n"),), stdout="a\n")] * 3
    )
    assert len(descendants() - before) >= 2
    made.close()
    assert descendants() <= before
