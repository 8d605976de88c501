"""A Ray cluster of one machine that ends with the process that started it.

Ray ends its own processes with a driver that is killed, but not all of them. So a launcher starts the cluster, adopts
every process that loses its parent, and ends them all when the driver's end of a pipe closes.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from gnomon.errors import ResourceError
from gnomon.import_path import inherited_path

__all__ = ["OwnCluster"]

PR_SET_CHILD_SUBREAPER = 36
SHOWN = 12
"""Lines at the end of the log that an error shows."""
END = 10.0
"""Seconds for the processes to end."""
LONGEST = 20
"""Characters of a folder for temporary files. Ray adds 84 to the path of a socket, which may have 107."""


class OwnCluster:
    """Args: cpus: those that Ray counts. It reserves them, and does not hinder processes from using more.

    Raises: ResourceError E510 where it does not start.
    """

    def __init__(self, cpus: int) -> None:
        usual = tempfile.gettempdir()
        self._folder = Path(tempfile.mkdtemp(prefix="gnomon-ray-", dir=usual if len(usual) <= LONGEST else "/tmp"))
        ours, theirs = os.pipe()
        answers, answer = os.pipe()
        for name, value in ACCESS.items():
            os.environ.setdefault(name, value)
        command = "from gnomon_ray.own import launch; launch()"
        with open(self._folder / "log", "wb") as log:
            self._launcher = subprocess.Popen(
                [sys.executable, "-P", "-c", command, str(ours), str(answer), str(cpus), str(self._folder)],
                pass_fds=[ours, answer],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**SURE, **os.environ, "PYTHONPATH": os.pathsep.join(inherited_path())},
                start_new_session=True,
            )
        os.close(ours)
        os.close(answer)
        self._pipe = theirs
        with open(answers, encoding="utf-8") as stream:
            self.address = stream.read()
        if not self.address:
            lines = (self._folder / "log").read_text("utf-8", "replace").strip().splitlines()[-SHOWN:]
            self.close()
            raise ResourceError(
                "E510",
                "the Ray cluster of this run could not start",
                why="\n   ".join(lines),
                fix="ray start --head, then launch.address=auto; or launch.type=local",
            )

    def close(self) -> None:
        """End its processes and delete its files."""
        os.close(self._pipe)
        try:
            self._launcher.wait(2 * END)
        except subprocess.TimeoutExpired:
            self._launcher.kill()
            self._launcher.wait()
        shutil.rmtree(self._folder, ignore_errors=True)  # If the launcher was killed.


SURE = {
    "RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper": "true",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Variables of the cluster: a killed worker takes its children along; nothing is reported to anyone."""

ACCESS = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
"""Variables of the cluster and of this process: who does not have the token cannot connect."""


def launch() -> None:
    """Entry point of the launcher. Its arguments: the pipes' ends, the CPUs, and the folder for its files."""
    pipe, answer, cpus, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    started = False
    try:
        import ray

        quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
        ray.init("local", num_cpus=cpus, **quiet, _temp_dir=folder)
        os.write(answer, ray.get_runtime_context().gcs_address.encode())
        os.close(answer)
        started = True
        os.read(pipe, 1)  # It closes when the process that trains has ended, however it ended.
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        end_children()
        if not started:  # The process that trains reads the log.
            os.close(answer)
            os.read(pipe, 1)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def end_children() -> None:
    """Kill all descendants. Those of a killed one become children of this process, which has adopted them."""
    deadline = time.monotonic() + END
    while (pids := children()) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def children() -> list[int]:
    """The processes whose parent is this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text("utf-8").rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(path.parent.name))
    return found
