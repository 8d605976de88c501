"""The script for a remote machine. It starts the untrusted process, enforces the limits and prints the result.

Its source is sent together with that of `gnomon.sandbox.run`; it needs only the standard library. It prints one line,
the envelope: status, result, output and errors of the untrusted process.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

__all__ = ["envelope"]

INNER = """
import json, os, sys
folder, path, result = sys.argv[1:]
sys.path.insert(0, folder)
from gnomon_run import frame, run
with open(path) as file: work = json.load(file)
def send(report):
    rest = frame(report, bytes.fromhex(work["nonce"]))
    while rest: rest = rest[os.write(int(result), rest):]
send(["ready"])
status = run(work, send)
for stream in (sys.stdout, sys.stderr):
    try: stream.flush()
    except BaseException: pass
os._exit(status)
"""
ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}


def envelope(work: dict[str, Any], limits: dict[str, Any], source: str) -> str:
    """Run one job or one input of a program. Args: source: of `gnomon.sandbox.run`. Returns: the line to print."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("gnomon_run.py", source), ("work.json", json.dumps(work)), ("stdin", work["stdin"])):
            with open(os.path.join(folder, name), "w", encoding="utf-8", errors="surrogatepass") as file:
                file.write(text)
        result, theirs = os.pipe()
        with open(os.path.join(folder, "stdin"), "rb") as stdin:
            child = subprocess.Popen(
                [sys.executable, "-s", "-P", "-B", "-c", INNER, folder, os.path.join(folder, "work.json"), str(theirs)],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[theirs],
                cwd=folder,
                env=ENVIRONMENT,
                start_new_session=True,
                preexec_fn=lambda: confine(limits),
            )
        os.close(theirs)
        assert child.stdout is not None and child.stderr is not None
        pipes = {result: "result", child.stdout.fileno(): "stdout", child.stderr.fileno(): "stderr"}
        output, limit = listen(child, pipes, limits)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        status = child.wait()
    encoded: dict[str, Any] = {name: base64.b64encode(data).decode() for name, data in output.items()}
    return json.dumps({**encoded, "status": status, "spent": limit})


def confine(limits: dict[str, Any]) -> None:
    for name, value in (
        ("AS", limits["memory"]),
        ("FSIZE", limits["file"]),
        ("CPU", math.ceil(limits["cpu"])),
        ("CORE", 0),
    ):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


def listen(
    child: subprocess.Popen[bytes], pipes: dict[int, str], limits: dict[str, Any]
) -> tuple[dict[str, bytearray], str]:
    """Read all pipes until the process ends. Returns: their content, and the exceeded limit, if any."""
    output = {name: bytearray() for name in pipes.values()}
    due, ending = time.monotonic() + limits["wall"], False
    with selectors.DefaultSelector() as selector:
        for descriptor in pipes:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(0.0 if ending else 0.02)
            for key, _ in ready:
                piece = os.read(key.fd, 2**16)
                output[pipes[key.fd]] += piece
                if not piece:
                    selector.unregister(key.fd)
            if len(output["result"]) > limits["output"] or len(output["stdout"] + output["stderr"]) > limits["output"]:
                return output, "output"
            if ending and not ready:
                break
            ending = child.poll() is not None
            if time.monotonic() > due and not ending:
                return output, "wall"
    return output, ""
