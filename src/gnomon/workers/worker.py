"""The code of a pool's processes: two levels of fork servers, and the workers.

None of them has threads, torch or a terminal. A worker ends when its channel closes, and can be killed at any time.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pickle
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

from gnomon.sandbox.confine import harden
from gnomon.sandbox.descendants import adopt, end_all
from gnomon.workers.import_time import ImportTime

__all__ = ["HEAD", "frame", "read_frame", "serve_base"]

PR_SET_PDEATHSIG = 1
HEAD = 8
"""Size in bytes of the length before every payload, little-endian."""
FRAMES = 3
"""Number of innermost traceback lines in an answer."""


def serve_base() -> None:
    """Entry point of the base fork server. Its argument is the descriptor of its socket."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.dup2(1, 2)  # Its error output is not read from here on.
    channel.sendall(b"!")
    fork_for_each(channel, serve_pool, first=import_named)


def import_named(names: bytes) -> None:
    """Import modules of Gnomon, for this and later fork servers."""
    for name in names.decode().split():
        with suppress(Exception):  # The fork server retries and reports the reason.
            importlib.import_module(name)
    freeze()


def fork_for_each(
    channel: socket.socket, child: Callable[[int], None], first: Callable[[bytes], None] | None = None
) -> None:
    """Fork a child for every descriptor that arrives, until the socket closes.

    Args: first, called before each fork with the bytes that came with the descriptor.
    """
    while True:
        data, descriptors, *_ = socket.recv_fds(channel, 2**16, 1)
        if not data:
            return
        if first is not None:
            first(data)
        if os.fork() == 0:
            channel.close()
            try:
                child(descriptors[0])
            finally:
                os._exit(0)
        os.close(descriptors[0])


def freeze() -> None:
    """Exclude all current objects from garbage collection, which would copy their pages in a child."""
    gc.collect()
    gc.freeze()


def serve_pool(descriptor: int) -> None:
    """The fork server of one pool: import the function's modules, then fork workers."""
    with socket.socket(fileno=descriptor) as channel:
        announce(channel)
        with channel.makefile("rb") as stream:
            environment, folder, path, modules, task = pickle.load(stream)
        try:
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            sys.path[:] = path
            for name in modules:
                importlib.import_module(name)
            pickle.loads(task)  # Imports of the function's object happen here and not in a job.
        except BaseException as error:
            channel.sendall(frame(traceback.format_exception_only(error)[-1].strip().encode(errors="replace") or b"?"))
            return
        freeze()
        adopt()
        channel.sendall(frame(b""))
        fork_for_each(channel, work)
        end_all()


def work(descriptor: int) -> None:
    """Answer calls from the channel until it closes. Every call gets one answer; no call ends the loop."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rb") as stream:
        try:
            page = os.memfd_create("import time")
            imports = ImportTime(page)
            announce(channel, page)
            os.close(page)
            function, memory, output, readable = pickle.loads(read_frame(stream))
            nothing = os.open(os.devnull, os.O_RDWR)
            for standard in (0, 1, 2):
                os.dup2(nothing, standard)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            if readable is not None:
                harden([sys.base_prefix, sys.prefix, *(path or os.getcwd() for path in sys.path), *readable])
            imports.count()
            while True:
                answer = answer_call(function, read_frame(stream))
                channel.sendall(frame(answer if len(answer) <= output else pickle.dumps(("exceeded", "output"))))
        except (EOFError, ConnectionError):
            return


def announce(channel: socket.socket, *others: int) -> None:
    """Send this process's id, and descriptors: of the process, then others."""
    itself = os.pidfd_open(os.getpid())
    socket.send_fds(channel, [os.getpid().to_bytes(HEAD, "little")], [itself, *others])
    os.close(itself)


def frame(payload: bytes) -> bytes:
    """A payload after its length."""
    return len(payload).to_bytes(HEAD, "little") + payload


def read_frame(stream: BinaryIO) -> bytes:
    """The next payload of a stream. Raises: EOFError at its end."""
    head = stream.read(HEAD)
    payload = stream.read(int.from_bytes(head, "little"))
    if len(head) < HEAD or len(payload) < int.from_bytes(head, "little"):
        raise EOFError
    return payload


def answer_call(function: Any, call: bytes) -> bytes:
    """The pickled answer to a call: the returned value or the failure."""
    try:
        arguments = pickle.loads(call)
    except MemoryError:
        return pickle.dumps(("too large", len(call)))
    except BaseException as error:
        return failure_answer(error)
    try:
        return pickle.dumps(("returned", function(*arguments)))
    except MemoryError:
        return pickle.dumps(("exceeded", "memory"))
    except BaseException as error:  # Including exits and interrupts.
        return failure_answer(error)


def failure_answer(error: BaseException) -> bytes:
    """The pickled answer for an exception."""
    try:
        message = f": {error}", "".join(traceback.format_exception(error, limit=-FRAMES))
    except BaseException:
        message = " (it cannot say why)", ""
    return pickle.dumps(("raised", type(error).__name__ + message[0], message[1]))
