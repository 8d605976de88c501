"""The wall: how bubblewrap is called, and what of the host is seen through it.

Seen, read-only: /usr, the interpreter, the modules that were asked for. Writable: one tmpfs of a fixed size. Nothing
else of the host's files, none of its processes, no network, no environment.
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

__all__ = ["ENVIRONMENT", "SCRATCH", "Wall", "nobody", "spawn", "way"]

SCRATCH = "/scratch"
"""The one writable folder inside, and the working folder of every job."""
OURS = "/opt/gnomon"
ALTERNATIVES = "/etc/alternatives"
"""Where Debian says which program a name such as vim or awk stands for."""
FIRST_UID = 2_000_000_000
"""Sandboxes of a trainer that is root run under user ids from here on, which no distribution hands out."""
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
"""All that confined code finds in its environment, the same on every host."""
DEVICES = ("null", "zero", "full", "random", "urandom")
START = "import sys; sys.path.insert(0, sys.argv[1]); from gnomon.sandbox.inside import main; main()"
ENTER = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1"; shift; n=$((n-1)); done; exec "$@"'
"""Join control groups before anything else: what is started later is born inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """What a sandbox can see and keep."""

    scratch_bytes: int
    readable: tuple[str, ...] = ()
    """Paths of the host that are seen at the same place inside, read-only."""
    terminal: bool = False
    """Give it /proc of its own processes and /dev with terminals: for sessions."""


def way() -> str:
    """How sandboxes are built for this process: `root`, with a real change of user, or `user`, in a user namespace.

    Raises: ResourceError, without bubblewrap.
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
    """The call of bwrap, up to the program inside."""
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
    seen = minimal([os.path.realpath(sys.base_prefix), *wall.readable])
    # Folders on the way to a mount are made for their maker alone, who is not the one who runs inside.
    mounts = (*seen, "/dev/null", f"{OURS}/gnomon/sandbox/run.py", *([ALTERNATIVES] if wall.terminal else []))
    for folder in sorted({str(above) for path in mounts for above in Path(path).parents}):
        words += ["--perms", "0755", "--dir", folder] if folder != "/" else []
    for path in seen:
        words += ["--ro-bind", path, path]
    if not any(path.startswith("/tmp") for path in seen):
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
    words += ["--perms", "1777", "--size", str(wall.scratch_bytes), "--tmpfs", SCRATCH]
    for name, value in ENVIRONMENT.items():
        words += ["--setenv", name, value]
    return [*words, "--remount-ro", "/", "--chdir", SCRATCH, "--"]


def minimal(paths: Iterable[str]) -> list[str]:
    """Paths that exist, without those that /usr or another of them already shows."""
    kept: list[str] = []
    for path in sorted({os.path.abspath(path) for path in paths if os.path.exists(path)}):
        if not any(path == seen or path.startswith(f"{seen}/") for seen in ("/usr", *kept)):
            kept.append(path)
    return kept


def spawn(
    wall: Wall,
    kind: str,
    doors: list[str],
    near: socket.socket,
    streams: tuple[int, int, int],
    folder: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a sandbox's first process, with one end of a socket and its standard streams.

    Args: doors: of control groups to enter first; folder: to work in, where there is no wall (`kind` is `bare`).
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
    """A user id for one sandbox, shared with no other that is likely to be there."""
    return FIRST_UID + (os.getpid() * 4096 + next(UIDS) % 4096) % 100_000_000
