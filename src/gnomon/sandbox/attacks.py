"""Attacks on a sandbox, run inside it. Each returns what it obtained, or an empty text if it failed.

The module needs only the standard library, so that its source can run as a job.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

__all__ = ["attack"]

LIBC = ctypes.CDLL(None, use_errno=True)
MACHINE = os.uname().machine == "x86_64"
KEYCTL, BPF, URING, PERF, FAULT = (250, 321, 425, 298, 323) if MACHINE else (219, 280, 425, 241, 282)
Facts = dict[str, Any]


def attack(level: str, facts: Facts) -> dict[str, tuple[bool, str]]:
    """Run every attack that a level must withstand. Returns: per property, whether it is required, and the result."""
    attempts = {**EVERYWHERE, **(WORKER if level == "worker" else WALLED)}
    results = {}
    for name, attempt in attempts.items():
        try:
            breach = attempt(facts)
        except (OSError, MemoryError):
            breach = ""
        results[name] = True, breach
    return results


def connects(facts: Facts) -> str:
    with socket.create_connection(("127.0.0.1", facts["port"]), timeout=2):
        return "it reached a service of the host"


def resolves(facts: Facts) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.settimeout(0.2)
        out.connect(("192.0.2.1", 53))
        return "there is a route out of it"


def reads_accounts(facts: Facts) -> str:
    with open("/etc/passwd", encoding="utf-8") as file:
        return "it read /etc/passwd" if file.read(1) else ""


def lists_home(facts: Facts) -> str:
    with open(f"{facts['home']}/.profile", encoding="utf-8") as file:
        return "it read a file of the user" if file.read(1) else ""


def writes_code(facts: Facts) -> str:
    with open(facts["file"], "a", encoding="utf-8"):
        return "it can change our code"


def writes_system(facts: Facts) -> str:
    for folder in ("/", "/usr", "/dev", "/var/tmp", "/etc"):
        try:
            with open(f"{folder}/gnomon-probe", "w", encoding="utf-8"):
                os.unlink(f"{folder}/gnomon-probe")
                return f"it can write to {folder}"
        except OSError:
            continue
    return ""


def signals_us(facts: Facts) -> str:
    os.kill(facts["pid"], 0)
    return "it can signal the trainer"


def traces(facts: Facts) -> str:
    return "it may trace" if LIBC.ptrace(0, 0, None, None) == 0 else ""


def new_namespace(facts: Facts) -> str:
    return "it can make a user namespace" if LIBC.unshare(ctypes.c_int(0x10000000)) == 0 else ""


def mounts(facts: Facts) -> str:
    return "it can mount" if LIBC.mount(b"none", b"/tmp", b"tmpfs", ctypes.c_ulong(0), None) == 0 else ""


def kernel_features(facts: Facts) -> str:
    features = []
    for name, number in (("bpf", BPF), ("io_uring", URING), ("perf", PERF), ("userfault", FAULT), ("keys", KEYCTL)):
        result = LIBC.syscall(number, 0, 0, 0, 0, 0)
        if result >= 0 or ctypes.get_errno() not in (1, 38):  # EPERM from the filter; ENOSYS if the call is missing.
            features.append(name)
    return f"the kernel answers to {', '.join(features)}" if features else ""


def hoards(facts: Facts) -> str:
    return "it has 4 GiB" if len(bytearray(2**32)) else ""


def dumps(facts: Facts) -> str:
    return "a crash leaves an image" if resource.getrlimit(resource.RLIMIT_CORE) != (0, 0) else ""


def gains_rights(facts: Facts) -> str:
    return "programs may gain rights" if LIBC.prctl(39, 0, 0, 0, 0) != 1 else ""


def keeps_rights(facts: Facts) -> str:
    capabilities = ctypes.create_string_buffer(24)
    LIBC.capget((0x20080522).to_bytes(4, "little") + bytes(4), capabilities)
    return "it has capabilities" if any(capabilities.raw) else ""


def forks(facts: Facts) -> str:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "it can start a process"


def executes(facts: Facts) -> str:
    before = os.path.exists("/bin/true")
    os.posix_spawn("/bin/true", ["true"], {})
    return "it can start a program" if before else ""


def changes_labels(facts: Facts) -> str:
    os.chmod(facts["file"], os.stat(facts["file"]).st_mode)
    return "it can change modes"


def opens_socket(facts: Facts) -> str:
    socket.socket().close()
    return "it can open a socket"


def sees_processes(facts: Facts) -> str:
    visible = [name for name in os.listdir("/proc") if name.isdigit()]
    return f"it sees {len(visible)} processes" if len(visible) > 8 else ""


def kills_first(facts: Facts) -> str:
    if os.getpid() == facts["pid"]:
        return "its process number is that of the trainer"
    os.kill(1, signal.SIGKILL)
    time.sleep(0.01)
    return ""


def is_root(facts: Facts) -> str:
    return "it is root" if os.getuid() == 0 else ""


def bears_without_end(facts: Facts) -> str:
    children: list[int] = []
    try:
        while len(children) < 100:
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            children.append(child)
    except OSError:
        return ""
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return f"it has {len(children)} processes"


def one_large_file(facts: Facts) -> str:
    return fills("large", 2**30, 1)


def many_files(facts: Facts) -> str:
    return fills("many", 2**22, 64)


def fills(name: str, size: int, files: int) -> str:
    names = []
    try:
        for number in range(files):
            names.append(f"{name}{number}")
            with open(names[-1], "wb", buffering=0) as file:
                for _ in range(size // 2**22):
                    file.write(bytes(2**22))
                if os.fstat(file.fileno()).st_size < size:
                    return ""
    finally:
        for path in names:
            os.unlink(path)
    return f"it wrote {files} x {size} bytes"


def sees_environment(facts: Facts) -> str:
    return "" if len(os.environ) <= 20 and "PYTHONHASHSEED" in os.environ else "it has the trainer's environment"


Attempt = Callable[[Facts], str]
EVERYWHERE: dict[str, Attempt] = {
    "no service of the host": connects,
    "no network": resolves,
    "no accounts file": reads_accounts,
    "no file of the user": lists_home,
    "no change of our code": writes_code,
    "no write to the system": writes_system,
    "filter: no trace": traces,
    "filter: no new namespace": new_namespace,
    "filter: no mount": mounts,
    "filter: no rare kernel feature": kernel_features,
    "memory is capped": hoards,
    "no core image": dumps,
    "no gain of rights": gains_rights,
    "no capabilities": keeps_rights,
}
WORKER: dict[str, Attempt] = {
    "filter: no process": forks,
    "filter: no program": executes,
    "filter: no signal to the trainer": signals_us,
    "filter: no change of modes": changes_labels,
    "filter: no socket": opens_socket,
}
WALLED: dict[str, Attempt] = {
    "processes of the host unseen": sees_processes,
    "first process cannot be killed": kills_first,
    "another user": is_root,
    "processes are capped": bears_without_end,
    "one file is capped": one_large_file,
    "all files are capped": many_files,
    "no environment of the trainer": sees_environment,
}
