"""The first process inside a sandbox. It drops all privileges and forks a process for each job.

`gnomon.sandbox.worker` or `gnomon.sandbox.session` starts it and sends messages over one socket. It ends when the
socket closes. As it is the first process of its namespace, all others end with it.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import select
import signal
import site
import socket
import stat
import sys
from typing import Any

from gnomon.sandbox import confine
from gnomon.sandbox.run import FILES, frame, run

__all__ = ["HEAD", "main", "pack"]

HEAD = 4
CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
TIOCSCTTY = 0x540E
DESCRIPTORS = 256
STDIN = ".stdin"
"""File of a program's standard input in the working folder, to which /dev/stdin leads."""
FILES_KEPT = 1000
"""Largest number of files in the archive of a working folder."""
PROCESSORS = 2
"""Number of processors that a job counts on every host, so that it starts no more processes than it may have."""


def main() -> None:
    """Entry point. The last argument is the descriptor of the socket; the first message is the plan."""
    # The kernel delivers to the first process only signals with a handler, so Python's own handler is removed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[-1]))
    plan, _ = receive(control)
    for name in plan["imports"]:
        sys.path[:] = [*sys.path, *(path for path in plan["paths"] if path not in sys.path)]
        importlib.import_module(name)
    report = settle(plan)
    # What the interpreter does at its start unless it is started without `site`.
    site.setquit()
    site.setcopyright()
    site.sethelper()
    own = os.pidfd_open(os.getpid())
    if plan["argv"]:
        session(control, plan, report, own)
    socket.send_fds(control, [pack(report)], [own])
    os.close(own)
    gc.collect()
    gc.freeze()
    while True:
        serve(control, plan)


def settle(plan: dict[str, Any]) -> dict[str, Any]:
    """Drop all privileges. Returns: the restrictions that depend on the host."""
    report: dict[str, Any] = {"landlock": 0, "user_namespace": plan["way"] == "user"}
    os.umask(0o022)
    if plan["way"] == "root":
        os.setgroups([])
        os.setresgid(plan["uid"], plan["uid"], plan["uid"])
        os.setresuid(plan["uid"], plan["uid"], plan["uid"])
        # No user is mapped into the namespace, so its privileges have no effect; they are dropped next.
        report["user_namespace"] = confine.LIBC.unshare(ctypes.c_int(CLONE_NEWUSER)) == 0
    confine.lock_privileges()
    confine.drop_capabilities()
    with contextlib.suppress(OSError):
        report["landlock"] = confine.landlock(plan["readable"], plan["writable"], tcp=bool(plan["argv"]))
    if plan["way"] != "bare":
        confine.load_filter(bytes.fromhex(plan["filter"]))
    return report


def serve(control: socket.socket, plan: dict[str, Any]) -> None:
    """Fork a process for every job, and report its start and its exit status.

    Only the new process reads the job. What this process read, later jobs would find in their copy of its memory.
    """
    if not control.recv(1, socket.MSG_PEEK):
        os._exit(0)
    waiting, received = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work, descriptors = receive(control)
            control.close()
            os.close(received)
            os.close(waiting)
            status = work_alone(work, descriptors, plan)
        finally:
            os._exit(status)
    os.close(received)
    os.read(waiting, 1)  # Until the child has received its job.
    os.close(waiting)
    handle = os.pidfd_open(child)
    socket.send_fds(control, [pack({"began": True})], [handle])
    while handle not in wait_for(handle, control):
        if not control.recv(1, socket.MSG_PEEK):
            os._exit(0)
    os.close(handle)
    _, status, usage = os.wait4(child, 0)
    for name in (STDIN, *FILES):
        with contextlib.suppress(OSError):
            os.unlink(name)
    ended = {"status": status, "cpu": usage.ru_utime + usage.ru_stime, "left": survivors() or littered()}
    control.sendall(pack(ended))


def wait_for(handle: int, control: socket.socket, seconds: float | None = None) -> list[int]:
    """The descriptors, of the two, that are ready."""
    poll = select.poll()  # It takes descriptors of any number: those of the last of many programs are above 1024.
    for descriptor in (handle, control.fileno()):
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if seconds is None else 1000 * seconds)]


def survivors() -> bool:
    """Whether any process of the job is alive."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def littered() -> bool:
    """Whether the job left a file, or a folder that cannot be read."""
    try:
        return bool(os.listdir("."))
    except OSError:
        return True


def work_alone(work: dict[str, Any], descriptors: list[int], plan: dict[str, Any]) -> int:
    """The body of a job's process. Returns: its exit status."""
    result, out, err = descriptors
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if work["call"]:
        stdin = os.open(os.devnull, os.O_RDONLY)
    else:
        stdin = os.open(STDIN, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        with open(stdin, "wb", closefd=False) as file:
            file.write(work["stdin"].encode(errors="surrogatepass"))
        os.lseek(stdin, 0, os.SEEK_SET)
    for target, descriptor in enumerate((stdin, out, err)):
        os.dup2(descriptor, target)
        os.close(descriptor)
    sys.stdin = open(0, encoding="utf-8", errors="surrogatepass", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)  # noqa: SIM115
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    os.cpu_count = lambda: PROCESSORS
    if plan["way"] == "bare":
        confine.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        confine.load_filter(bytes.fromhex(plan["filter"]))
    confine.limit(**plan["limits"] | {"cpu": work["cpu"], "descriptors": DESCRIPTORS})
    nonce = bytes.fromhex(work["nonce"])

    def send(line: list[Any]) -> None:
        rest = frame(line, nonce)
        while rest:
            rest = rest[os.write(result, rest) :]

    send(["ready"])
    status = run(work, send)
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        with contextlib.suppress(BaseException):
            getattr(sys, name).flush()
    confine.LIBC.fflush(None)
    return status


def session(control: socket.socket, plan: dict[str, Any], report: dict[str, Any], own: int) -> None:
    """Start one program and wait until it ends or its time is over; then end all processes."""
    handles = [own]
    if plan["pty"]:
        near, far = os.openpty()
        handles.append(near)
    if plan["port"]:
        listener = socket.create_server(("127.0.0.1", plan["port"]), backlog=128)
        handles.append(listener.fileno())
    for name, text in plan["files"].items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "wb") as file:
            file.write(base64.b64decode(text))
        os.utime(name, (0, 0))
    child = os.fork()
    if child == 0:
        try:
            control.close()
            os.setsid()
            if plan["pty"]:
                confine.call("ioctl", far, ctypes.c_ulong(TIOCSCTTY), 0)
                for target in (0, 1, 2):
                    os.dup2(far, target)
            confine.limit(**plan["limits"] | {"cpu": plan["cpu"], "descriptors": DESCRIPTORS})
            for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(plan["argv"][0], plan["argv"], dict(os.environ) | plan["environment"])
        except OSError as error:
            os.write(2, f"{plan['argv'][0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    socket.send_fds(control, [pack(report)], handles)
    if plan["pty"]:
        os.close(near)
        os.close(far)
    if plan["port"]:
        listener.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(nothing, target)  # This process must not keep the pipes of the program open.
    watch(control, child, plan["wall"], plan["kept"])


def watch(control: socket.socket, child: int, wall: float, archive_bytes: int) -> None:
    """Reap processes until the child ends, the socket closes or the time is over; then report the child's status.

    Args: archive_bytes: bytes of the working folder that are reported too, as an archive.
    """
    handle = os.pidfd_open(child)
    line: dict[str, int | None] = {"ended": None}
    ready = wait_for(handle, control, wall)
    if handle in ready:
        line = {"ended": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}
    folder = b""
    if archive_bytes and control.fileno() not in ready:
        # The first process of a namespace can end all others, which then change nothing more.
        with contextlib.suppress(OSError):
            os.kill(-1, signal.SIGKILL)
        folder = archive(archive_bytes)
        line["folder"] = len(folder)
    with contextlib.suppress(OSError):
        control.sendall(pack(line) + folder)
    os._exit(0)


def archive(most: int) -> bytes:
    """The regular files of the working folder that fit into so many bytes, in the order of their names."""
    import tarfile  # Imported here, because judging workers do not need it.

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted(paths(".", FILES_KEPT)):
            with contextlib.suppress(OSError):
                if buffer.tell() + os.lstat(path).st_size <= most:
                    tar.add(path, recursive=False)
    return buffer.getvalue()


def paths(folder: str, most: int) -> list[str]:
    """Up to so many regular files below a folder, as paths relative to it. Links are not followed."""
    result: list[str] = []
    for above, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(above, name), folder)
            with contextlib.suppress(OSError):
                if stat.S_ISREG(os.lstat(path).st_mode):
                    result.append(path)
            if len(result) == most:
                return result
    return result


def pack(message: dict[str, Any]) -> bytes:
    """A message encoded for the socket."""
    body = json.dumps(message).encode()
    return len(body).to_bytes(HEAD, "little") + body


def receive(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next message and its descriptors. Ends the process if the socket is closed."""
    head, descriptors, *_ = socket.recv_fds(control, HEAD, 3)
    rest = bytearray()
    size = int.from_bytes(head, "little")
    while len(rest) < size and (piece := control.recv(min(size - len(rest), 2**20))):
        rest += piece
    if len(head) < HEAD or len(rest) < size:
        os._exit(0)
    return json.loads(rest), descriptors
