"""A terminal driven by keys: real programs on a real pseudo-terminal in a sandbox."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from gnomon.sandbox import Session
from gnomon.tools import Outcome, TerminalTool, use
from gnomon.tools.terminal import Terminal
from tools.conftest import needed

PYTHON = (os.path.realpath(sys.executable), "-q", "-I")


def transcript(keys: list[str], **settings: object) -> list[str]:
    """The screen after each of some keys."""
    tool = TerminalTool(rows=12, columns=48, **settings)  # type: ignore[arg-type]
    opened = tool.open()
    try:
        return [use(tool, opened, {"keys": key}).text for key in keys]
    finally:
        opened.close()


def test_python_is_driven_and_the_transcript_is_the_same_every_time():
    keys = [
        "x = 6<Enter>",
        "x * 7<Enter>",
        "for n in range(2):\n    print(n)\n\n",
        "1/0<Enter>",
        "<Up><Enter>",
        "<C-d>",
    ]
    first = transcript(keys, program=PYTHON)
    assert first[1] == ">>> x = 6\n>>> x * 7\n42\n>>>\n[row 4, column 5]"
    assert "\n0\n1\n>>>" in first[2] and "ZeroDivisionError" in first[3]
    assert first == transcript(keys, program=PYTHON)


@pytest.mark.needs("bc")
def test_bc_is_driven_and_the_transcript_is_the_same_every_time():
    keys = ["2^100<Enter>", "scale=5; 1/7<Enter>", "quit<Enter>"]
    first = transcript(keys, program=(needed("bc", "bc"), "-q"))
    assert first[0] == "2^100\n1267650600228229401496703205376\n[row 3, column 1]"
    assert first[1].endswith(".14285\n[row 5, column 1]")
    assert first[2].endswith("error: it has ended, and begins afresh with the next call")
    assert first == transcript(keys, program=(needed("bc", "bc"), "-q"))


@pytest.mark.needs("vim")
def test_vim_writes_a_file():
    vim = needed("vim", "vim")
    keys = [
        f"{vim} -u NONE -i NONE -n note<Enter>",
        "ihello world<Enter>second<Esc>",
        "gg$aEND<Esc>yyp",
        ":%s/o/0/g<Enter>",
        "<Up><Up>Ofirst 中<Esc>",
        ":wq<Enter>",
        "<C-l>cat note<Enter>",
    ]
    shown = transcript(keys)
    assert "~\n~" in shown[0] and '"note" [New' in shown[0]
    assert shown[1].startswith("hello world\nsecond\n~")
    assert shown[2].startswith("hello worldEND\nhello worldEND\nsecond\n~")
    assert shown[3].startswith("hell0 w0rldEND\nhell0 w0rldEND\nsec0nd\n~")
    assert shown[4].startswith("first 中\nhell0 w0rldEND\n")
    assert "~" not in shown[5] and "$ " in shown[5], "the screen from before vim is back"
    assert "first 中\nhell0 w0rldEND\nhell0 w0rldEND\nsec0nd\n$" in shown[6]


def test_what_works_is_waited_for_and_what_never_ends_is_told():
    tool = TerminalTool(seconds=0.6, wall=2.0)
    opened = tool.open()
    try:
        work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo do''ne<Enter>"
        patient = TerminalTool(seconds=30.0, wall=60.0)
        opened._tool = patient  # type: ignore[misc]
        assert "\ndone\n" in use(patient, opened, {"keys": work}).text, "silent for long, and working"
        opened._tool = tool  # type: ignore[misc]
        flood = use(tool, opened, {"keys": "yes<Enter>"})
        assert flood.outcome is Outcome.OVERTIME and "y\ny\ny" in flood.text
        assert use(tool, opened, {"keys": "<C-c>"}).text.count("$")
        assert "42" in use(tool, opened, {"keys": "clear; echo $((6*7))<Enter>"}).text
    finally:
        opened.close()


def test_no_file_of_the_host_is_seen(tmp_path):
    (tmp_path / "secret").write_text("canary-77")
    shown = transcript(
        [f"cat {tmp_path}/secret; ls {tmp_path} /home /root; cat /etc/passwd; env<Enter>", "<C-l>ls /proc<Enter>"]
    )
    assert "canary" not in "".join(shown) and "root:" not in "".join(shown)


def test_noise_on_the_keyboard_and_on_the_screen_breaks_nothing():
    tool = TerminalTool(rows=10, columns=40, seconds=2.0, wall=5.0)
    opened = tool.open()
    try:
        for keys in ("head -c 20000 /dev/urandom<Enter>", "<Esc><C-@>\x00\x9b\ud800<F8><Enter>", "", "\n" * 50):
            result = use(tool, opened, {"keys": keys})
            assert result.outcome in (Outcome.ANSWERED, Outcome.OVERTIME, Outcome.ENDED) and len(result.text) <= 4096
    finally:
        opened.close()


def test_a_shell_that_is_killed_from_outside_is_told_and_replaced():
    tool = TerminalTool()
    opened = tool.open()
    try:
        assert use(tool, opened, {"keys": "x=5<Enter>"}).outcome is Outcome.ANSWERED
        session = opened._session
        assert isinstance(opened, Terminal) and isinstance(session, Session)
        os.kill(session.pid, 9)  # The program that built the sandbox: what runs inside goes on.
        assert "5" in use(tool, opened, {"keys": "echo $x<Enter>"}).text
        signal.pidfd_send_signal(session._first, 9)
        due = time.monotonic() + 10
        while session.alive and time.monotonic() < due:
            time.sleep(0.02)
        assert use(tool, opened, {"keys": "echo $x<Enter>"}).outcome is Outcome.ENDED
        after = use(tool, opened, {"keys": "echo [$x]<Enter>"})
        assert after.outcome is Outcome.ANSWERED and "[]" in after.text
    finally:
        opened.close()


def test_the_size_is_the_programs_own():
    assert "12 48" in transcript(["stty size<Enter>"])[0]
