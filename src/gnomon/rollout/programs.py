"""Episodes that a program plays: it runs in a sandbox, and calls the policy over HTTP."""

from __future__ import annotations

import asyncio
import os
import resource
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from gnomon.agents.endpoint import Endpoint
from gnomon.agents.recorder import Policy
from gnomon.agents.server import Server
from gnomon.envs.agent import End, Launch
from gnomon.errors import ConfigError
from gnomon.machine import memory
from gnomon.sandbox import Limits, Session

__all__ = ["Programs", "locate", "require_program"]

PORT = 8000
"""Of 127.0.0.1 inside every sandbox. Each has a network of its own, which reaches nothing else."""
MODEL = "policy"
HOME = "/dev/shm"
"""For what a program keeps for itself, such as sessions with random names: only its working folder is recorded."""
MOST = 256
WEIGHT = 128 * 2**20
"""Bytes of memory that a program takes on average: an interpreter with a client library, and its sandbox."""
PREFIX = Path(os.path.abspath(sys.prefix))
"""Of the interpreter: a path with `..` needs folders that a sandbox does not have."""
PATIENCE = 5.0
"""Seconds beyond the wall-clock limit after which a program is ended from outside."""
DESCRIPTORS = 16
"""Open files of a program on this side: its sandbox, pipes and connections."""
CONNECTIONS = 128
"""Of a program at once."""
LONGEST = 2**22
"""Bytes of a request beside its images. A longer one would keep the run from its other programs."""


def most() -> int:
    """Number of programs that this process can run at once."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // DESCRIPTORS
    return max(1, min(MOST, files, memory() // 2 // WEIGHT or MOST))


@dataclass(slots=True, eq=False)
class Programs:
    """Runs programs, each with an endpoint of its own.

    Args: room: most programs at once; by default as many as half of the machine's memory and its descriptors allow.
    """

    room: int = field(default_factory=most)
    _waiting: asyncio.Semaphore | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    async def play(self, launch: Launch, recorder: Policy, key: str) -> End:
        """Run a program to its end. Args: key: of its endpoint.

        Raises: the error of the engine, if it had one; ResourceError E520 to E522 if the host has no sandbox.
        """
        loop = asyncio.get_running_loop()
        if self._waiting is None or self._loop is not loop:
            self._waiting, self._loop = asyncio.Semaphore(self.room), loop
        endpoint = Endpoint(model=MODEL, longest=LONGEST)
        endpoint.add(key, recorder)
        async with self._waiting:
            session = await asyncio.to_thread(start, launch, variables(launch, key))
            server: asyncio.Server | None = None
            try:
                assert session.listener is not None
                server = await Server(endpoint, CONNECTIONS).listen(session.listener)
                end = await end_of(session, launch)
            finally:
                await recorder.close()
                if server is not None:
                    server.close()
                await asyncio.shield(asyncio.to_thread(session.close))
        if recorder.error is not None:
            raise recorder.error
        return end


def variables(launch: Launch, key: str) -> dict[str, str]:
    """The environment variables of a program."""
    url = f"http://127.0.0.1:{PORT}"
    path = f"{PREFIX / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    own = {
        "PATH": path,
        "HOME": HOME,
        "TMPDIR": HOME,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "OPENAI_API_KEY": key,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": key,
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "MODEL": MODEL,
    }
    return own | dict(launch.variables)


def start(launch: Launch, environment: dict[str, str]) -> Session:
    """The program in a sandbox."""
    limits = Limits(
        cpu_seconds=launch.cpu_seconds,
        wall_seconds=launch.seconds,
        memory_bytes=launch.memory_bytes,
        processes=launch.processes,
        file_bytes=launch.file_bytes,
        output_bytes=launch.output_bytes,
    )
    command, readable = locate(launch.command)
    session = Session(
        command,
        limits,
        readable=(str(PREFIX), *readable, *launch.readable),
        environment=environment,
        files=launch.files,
        port=PORT,
        keep_bytes=launch.file_bytes,
    )
    session.send(launch.stdin, timeout=1.0)
    session.close_input()
    return session


def locate(command: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The command with whole paths, and the paths that it must read.

    `python` is this interpreter. Of a Python file only the file is readable, since answers may lie beside it; a folder
    with a `__main__.py` and a program's environment are readable as a whole.
    """
    words, readable = list[str](), list[str]()
    for position, word in enumerate(command):
        program = shutil.which(word) if position == 0 else None
        if position == 0 and word in ("python", "python3"):
            words.append(os.path.abspath(sys.executable))
        elif program is not None:
            # A link is kept: that of an environment's interpreter tells it where its packages are.
            path = Path(os.path.abspath(program))
            words.append(str(path))
            environment = path.parents[1] if path.parent.name == "bin" else path
            readable.append(str(environment if (environment / "pyvenv.cfg").is_file() else path))
        elif (word.endswith(".py") and os.path.isfile(word)) or os.path.isfile(os.path.join(word, "__main__.py")):
            words.append(os.path.abspath(word))
            readable.append(words[-1])
        else:
            words.append(word)
    return tuple(words), tuple(readable)


def require_program(launch: Launch, where: str, command: str) -> None:
    """Args: where: the setting that names the command; command: its value.

    Raises: ConfigError E525 if the program, or the Python file that it runs, does not exist.
    """
    program, *words = launch.command
    if program in ("python", "python3"):
        name = next(iter(words), "")
        missing = name.endswith(".py") and name not in launch.files and not os.path.isfile(name)
    else:
        name, own = program, str(PREFIX / "bin")
        missing = not any(map(shutil.which, (name, os.path.join(own, name))))
    if missing:
        folder = Path(name).parent
        near = get_close_matches(Path(name).name, [path.name for path in folder.glob("*")], n=1)
        fix = command.replace(name, os.path.normpath(folder / near[0]) if near else f"/whole/path/of/{Path(name).name}")
        why = f"{folder.absolute()} has no such file, and no folder of PATH has such a command"
        raise ConfigError("E525", f"the program {name} does not exist", where=where, why=why,
                          fix=f"{where}={shlex.quote(fix)}")  # fmt: skip


async def end_of(session: Session, launch: Launch) -> End:
    """How the program ends."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    output = bytearray()

    def read() -> None:
        piece = session.receive(0.0)
        if not piece:  # Its end, which would be ready for ever.
            loop.remove_reader(session.output)
        output.extend(piece)
        del output[: -launch.output_bytes]

    loop.add_reader(session.output, read)
    loop.add_reader(session.control, over.set)
    try:
        await asyncio.wait_for(over.wait(), launch.seconds + PATIENCE)
    except TimeoutError:
        return End(status=None, output=text(output), limit="time")
    finally:
        loop.remove_reader(session.output)
        loop.remove_reader(session.control)
    status = await asyncio.to_thread(lambda: session.status)
    read()
    limit, files = "" if status is not None else session.lost or "time", session.folder
    if sum(len(data) for name, data in files.items() if launch.files.get(name) != data) > launch.changed_bytes:
        limit, files = "files", dict(launch.files)
    return End(status=status, output=text(output), files=files, limit=limit)


def text(output: bytes | bytearray) -> str:
    return bytes(output).decode(errors="replace")
