"""The command line in processes of their own, forked from one that has imported the libraries and nothing of ours.

A fresh interpreter spends four seconds of processor time on importing torch and transformers; a fork has them. What
must hold between interpreters, such as equal runs under another hash seed, is shown where they are started for it.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["command", "screen"]

LIBRARIES = (
    "torch",
    "transformers.modeling_utils",
    "transformers.models.auto.modeling_auto",
    "typer.main",
    "rich.table",
    "pydantic",
)
"""None of them starts a thread when it is imported."""
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([*LIBRARIES, "pytest"])  # A child looks into the module that started it.


def command(
    *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`gnomon` with these words, run to its end or its death."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        whole = {**os.environ, "NO_COLOR": "1", **(env or {})}
        process = FORKS.Process(target=run, args=(words, whole, str(cwd or Path.cwd()), str(out), str(err)))
        process.start()
        process.join()
        assert process.exitcode is not None
        return subprocess.CompletedProcess(["gnomon", *words], process.exitcode, out.read_text(), err.read_text())


def screen(*words: str, columns: int = 80, env: Mapping[str, str] | None = None) -> str:
    """What `gnomon` with these words writes to a terminal of so many columns, control codes and all."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    whole = {**os.environ, "TERM": "xterm", **(env or {})}
    whole.pop("COLUMNS", None)
    name = os.ttyname(theirs)
    process = FORKS.Process(target=run, args=(words, whole, str(Path.cwd()), name, name))
    process.start()
    written = bytearray()
    while process.is_alive() or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.05)[0]:
            written += os.read(ours, 65536)
    process.join()
    os.close(theirs)
    os.close(ours)
    return written.decode()


def run(words: Sequence[str], env: Mapping[str, str], cwd: str, out: str, err: str) -> None:
    """In the child."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for place, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), place)
    sys.stdout, sys.stderr = (os.fdopen(place, "w", encoding="utf-8", closefd=False) for place in (1, 2))
    sys.argv = ["gnomon", *words]
    from gnomon.cli import main

    main()
