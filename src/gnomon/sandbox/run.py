"""Execute untrusted source on its inputs, and report the result of each input. Runs only inside a sandbox.

The module needs only the standard library, so that its source can be sent to any machine with Python.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import json
import linecache
import os
import random
import sys
import threading
import types
from collections.abc import Callable
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from typing import Any

__all__ = ["FILES", "HEAD", "NONCE", "decode", "encode", "frame", "run"]

HEAD, NONCE = 4, 16
"""Sizes in bytes of the length and of the nonce before every report."""
FILES = ("solution.py", "__main__.py")
"""Names of the file of a job's and of a program's source, in the working folder."""
LONGEST = 2000
"""Largest number of characters of an error message that are reported."""
FULL = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)
LONG = "\0integer"
"""Key under which an integer stands in base 16 that has more digits than Python converts in base 10."""
LONG_BITS = 13_000
"""Integers with more bits are written so."""

Report = Callable[[list[Any]], None]


def frame(report: list[Any], nonce: bytes) -> bytes:
    """A report as JSON, with its length and nonce in front."""
    body = json.dumps(report, check_circular=False).encode()
    return len(body).to_bytes(HEAD, "little") + nonce + body


def encode(value: Any) -> str:
    """A value as JSON, with integers of any length. Raises: TypeError if a dictionary key is not a text."""
    return json.dumps(plain(value), check_circular=False)


def decode(line: str | bytes) -> Any:
    """The value that was encoded. Takes time linear in the length, also for integers."""
    return json.loads(line, object_hook=whole)


def plain(value: Any) -> Any:
    """The value with its long integers in base 16. Raises: TypeError if a dictionary key is not a text."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a key of type {type(key).__name__} is not a JSON key")
        return dict(zip(value, map(plain, value.values()), strict=True))
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    if isinstance(value, int) and value.bit_length() > LONG_BITS:
        return {LONG: f"{int(value):x}"}
    return value


def whole(items: dict[str, Any]) -> Any:
    """The long integer that a JSON object stands for, or the object. Raises: ValueError if the key has other text."""
    number = int(items[LONG], 16) if items.keys() == {LONG} and isinstance(items[LONG], str) else 0
    return number if number.bit_length() > LONG_BITS else items


def run(work: dict[str, Any], send: Report) -> int:
    """Execute a job or one input of a program, as the interpreter executes a file.

    Args:
        work: `source`, `seed`, and for a job `call` and `inputs`, each the JSON text of a list of arguments.
        send: takes `["ok", value]` or `["err", type, message]` per input, and `["raised", type, message]` or
            `["exceeded", resource]` as the last report.
    Returns: the exit status.
    """
    random.seed(work["seed"])
    path = FILES[not work["call"]]
    module = file(work["source"], path)
    try:
        # Bytes, as the interpreter reads a file: they may begin with a byte order mark.
        exec(compile(work["source"].encode(), path, "exec", dont_inherit=True), module.__dict__)
    except SystemExit as leaving:
        status = exit_status(leaving)
        if status and work["call"]:
            return report_error(leaving, send)
    except BaseException as error:
        status = report_error(error, send)
        if work["call"]:
            return status
    else:
        status = 0
    return call_all(work, module, send) if work["call"] else end_program(module, status)


class Folder(FileFinder):
    """The modules of the working folder. A program may write one and import it at once."""

    def find_spec(self, fullname: str, target: types.ModuleType | None = None) -> ModuleSpec | None:
        # Python lists a folder again when its time has changed, and two writes can be within one tick of the clock.
        self.invalidate_caches()
        return super().find_spec(fullname, target)


def file(source: str, path: str) -> types.ModuleType:
    """The module of a file with this source, as the interpreter starts it: its name, folder, arguments and stack."""
    name = path.removesuffix(".py")
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = path
    source = source.removeprefix("\ufeff")
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    sys.argv = [path]
    folder = os.getcwd()
    sys.path.insert(0, folder)
    sys.path_importer_cache[folder] = Folder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
    # A source that is larger than a file may be runs without one.
    with contextlib.suppress(OSError, UnicodeError), open(path, "w", encoding="utf-8") as copy:
        copy.write(source)
    frame: types.FrameType | None = sys._getframe()
    while frame:
        sys.setrecursionlimit(sys.getrecursionlimit() + 1)
        frame = frame.f_back
    return module


def call_all(work: dict[str, Any], module: types.ModuleType, send: Report) -> int:
    """Call the function of a job with every input. Returns: the exit status."""
    try:
        function = eval(work["call"], module.__dict__)
    except BaseException as error:
        return report_error(error, send)
    for text in work["inputs"]:
        try:
            report = ["ok", plain(function(*decode(text)))]
            json.dumps(report)
        except BaseException as error:
            if resource := exhausted_resource(error):
                send(["exceeded", resource])
                return 1
            report = ["err", *name_and_message(error)]
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        send(report)
    return 0


def end_program(module: types.ModuleType, status: int) -> int:
    """End a program as the interpreter does: wait for its threads, call its exit functions, delete its objects.

    Without the end of the interpreter itself, which takes ten times as long. Returns: the exit status.
    """
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    with contextlib.suppress(BaseException):
        module.__dict__.clear()
        gc.collect()
    return status


def report_error(error: BaseException, send: Report) -> int:
    """Report the error that ended the source, also as the interpreter does. Returns: the exit status."""
    resource = exhausted_resource(error)
    send(["exceeded", resource] if resource else ["raised", *name_and_message(error)])
    with contextlib.suppress(BaseException):
        inner = error.__traceback__.tb_next if error.__traceback__ else None  # The first frame is `run`.
        sys.excepthook(type(error), error.with_traceback(inner), inner)
    return 1


def name_and_message(error: BaseException) -> tuple[str, str]:
    """Type and message of an exception, even if its methods raise."""
    try:
        return str(type(error).__name__), str(error)[:LONGEST]
    except BaseException:
        return "Exception", "it has no readable message"


def exhausted_resource(error: BaseException) -> str:
    """The resource whose limit caused an exception; empty for other exceptions."""
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, OSError) and error.errno in FULL:
        return "files"
    if isinstance(error, BlockingIOError) or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        return "processes"
    return ""


def exit_status(leaving: SystemExit) -> int:
    """The exit status of a SystemExit, as the interpreter computes it."""
    if leaving.code is None or isinstance(leaving.code, int):
        return int(leaving.code or 0) & 0xFF
    with contextlib.suppress(BaseException):
        print(leaving.code, file=sys.stderr)
    return 1
