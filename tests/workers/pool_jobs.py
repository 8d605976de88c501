"""What a pool may be asked to run."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gnomon.workers.import_time import OWN, clocks


def run(kind: str, *words: Any) -> Any:
    return globals()[kind](*words)


def square(x: int) -> int:
    return x * x


def nap(seconds: float, value: Any = None) -> Any:
    time.sleep(seconds)
    return value


def spin() -> None:
    while True:
        pass


def burn(seconds: float) -> None:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


def spin_outside_python() -> None:
    sum(range(10**15))


def fill_memory() -> int:
    return len(b"x" * 2**33)


def talk() -> str:
    return "x" * 2**24


def leave(status: int) -> None:
    os._exit(status)


def quit_politely() -> None:
    sys.exit(3)


def stop_by_the_side_door() -> None:
    class Sly(BaseException):
        def __str__(self) -> str:
            raise RuntimeError("no")

    raise Sly


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def unpicklable() -> Any:
    return lambda: None


def dive() -> int:
    return 1 + dive()


def write_and_ask() -> tuple[str, str]:
    print("not for the trainer's output")
    os.write(1, b"nor this")
    return sys.stdin.read(), os.ttyname(0) if os.isatty(0) else ""


def half_an_answer() -> None:
    """Find the channel, write the head of an answer that never comes, and wait."""
    for descriptor in range(3, 64):
        try:
            with socket.socket(fileno=os.dup(descriptor)) as channel:
                channel.sendall((100).to_bytes(8, "little") + b"x")
        except OSError:
            continue
    time.sleep(3600)


def leave_a_child(note: str) -> None:
    subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(2); open({note!r}, 'w').close()"])
    time.sleep(3600)


def die_while_planned(plan: str) -> str:
    """Dies as many times as a file says, and then answers."""
    left = int(Path(plan).read_text())
    Path(plan).write_text(str(left - 1))
    if left > 0:
        os._exit(1)
    return "answered"


def die_once(note: str) -> str:
    if not Path(note).exists():
        Path(note).touch()
        os._exit(1)
    return "second try"


def pid() -> int:
    return os.getpid()


class Judge:
    def __init__(self, answer: int) -> None:
        self.answer = answer

    def verify(self, said: int) -> bool:
        return said == self.answer


def parents() -> dict[str, Any]:
    """Where a worker comes from, and what it finds."""
    above = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
    return {
        "fork server": os.getppid(),
        "base server": int(above[1]),
        "been here": hasattr(sys, "been_here"),
        "folder": os.getcwd(),
        "words": [os.environ.get("GNOMON_TEST_WORD"), os.environ.get("GNOMON_TEST_MORE")],
    }


def repeated(count: int) -> str:
    return "x" * count


class Unsendable:
    def __reduce__(self) -> Any:
        raise RuntimeError("not this one")

    def __str__(self) -> str:
        return "unsendable"


def leave_a_daemon() -> int:
    """The process id of a child that has a session of its own."""
    return subprocess.Popen(["sleep", "600"], start_new_session=True).pid


def import_slowly(folder: str, name: str, how: str) -> int:
    """Import a module of the folder, by statement or by function. Returns: its `x`."""
    sys.path.insert(0, folder)
    if how == "in a thread":
        with ThreadPoolExecutor(1) as threads:
            return int(threads.submit(importlib.import_module, name).result().x)
    module = __import__(name) if how == "statement" else importlib.import_module(name)
    return int(module.x)


def import_and(folder: str, name: str, kind: str, *words: Any) -> Any:
    import_slowly(folder, name, "statement")
    return run(kind, *words)


def fork_and_import(folder: str, name: str) -> bool:
    """Whether the imports of a child leave this process's count as it is."""
    before = OWN[-1].time_spent(clocks())
    if os.fork() == 0:
        import_slowly(folder, name, "statement")
        os._exit(0)
    os.wait()
    return OWN[-1].time_spent(clocks()) == before
