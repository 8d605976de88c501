"""System-call filters: classic BPF programs, assembled here and loaded by `prctl`, without a library.

A filter refuses the listed calls with EPERM and allows the rest. Calls newer than the list return ENOSYS, as if the
kernel did not have them. Source: Linux, Documentation/userspace-api/seccomp_filter.rst.
"""

from __future__ import annotations

import errno
import platform
import struct

__all__ = ["JOB", "SESSION", "WORKER", "filter_program"]

Table = dict[str, tuple[int | None, int | None]]
"""Numbers of system calls on x86_64 and aarch64 (asm/unistd.h); None if a call does not exist there."""

ALWAYS: Table = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "personality": (135, 92),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "lookup_dcookie": (212, 18),
    "uselib": (134, None),
}
"""Calls that confined code never needs: other processes' memory, namespaces, mounts, often exploited features."""

OTHERS: Table = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}
"""Calls that reach other processes of the same user; for code that shares the host's process table."""

SHARED: Table = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
}
"""System V and POSIX shared memory and queues. They outlive their process and could connect jobs."""

STARTS: Table = {
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
}
"""Calls that start another program or process."""

LABELS: Table = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchown": (93, 55),
    "chown": (92, None),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "utime": (132, None),
    "utimes": (235, None),
    "utimensat": (280, 88),
    "futimesat": (261, None),
}
"""Changes of a file's owner, mode and times, which Landlock does not govern."""

SINGLE: Table = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "socket": (41, 198),
    "prlimit64": (302, 261),
    "ioctl": (16, 29),
}
"""Calls that are refused for some arguments."""


MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of the tables, and the kernel's name for the architecture (linux/audit.h)."""
NEWEST = 462
"""The newest system call in the tables (mseal, Linux 6.10). Numbers above 424 are the same on all architectures."""
FCHMODAT2 = 452
NAMESPACES = 0x7E020080
"""All CLONE_NEW* flags."""
THREAD = 0x00010000
"""CLONE_THREAD."""
PUSH_INPUT, PASTE = 0x5412, 0x541C
"""ioctls that type into a terminal: TIOCSTI, TIOCLINUX."""
INET_AND_UNIX = (1, 2, 10)

JOB, SESSION, WORKER = "job", "session", "worker"

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000


def filter_program(profile: str, machine: str | None = None) -> bytes:
    """The filter of a profile as an array of `struct sock_filter`.

    Args:
        profile: `JOB`: no sockets, and no objects that outlive a process. `SESSION`: sockets inside its own network
            namespace. `WORKER`: no sockets, no new processes, no access to other processes or to file modes and
            owners, for code in the host's namespaces.
    Raises: OSError ENOSYS on an architecture without a table.
    """
    machine = machine or platform.machine()
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"no system-call table for {machine}")
    column, arch = MACHINES[machine]
    single = {name: numbers[column] or 0 for name, numbers in SINGLE.items()}
    code = [step(LOAD, 4), step(EQUAL, arch, 1, 0), step(RETURN, KILL), step(LOAD, 0)]
    code += [step(AT_LEAST, NEWEST + 1, 0, 1), refuse(errno.ENOSYS)]
    # The C library falls back to clone, whose flags the filter can read.
    code += [step(EQUAL, single["clone3"], 0, 1), refuse(errno.ENOSYS)]
    lists = [
        ALWAYS,
        *([SHARED] if profile != SESSION else []),
        *([OTHERS, STARTS, LABELS] if profile == WORKER else []),
    ]
    numbers = [row[column] for table in lists for row in table.values()]
    for number in sorted(number for number in numbers if number is not None):
        code += [step(EQUAL, number, 0, 1), refuse()]
    code += on_argument(single["clone"], 0, [step(ANY_BIT, NAMESPACES, 0, 1), refuse()])
    code += on_argument(single["ioctl"], 1, [step(EQUAL, PUSH_INPUT, 1, 0), step(EQUAL, PASTE, 0, 1), refuse()])
    if profile == WORKER:
        code += [step(EQUAL, FCHMODAT2, 0, 1), refuse()]
        code += on_argument(single["clone"], 0, [step(ANY_BIT, THREAD, 1, 0), refuse()])
        code += on_argument(single["prlimit64"], 0, [step(EQUAL, 0, 1, 0), refuse()])
    families = INET_AND_UNIX if profile == SESSION else ()
    accepted = [step(EQUAL, family, len(families) - i, 0) for i, family in enumerate(families)]
    code += on_argument(single["socket"], 0, [*accepted, refuse(errno.EACCES)])
    return b"".join([*code, step(RETURN, ALLOW)])


def step(code: int, operand: int, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction. Args: then, otherwise: number of instructions to skip if a comparison is true or false."""
    return struct.pack("=HBBI", code, then, otherwise, operand)


def refuse(error: int = errno.EPERM) -> bytes:
    return step(RETURN, REFUSE | error)


def on_argument(number: int, index: int, body: list[bytes]) -> list[bytes]:
    """`body` for one system call, after loading the low half of one of its arguments."""
    inner = [step(LOAD, 16 + 8 * index), *body, step(LOAD, 0)]
    return [step(EQUAL, number, 0, len(inner)), *inner]
