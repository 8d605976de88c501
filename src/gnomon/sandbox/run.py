"""Execute untrusted source on its inputs and tell, input by input, what came of it. Runs where nothing can be lost.

Needs the standard library only and no other module of ours, so that its text can be sent to any machine with a Python.
"""

from __future__ import annotations

import contextlib
import errno
import json
import random
import sys
import threading
import traceback
import types
from collections.abc import Callable
from typing import Any

__all__ = ["HEAD", "NONCE", "framed", "run"]

HEAD, NONCE = 4, 16
"""Bytes of the length and of the nonce in front of every line that is told."""
LONGEST = 2000
"""Characters of an error's message that are told."""
FULL = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)

Tell = Callable[[list[Any]], None]


def framed(told: list[Any], nonce: bytes) -> bytes:
    """A line with its length and nonce in front."""
    body = json.dumps(told, check_circular=False).encode()
    return len(body).to_bytes(HEAD, "little") + nonce + body


def run(work: dict[str, Any], tell: Tell) -> int:
    """Execute a job or one input of a program.

    Args:
        work: `source`, `seed`, and for a job `call` and `inputs`, each the JSON text of a list of arguments.
        tell: takes `["ok", value]` or `["err", type, message]` per input, and `["raised", type, message]` or
            `["exceeded", resource]` where there is no next.
    Returns: the status to leave with.
    """
    random.seed(work["seed"])
    name = "solution" if work["call"] else "__main__"
    module = sys.modules[name] = types.ModuleType(name)
    try:
        exec(compile(work["source"], f"{name}.py", "exec", dont_inherit=True), module.__dict__)
        if work["call"]:
            function = eval(work["call"], module.__dict__)
    except SystemExit as leaving:
        return left(leaving) if not work["call"] else refused(leaving, tell)
    except BaseException as error:
        return refused(error, tell)
    if not work["call"]:
        wait_for_threads()
        return 0
    for text in work["inputs"]:
        try:
            value = function(*json.loads(text))
            only_text_keys(value)
            told = ["ok", value]
            json.dumps(told)
        except BaseException as error:
            if resource := exhausted(error):
                tell(["exceeded", resource])
                return 1
            told = ["err", *named(error)]
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        tell(told)
    return 0


def refused(error: BaseException, tell: Tell) -> int:
    """Tell of what ended the source, on standard error too."""
    resource = exhausted(error)
    tell(["exceeded", resource] if resource else ["raised", *named(error)])
    with contextlib.suppress(BaseException):
        inner = error.__traceback__.tb_next if error.__traceback__ else None  # The first frame is ours.
        traceback.print_exception(type(error), error, inner)
    return 1


def named(error: BaseException) -> tuple[str, str]:
    """Type and message of an exception, however it may object."""
    try:
        return str(type(error).__name__), str(error)[:LONGEST]
    except BaseException:
        return "Exception", "it cannot say why"


def exhausted(error: BaseException) -> str:
    """The resource whose limit an exception speaks of; empty for any other exception."""
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, OSError) and error.errno in FULL:
        return "files"
    if isinstance(error, BlockingIOError) or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        return "processes"
    return ""


def left(leaving: SystemExit) -> int:
    """The status that a program leaves with, as the interpreter has it."""
    if leaving.code is None or isinstance(leaving.code, int):
        return int(leaving.code or 0) & 0xFF
    with contextlib.suppress(BaseException):
        print(leaving.code, file=sys.stderr)
    return 1


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def only_text_keys(value: Any) -> None:
    """Raises: TypeError, where JSON would make a text of a key that is none."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key of type {type(key).__name__} is not a JSON key")
            only_text_keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            only_text_keys(item)
