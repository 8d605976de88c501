"""Output that cannot be encoded, read or stored ends no run and changes no exit status of one."""

from __future__ import annotations

import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import gnomon
from gnomon.terminal import put

GNOMON = str(Path(sys.executable).with_name("gnomon"))
SMALL = ("steps=1", "prompts=2", "group=2", "max_tokens=4", "eval.tasks=2", "audit.acknowledge=[]")
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""An environment in which Python reads and writes files as ASCII where nothing else is asked for."""


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    """A finished run whose process could write ASCII alone."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    done = gnomon_in(PLAIN, "train", "char_count", f"run={folder}", *SMALL)
    assert done.returncode == 0 and b"next: gnomon show" in done.stdout, done.stderr.decode()
    assert b"char_count ? " in done.stdout
    return str(folder)


def gnomon_in(variables: dict[str, str], *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([GNOMON, *words], env={**os.environ, **variables}, capture_output=True)


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True)


@pytest.mark.parametrize(
    "words", ["show {run}", "show {run} 0", "ls {run}", "env list", "objective grpo", "eval --help"]
)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_stream_with_few_characters_gets_the_rest_replaced(run, words, encoding):
    done = gnomon_in({"PYTHONIOENCODING": encoding}, *words.format(run=run).split())
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout


def test_an_error_reaches_a_stream_with_few_characters():
    done = gnomon_in({"PYTHONIOENCODING": "ascii:strict"}, "train", "zählen")
    assert done.returncode == 2 and b"error[E021]" in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("output", [">&-", ">/dev/full", "| head -1", ">&- 2>&- <&-"])
def test_a_run_finishes_whoever_reads_it(tmp_path, output):
    command = f"{GNOMON} train char_count run={tmp_path}/run {' '.join(SMALL)}"
    done = shell(f"set -o pipefail; {command} {output}")
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    with gnomon.RunReader(tmp_path / "run") as reader:
        assert reader.status == "finished"


def test_a_command_whose_output_is_lost_fails_with_a_code(run):
    lost = shell(f"{GNOMON} show {run} >/dev/full")
    assert lost.returncode == 1 and lost.stderr.startswith("error[E501] the output cannot be written\n")


@pytest.mark.parametrize("output", [">&-", "| true", "2>&-"])
def test_a_reader_that_leaves_is_not_an_error(run, output):
    done = shell(f"set -o pipefail; {GNOMON} show {run} {output}")
    assert (done.returncode, done.stderr) == (0, "")


class Full(TextIOWrapper):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_what_is_printed_by_a_script_is_replaced_or_dropped(monkeypatch):
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(BytesIO(), encoding="ascii"))
    put("a · b")
    sys.stdout.flush()
    assert sys.stdout.buffer.getvalue() == b"a ? b\n"
    for stream in (None, Full(BytesIO())):
        monkeypatch.setattr(sys, "stdout", stream)
        put("a · b")
