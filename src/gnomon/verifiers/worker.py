"""The far side of a pool: processes that import and fork others, and what a worker does.

None of them has threads, torch or a terminal. A worker ends when its channel closes; killing it loses nothing.
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

__all__ = ["HEAD", "frame", "framed", "start"]

PR_SET_PDEATHSIG = 1
HEAD = 8
"""Bytes of the length in front of every payload, little-endian."""
FRAMES = 3
"""Lines of a traceback that are told: the innermost ones."""


def start() -> None:
    """Entry of a cradle's process; its argument is the descriptor of its socket."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.dup2(1, 2)  # Nobody reads its errors from here on.
    asked.sendall(b"!")
    forking(asked, nursery, first=learn)


def learn(named: bytes) -> None:
    """Import modules of Gnomon, for this nursery and those to come."""
    for name in named.decode().split():
        with suppress(Exception):  # The nursery tries again, and says why.
            importlib.import_module(name)
    settle()


def forking(asked: socket.socket, child: Callable[[int], None], first: Callable[[bytes], None] | None = None) -> None:
    """Fork a child for every descriptor that arrives, until the socket closes.

    Args: first, called before with what was written beside the descriptor.
    """
    while True:
        data, descriptors, *_ = socket.recv_fds(asked, 2**16, 1)
        if not data:
            return
        if first is not None:
            first(data)
        if os.fork() == 0:
            asked.close()
            try:
                child(descriptors[0])
            finally:
                os._exit(0)
        os.close(descriptors[0])


def settle() -> None:
    """What is here now lives as long as the children; a collection in one of them would copy all of it."""
    gc.collect()
    gc.freeze()


def nursery(descriptor: int) -> None:
    """Import what the work of a pool needs, then fork workers."""
    with socket.socket(fileno=descriptor) as asked:
        introduced(asked)
        with asked.makefile("rb") as stream:
            environment, folder, path, modules, task = pickle.load(stream)
        try:
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            sys.path[:] = path
            for name in modules:
                importlib.import_module(name)
            pickle.loads(task)  # What the function's object imports when it is made is imported here, not in a job.
        except BaseException as error:
            asked.sendall(frame(traceback.format_exception_only(error)[-1].strip().encode(errors="replace") or b"?"))
            return
        settle()
        adopt()
        asked.sendall(frame(b""))
        forking(asked, work)
        end_all()


def work(descriptor: int) -> None:
    """Take jobs from the channel until it closes. Every job is answered once; a job never ends the loop."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rb") as asked:
        try:
            introduced(channel)
            function, memory, output, readable = pickle.loads(framed(asked))
            nothing = os.open(os.devnull, os.O_RDWR)
            for place in (0, 1, 2):
                os.dup2(nothing, place)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            if readable is not None:
                harden([sys.base_prefix, sys.prefix, *(path or os.getcwd() for path in sys.path), *readable])
            while True:
                answer = done(function, framed(asked))
                channel.sendall(frame(answer if len(answer) <= output else pickle.dumps(("exceeded", "output"))))
        except (EOFError, ConnectionError):
            return


def introduced(channel: socket.socket) -> None:
    """Say by which number, and by which descriptor, this process is known."""
    itself = os.pidfd_open(os.getpid())
    socket.send_fds(channel, [os.getpid().to_bytes(HEAD, "little")], [itself])
    os.close(itself)


def frame(payload: bytes) -> bytes:
    """A payload with its length in front."""
    return len(payload).to_bytes(HEAD, "little") + payload


def framed(stream: BinaryIO) -> bytes:
    """The next payload of a stream. Raises: EOFError at its end."""
    head = stream.read(HEAD)
    payload = stream.read(int.from_bytes(head, "little"))
    if len(head) < HEAD or len(payload) < int.from_bytes(head, "little"):
        raise EOFError
    return payload


def done(function: Any, job: bytes) -> bytes:
    """The pickled answer to a job: what the function returned, or how it failed."""
    try:
        arguments = pickle.loads(job)
    except MemoryError:
        return pickle.dumps(("unheld", len(job)))
    except BaseException as error:
        return raised(error)
    try:
        return pickle.dumps(("returned", function(*arguments)))
    except MemoryError:
        return pickle.dumps(("exceeded", "memory"))
    except BaseException as error:  # Also those that `except Exception` lets through, such as an exit or an interrupt.
        return raised(error)


def raised(error: BaseException) -> bytes:
    """The pickled answer that says what was raised."""
    try:
        said = f": {error}", "".join(traceback.format_exception(error, limit=-FRAMES))
    except BaseException:
        said = " (it cannot say why)", ""
    return pickle.dumps(("raised", type(error).__name__ + said[0], said[1]))
