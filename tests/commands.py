"""Commands and scripts in processes of their own, forked from one that has imported the libraries and the package.

A fresh interpreter spends five seconds of processor time on importing torch, transformers and this package; a fork has
them. What must hold between interpreters, such as equal runs under another hash seed or light imports, is tested where
an interpreter is started for it (`interpreter`).
"""

from __future__ import annotations

import fcntl
import locale
import multiprocessing
import os
import pty
import select
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

__all__ = ["command", "interpreter", "python", "screen", "shell"]

IMPORTED = (
    "pytest",  # A child imports the module that started it.
    "torch",
    "transformers.modeling_utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.gpt_neox.modeling_gpt_neox",
    "typer.main",
    "rich.table",
    "gnomon.api",
    "gnomon.cli",
    "gnomon.audit",
    "gnomon.run.display",
    "gnomon.run.resume",
    "gnomon.run.start",
    "gnomon.reading.rollouts",
    "gnomon.reading.summary",
)
"""None of them starts a thread when it is imported."""
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(list(IMPORTED))


def command(
    *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, output: str = "utf-8"
) -> subprocess.CompletedProcess[str]:
    """`gnomon` with these words, in a fork.

    Args: output: `ascii` in a locale that has no other characters, `closed`, or `left`, a pipe without a reader.
    """
    return forked(("gnomon", *words), env, cwd, output)


def python(
    *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`python` with these words, a script or `-c` and its text first, in a fork."""
    return forked(("python", *words), env, cwd)


def interpreter(
    *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """`python` with these words, in a fresh interpreter."""
    whole = {**os.environ, "NO_COLOR": "1", **(env or {})}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=whole, cwd=cwd)


def shell(line: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A line of shell, in a fork where it is one call of `gnomon` or `python`, and else in a shell."""
    words = shlex.split(line, comments=True)
    if words[0] in RUN and set(words).isdisjoint({"|", "&&", "||", ";", ">", ">>", "<"}):
        return forked(words, env, cwd)
    whole = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **(env or {})}
    return subprocess.run(line, shell=True, capture_output=True, text=True, env=whole, cwd=cwd)


def forked(
    words: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None, output: str = "utf-8"
) -> subprocess.CompletedProcess[str]:
    """Run to its end or its death."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        whole = {**os.environ, "NO_COLOR": "1", **(env or {})}
        process = FORKS.Process(target=run, args=(words, whole, str(cwd or Path.cwd()), str(out), str(err), output))
        process.start()
        process.join()
        assert process.exitcode is not None
        return subprocess.CompletedProcess(list(words), process.exitcode, out.read_text(), err.read_text())


def screen(*words: str, columns: int = 80, env: Mapping[str, str] | None = None) -> str:
    """What `gnomon` with these words writes to a terminal of so many columns, control codes and all."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    whole = {**os.environ, "TERM": "xterm", **(env or {})}
    whole.pop("COLUMNS", None)
    name = os.ttyname(theirs)
    process = FORKS.Process(target=run, args=(("gnomon", *words), whole, str(Path.cwd()), name, name))
    process.start()
    written = bytearray()
    while process.is_alive() or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.05)[0]:
            written += os.read(ours, 65536)
    process.join()
    os.close(theirs)
    os.close(ours)
    return written.decode()


def run(words: Sequence[str], env: Mapping[str, str], cwd: str, out: str, err: str, output: str = "utf-8") -> None:
    """In the child."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for place, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), place)
    if output == "left":
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
    encoding = "ascii" if output == "ascii" else "utf-8"
    sys.stdout, sys.stderr = (os.fdopen(place, "w", encoding=encoding, closefd=False) for place in (1, 2))
    if output == "ascii":
        locale.setlocale(locale.LC_ALL, "C")
    elif output == "closed":
        os.close(1)
        sys.stdout = None  # type: ignore[assignment]  # As Python has it then.
    RUN[words[0]](list(words))


def run_gnomon(words: list[str]) -> None:
    from gnomon.cli import main

    sys.argv = words
    main()


def run_python(words: list[str]) -> None:
    """As the interpreter runs `-c text` or a file."""
    inline = words[1] == "-c"
    file = "<string>" if inline else words[1]
    text = words[2] if inline else Path(file).read_text("utf-8")
    sys.argv = ["-c", *words[3:]] if inline else words[1:]
    sys.path.insert(0, "" if inline else str(Path(file).resolve().parent))
    module = sys.modules["__main__"] = ModuleType("__main__")
    if not inline:
        module.__file__ = str(Path(file).resolve())
    exec(compile(text, file, "exec"), vars(module))


RUN = {"gnomon": run_gnomon, "python": run_python}
