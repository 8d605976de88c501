"""Permanent restrictions of a process, by system calls: privileges, files, calls, resources.

The module needs only the filter module and the C library, so that it runs inside and outside a sandbox. Children
inherit every restriction, and none can be undone.
Source: Linux, Documentation/userspace-api/landlock.rst and prctl(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Iterable

from gnomon.sandbox.seccomp import WORKER, filter_program

__all__ = ["drop_capabilities", "harden", "landlock", "landlock_abi", "limit", "load_filter", "lock_privileges"]

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
LIBC = ctypes.CDLL(None, use_errno=True)

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System-call numbers of Landlock, the same on every architecture."""
EXECUTE, WRITE, READ, LIST, TRUNCATE, DEVICE_IOCTL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
ON_FILES = EXECUTE | WRITE | READ | TRUNCATE | DEVICE_IOCTL
RIGHTS = {1: 2**13 - 1, 2: 2**14 - 1, 3: 2**15 - 1, 4: 2**15 - 1, 5: 2**16 - 1}
"""All file rights of each ABI version. Later versions add none."""
TCP = 0b11
"""Bind and connect TCP sockets, from ABI 4."""
SCOPES = 0b11
"""Abstract unix sockets and signals of other processes, from ABI 6."""
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom")
"""Paths that a running interpreter reads: libraries, and devices without data."""


def call(name: str, *words: object) -> int:
    """A C function's result. Raises: OSError if it is negative."""
    result = int(getattr(LIBC, name)(*words))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int) -> int:
    return call("prctl", option, *(ctypes.c_ulong(word) for word in (value, 0, 0, 0)))


def lock_privileges() -> None:
    """Forbid privilege gains by started programs, tracing by other processes of the user, and core dumps."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_DUMPABLE, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def drop_capabilities() -> None:
    """Drop every capability, also from the bounding set."""
    for number in range(64):
        try:
            prctl(PR_CAPBSET_DROP, number)
        except OSError:  # After the last capability, or without the privilege to drop it.
            break
    version_3 = struct.pack("=Ii", 0x20080522, 0)
    call("capset", version_3, bytes(24))


def limit(*, memory: int = 0, file: int = 0, descriptors: int = 0, processes: int = 0, cpu: int = 0) -> None:
    """Set resource limits, soft and hard. Args: cpu: seconds; memory, file: bytes. Zero means unchanged."""
    for name, value in (
        ("AS", memory),
        ("FSIZE", file),
        ("NOFILE", descriptors),
        ("NPROC", processes),
        ("CPU", cpu),
    ):
        if value:
            number = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(number)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (value, value))


def landlock_abi() -> int:
    """Landlock ABI version of the kernel; 0 if it has none."""
    try:
        return call("syscall", CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    except OSError:
        return 0


def landlock(readable: Iterable[str], writable: Iterable[str] = (), *, tcp: bool = False) -> int:
    """Allow reading and executing below some paths, and all access below others. Missing paths are skipped.

    Args: tcp: do not restrict TCP, for a process inside a network namespace.
    Returns: the ABI version used.
    Raises: OSError EOPNOTSUPP if the kernel has no Landlock.
    """
    abi = landlock_abi()
    if not abi:
        raise OSError(errno.EOPNOTSUPP, "the kernel has no Landlock")
    rights_of_kernel = RIGHTS[min(abi, 5)]
    attributes = struct.pack("=Q", rights_of_kernel)
    attributes += struct.pack("=Q", 0 if tcp else TCP) if abi >= 4 else b""
    attributes += struct.pack("=Q", SCOPES) if abi >= 6 else b""
    ruleset = call("syscall", CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    try:
        for rights, paths in ((EXECUTE | READ | LIST, readable), (rights_of_kernel, writable)):
            for path in paths:
                allow(ruleset, path, rights & rights_of_kernel)
        call("syscall", RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return abi


def allow(ruleset: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights &= ~0 if os.path.isdir(path) else ON_FILES
        call("syscall", ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, beneath), 0)
    finally:
        os.close(beneath)


def load_filter(program: bytes) -> None:
    """Install a system-call filter. After `lock_privileges` this needs no privilege."""
    array = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(array))
    call("prctl", PR_SET_SECCOMP, ctypes.c_ulong(2), header, ctypes.c_ulong(0), ctypes.c_ulong(0))


def harden(readable: Iterable[str]) -> None:
    """Confine this process in the host's namespaces: no network, no new process, no signals, no writes.

    It can read only system libraries and `readable`.

    Raises: OSError if the kernel has no Landlock or the architecture has no filter.
    """
    program = filter_program(WORKER, platform.machine())
    lock_privileges()
    drop_capabilities()
    landlock([*SYSTEM, *readable], [os.devnull])
    load_filter(program)
