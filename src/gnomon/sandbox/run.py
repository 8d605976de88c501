"""Execute untrusted source on its inputs, and report the result of each input. Runs only inside a sandbox.

The module needs only the standard library, so that its source can be sent to any machine with Python.
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
"""Sizes in bytes of the length and of the nonce before every report."""
LONGEST = 2000
"""Largest number of characters of an error message that are reported."""
FULL = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)

Report = Callable[[list[Any]], None]


def framed(report: list[Any], nonce: bytes) -> bytes:
    """A report as JSON, with its length and nonce in front."""
    body = json.dumps(report, check_circular=False).encode()
    return len(body).to_bytes(HEAD, "little") + nonce + body


def run(work: dict[str, Any], send: Report) -> int:
    """Execute a job or one input of a program.

    Args:
        work: `source`, `seed`, and for a job `call` and `inputs`, each the JSON text of a list of arguments.
        send: takes `["ok", value]` or `["err", type, message]` per input, and `["raised", type, message]` or
            `["exceeded", resource]` as the last report.
    Returns: the exit status.
    """
    random.seed(work["seed"])
    name = "solution" if work["call"] else "__main__"
    module = sys.modules[name] = types.ModuleType(name)
    try:
        exec(compile(work["source"], f"{name}.py", "exec", dont_inherit=True), module.__dict__)
        if work["call"]:
            function = eval(work["call"], module.__dict__)
    except SystemExit as leaving:
        return left(leaving) if not work["call"] else refused(leaving, send)
    except BaseException as error:
        return refused(error, send)
    if not work["call"]:
        wait_for_threads()
        return 0
    for text in work["inputs"]:
        try:
            value = function(*json.loads(text))
            only_text_keys(value)
            report = ["ok", value]
            json.dumps(report)
        except BaseException as error:
            if resource := exhausted(error):
                send(["exceeded", resource])
                return 1
            report = ["err", *named(error)]
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        send(report)
    return 0


def refused(error: BaseException, send: Report) -> int:
    """Report the error that ended the source, also on standard error."""
    resource = exhausted(error)
    send(["exceeded", resource] if resource else ["raised", *named(error)])
    with contextlib.suppress(BaseException):
        inner = error.__traceback__.tb_next if error.__traceback__ else None  # The first frame is `run`.
        traceback.print_exception(type(error), error, inner)
    return 1


def named(error: BaseException) -> tuple[str, str]:
    """Type and message of an exception, even if its methods raise."""
    try:
        return str(type(error).__name__), str(error)[:LONGEST]
    except BaseException:
        return "Exception", "it has no readable message"


def exhausted(error: BaseException) -> str:
    """The resource whose limit caused an exception; empty for other exceptions."""
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, OSError) and error.errno in FULL:
        return "files"
    if isinstance(error, BlockingIOError) or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        return "processes"
    return ""


def left(leaving: SystemExit) -> int:
    """The exit status of a SystemExit, as the interpreter computes it."""
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
    """Raises: TypeError if a dictionary key is not a text."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key of type {type(key).__name__} is not a JSON key")
            only_text_keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            only_text_keys(item)
