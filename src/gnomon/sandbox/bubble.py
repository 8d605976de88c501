"""Call bubblewrap, and decide what a sandbox sees of the host.

Read-only: /usr, the interpreter, the requested modules. Writable: one tmpfs of a fixed size. A sandbox sees no other
files of the host, none of its processes, no network and no environment variables.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from gnomon.errors import ResourceError
from gnomon.sandbox.inside import STDIN

__all__ = ["ENVIRONMENT", "SCRATCH", "Wall", "nobody", "spawn", "way"]

SCRATCH = "/scratch"
"""The only writable folder inside, and the working folder of every job."""
OURS = "/opt/gnomon"
PACKAGE = Path(__file__).parents[1]
"""Gnomon's own code. A sandbox does not see it, because the code of an environment can make tasks and their answers."""
ALTERNATIVES = "/etc/alternatives"
"""Folder of Debian's links from generic program names, such as vim or awk, to programs."""
FIRST_UID = 2_000_000_000
"""First user id for sandboxes of a root trainer. No distribution assigns ids from here on."""
UIDS = count()
ENVIRONMENT = {
    "HOME": SCRATCH,
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "TERM": "dumb",
    "TMPDIR": SCRATCH,
    "TZ": "UTC",
}
"""The environment variables of confined code, the same on every host."""
DEVICES = ("null", "zero", "full", "random", "urandom")
START = "import sys; sys.path.insert(0, sys.argv[1]); from gnomon.sandbox.inside import main; main()"
ENTER = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1"; shift; n=$((n-1)); done; exec "$@"'
"""Shell code that joins the control groups first, so that all later processes are in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """The files that a sandbox can read and write."""

    scratch_bytes: int
    readable: tuple[str, ...] = ()
    """Paths of the host that are visible inside at the same place, read-only."""
    terminal: bool = False
    """Mount /proc for its own processes and /dev with terminals, for sessions."""


def way() -> str:
    """The kind of sandboxes for this process: `root`, with a real change of user, or `user`, in a user namespace.

    Raises: ResourceError if bubblewrap is not installed.
    """
    if shutil.which("bwrap") is None:
        raise ResourceError(
            "E520",
            "untrusted code cannot run: bubblewrap is not installed",
            where=f"PATH={os.environ.get('PATH', '')}",
            why="the sandbox needs the program bwrap; no code was run",
            fix="apt-get install bubblewrap",
        )
    return "root" if os.geteuid() == 0 else "user"


def command(wall: Wall, kind: str) -> list[str]:
    """The bwrap command line, up to the program inside."""
    here = Path(__file__).parent
    words = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--hostname", "sandbox", "--as-pid-1", "--new-session", "--clearenv"]
    if kind == "root":
        words += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        words += ["--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]
    words += ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(name):
            words += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            words += ["--ro-bind", name, name]
    readable = minimal([os.path.realpath(sys.base_prefix), *wall.readable])
    # bwrap makes parent folders of a mount private to its own user, which differs from the user inside.
    mounts = (*readable, "/dev/null", f"{OURS}/gnomon/sandbox/run.py", *([ALTERNATIVES] if wall.terminal else []))
    for folder in sorted({str(above) for path in mounts for above in Path(path).parents}):
        words += ["--perms", "0755", "--dir", folder] if folder != "/" else []
    for path in readable:
        words += ["--ro-bind", path, path]
    if any(PACKAGE.is_relative_to(path) for path in ("/usr", *readable)):
        words += ["--tmpfs", str(PACKAGE), "--remount-ro", str(PACKAGE)]
    if not any(path.startswith("/tmp") for path in readable):
        words += ["--symlink", SCRATCH, "/tmp"]
    for name in ("run", "inside", "confine", "seccomp"):
        words += ["--ro-bind", str(here / f"{name}.py"), f"{OURS}/gnomon/sandbox/{name}.py"]
    if wall.terminal:
        words += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
        words += ["--perms", "1777", "--size", str(wall.scratch_bytes), "--tmpfs", "/dev/shm"]
        words += ["--ro-bind-try", ALTERNATIVES, ALTERNATIVES]
    else:
        for name in DEVICES:
            words += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
        words += ["--perms", "0755", "--dir", "/dev/fd"]
        for name in ("stdin", "fd/0"):  # A job has no /proc, where these links lead elsewhere.
            words += ["--symlink", f"{SCRATCH}/{STDIN}", f"/dev/{name}"]
        words += ["--symlink", SCRATCH, "/dev/shm"]
    words += ["--perms", "1777", "--size", str(wall.scratch_bytes), "--tmpfs", SCRATCH]
    for name, value in ENVIRONMENT.items():
        words += ["--setenv", name, value]
    return [*words, "--remount-ro", "/", "--chdir", SCRATCH, "--"]


def minimal(paths: Iterable[str]) -> list[str]:
    """Existing paths, without those inside /usr or inside another path."""
    outermost: list[str] = []
    for path in sorted({os.path.abspath(path) for path in paths if os.path.exists(path)}):
        if not any(path == outer or path.startswith(f"{outer}/") for outer in ("/usr", *outermost)):
            outermost.append(path)
    return outermost


def spawn(
    wall: Wall,
    kind: str,
    doors: list[str],
    near: socket.socket,
    streams: tuple[int, int, int],
    folder: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a sandbox's first process, with one end of a socket and its standard streams.

    Args: doors: files of control groups to join first; folder: working folder if `kind` is `bare`.
    """
    python = [os.path.realpath(sys.executable), "-S", "-s", "-P", "-B", "-c", START]
    if kind == "bare":
        words = [*python, str(Path(__file__).parents[2]), str(near.fileno())]
    else:
        words = [*command(wall, kind), *python, OURS, str(near.fileno())]
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        ["/bin/sh", "-c", ENTER, "sh", str(len(doors)), *doors, *words],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=[near.fileno()],
        cwd=folder,
        start_new_session=True,
        env=ENVIRONMENT | {"PATH": os.environ.get("PATH", "")},
    )


def nobody() -> int:
    """A user id for one sandbox that no other is likely to use."""
    return FIRST_UID + (os.getpid() * 4096 + next(UIDS) % 4096) % 100_000_000
