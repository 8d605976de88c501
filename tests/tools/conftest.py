"""What the tests of tools share: the programs they need, and a look at what is left behind."""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from gnomon.workers import fork_server
from sandbox.conftest import descendants

PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No process that a test started outlives it, in a sandbox or out of it.

    Those whose parents are gone become children of this process, so that none is lost from sight.
    """
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    fork_server.end_base_servers()
    before = descendants()
    yield
    fork_server.end_base_servers()
    due = time.monotonic() + 15
    while (left := descendants() - before) and time.monotonic() < due:
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    assert not left


def needed(program: str, package: str) -> str:
    """The path of a program. Fails, and says what mends it, where there is none."""
    path = shutil.which(program)
    assert path, f"this test drives the program {program}: apt-get install {package}"
    return path
