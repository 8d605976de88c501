"""The processes of a learner that is spread over several: started, watched and ended together.

A launcher imports everything once and forks one process per rank. It ends them all as soon as one of them, or the
process that trains, has ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from gnomon.config import RunConfig
from gnomon.errors import ConfigError, GnomonError
from gnomon.import_path import inherited_path
from gnomon.learners.pulse import Pulse, give_signs
from gnomon.learners.remote import RemoteLearner, answer
from gnomon.objectives import Objective
from gnomon.run.makers.learner import make_sharded
from gnomon.run.makers.policy import make_device
from gnomon.workers.serialise import pack_value

__all__ = ["start_ranks"]

PR_SET_PDEATHSIG = 1
SHOWN = 12
"""Lines at the end of the log that an error shows."""
END = 5.0
"""Seconds for the processes to end by themselves."""
LEAST, TIMES = 60.0, 2.0
"""Seconds that a process waits for another one in a collective of torch: at least so many, else `launch.seconds` times
this. That is longer than the wait for a sign of life, since the first process may write a file meanwhile."""


def start_ranks(config: RunConfig, row: Objective) -> RemoteLearner:
    """The learner of a run, spread over `ranks` processes on this machine.

    Raises: what making a learner raises; ConfigError E047 for more processes than CUDA devices; ResourceError E509
        where a process ends before it is ready.
    """
    require_devices(config)
    folder = Path(tempfile.mkdtemp(prefix="gnomon-ranks-"))
    pairs = [socket.socketpair() for _ in range(1 + 2 * config.ranks)]
    theirs = [their.fileno() for _, their in pairs]
    command = "from gnomon.run.ranks import launch; launch()"
    with open(folder / "log", "wb") as log:
        launcher = subprocess.Popen(
            [sys.executable, "-P", "-c", command, str(folder), *map(str, theirs)],
            pass_fds=theirs,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"GLOO_SOCKET_IFNAME": "lo", **os.environ, "PYTHONPATH": os.pathsep.join(inherited_path())},
            start_new_session=True,
        )
    for _, their in pairs:
        their.close()
    control, *rest = [mine for mine, _ in pairs]
    channels = [connection(channel, config.launch.seconds) for channel in rest]
    pulse = Pulse(channels[config.ranks :], config.launch.seconds)
    learner = RemoteLearner(
        channels[: config.ranks], pulse, lambda: reason(folder, control), lambda: end(launcher, control, folder)
    )
    try:
        learner.start(pack_value((config, row, folder)))
    except BaseException:
        learner.close()
        raise
    return learner


def connection(channel: socket.socket, seconds: float) -> Connection:
    """A connection on which a message that nobody takes for so long is an error, BlockingIOError."""
    limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    return Connection(channel.detach())


def require_devices(config: RunConfig) -> None:
    """Raises: ConfigError E047 for more processes than CUDA devices, which NCCL cannot share."""
    device = make_device(config.policy.device)
    if device.type != "cuda" or config.ranks <= (count := torch.cuda.device_count()):
        return
    raise ConfigError(
        "E047",
        f"ranks={config.ranks} needs {config.ranks} CUDA devices, and this machine has {count}",
        where="ranks",
        why="every process of the learner needs a device of its own",
        fix=f"ranks={count}, or policy.device=cpu",
    )


def reason(folder: Path, control: socket.socket) -> str:
    """Why a process of the learner ended, as far as the launcher knows, and the end of the log."""
    text = ""
    with suppress(OSError, ValueError):
        control.settimeout(END)
        rank, status = json.loads(control.recv(2**12))
        text = (
            f"rank {rank} ended with status {status}" if status >= 0 else f"rank {rank} was killed by signal {-status}"
        )
    with suppress(OSError):
        lines = (folder / "log").read_text("utf-8", "replace").strip().splitlines()[-SHOWN:]
        text = "\n   ".join(filter(None, [text, *lines]))
    return text


def end(launcher: subprocess.Popen[bytes], control: socket.socket, folder: Path) -> None:
    """End the launcher, which ends the ranks and deletes their files."""
    control.close()
    try:
        launcher.wait(2 * END)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()
    shutil.rmtree(folder, ignore_errors=True)  # If the launcher was killed.


def launch() -> None:
    """Entry point of the launcher. Its arguments: the folder of the ranks, the descriptors of its channel and theirs.

    The process that trains holds the other end of its channel, and closes it when it ends, however it ends.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # A worker of Ray ignores it, and then no child can be waited for.
    folder, (control, *channels) = Path(sys.argv[1]), map(int, sys.argv[2:])
    count = len(channels) // 2
    watched: dict[int, int] = {}
    for rank, (channel, pulse) in enumerate(zip(channels[:count], channels[count:], strict=True)):
        pid = os.fork()
        if pid == 0:
            rank_process(rank, channel, pulse, [fd for fd in (control, *channels) if fd not in (channel, pulse)])
        watched[os.pidfd_open(pid)] = pid
    for channel in channels:
        os.close(channel)
    pids = list(watched.values())
    poll = select.poll()
    for descriptor in (control, *watched):
        poll.register(descriptor, select.POLLIN)
    ready = [descriptor for descriptor, _ in poll.poll()]
    first = next((watched[descriptor] for descriptor in ready if descriptor in watched), None)
    if first is not None:
        status = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
        with suppress(OSError):
            os.write(control, json.dumps([pids.index(first), status]).encode())
    for pid in pids:
        if pid != first:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    if first is not None:
        with suppress(ConnectionError):  # A process that trains and was killed may have left the message unread.
            os.read(control, 1)  # The log is read until the channel closes.
    shutil.rmtree(folder, ignore_errors=True)


def rank_process(rank: int, channel: int, pulse: int, others: list[int]) -> None:
    """The life of a forked process, which ends with its launcher.

    Args: channel, pulse: its descriptors, for verbs and signs of life; others: those of other processes.
    """
    status = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for descriptor in others:
            os.close(descriptor)
        give_signs(Connection(pulse))
        serve(rank, channel)
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def serve(rank: int, descriptor: int) -> None:
    """Be one rank of a learner: make it, and answer until the channel closes."""
    channel = Connection(descriptor)
    config, row, folder = pickle.loads(channel.recv_bytes())
    try:
        learner = join(rank, config, row, folder)
    except GnomonError as error:
        channel.send(("raised", error))
        return
    channel.send(("returned", None))
    answer(learner, channel)


def join(rank: int, config: RunConfig, row: Objective, folder: Path) -> Any:
    """This rank's part of the learner."""
    torch.set_num_threads(1)
    cuda = torch.cuda.is_available() and config.policy.device != "cpu"
    if cuda:
        torch.cuda.set_device(rank)
    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        init_method=meeting,
        rank=rank,
        world_size=config.ranks,
        timeout=timedelta(seconds=max(LEAST, TIMES * config.launch.seconds)),
    )
    mesh = init_device_mesh("cuda" if cuda else "cpu", (config.ranks,))
    learner = make_sharded(config, row, mesh, folder)
    dist.barrier()
    return learner
