"""A program that lives for an episode: talked to, cut short, and gone with all it started."""

from __future__ import annotations

import os
import time

import pytest

from gnomon.sandbox import Limits, Session
from sandbox.conftest import confined, descendants

LIMITS = Limits(cpu_seconds=5, wall_seconds=20, memory_bytes=2**28, processes=16, file_bytes=2**22)


def until(session: Session, mark: bytes, seconds: float = 15.0) -> bytes:
    heard, due = b"", time.monotonic() + seconds
    while mark not in heard and time.monotonic() < due:
        heard += session.receive(0.2)
    assert mark in heard, heard
    return heard


def test_a_python_session_keeps_its_state():
    with Session(("python3", "-i", "-q"), LIMITS) as session:
        session.send(b"x = 6\n")
        session.send(b"print(x * 7)\n")
        assert b"42" in until(session, b"42\n")
        assert session.alive
        session.close_input()
        session.receive_all()
        assert session.status == 0 and not session.alive


def test_a_shell_over_a_terminal():
    with Session(("bash", "--norc"), LIMITS, pty=True, size=(30, 100)) as session:
        session.send(b"PS1='> '; tty; stty size; echo $TERM; echo made > note; cat note; echo $((6*7))\n")
        heard = until(session, b"\r\n42\r\n")
        assert b"/dev/pts/0" in heard and b"30 100" in heard and b"xterm-256color" in heard and b"\r\nmade\r\n" in heard
        session.resize(50, 120)
        session.send(b"sleep 600\n")
        time.sleep(0.3)
        session.interrupt()
        session.send(b"stty size; exit 3\n")
        assert b"50 120" in until(session, b"50 120")
        session.receive_all()
        due = time.monotonic() + 10
        while session.alive and time.monotonic() < due:
            time.sleep(0.02)
        assert session.status == 3


def test_job_control_works_over_a_terminal():
    with Session(("bash", "--norc", "-i"), LIMITS, pty=True) as session:
        session.send(b"sleep 300 & sleep 0.1; jobs; kill %1; wait; echo do''ne\n")
        heard = until(session, b"done")
        assert b"Running" in heard and b"no job control" not in heard


def test_closing_ends_everything_it_started():
    before = descendants()
    session = Session(("bash", "--norc"), LIMITS)
    session.send(b"for i in 1 2 3; do (setsid sleep 600 &) ; done; nohup sleep 600 & trap '' TERM HUP; echo up\n")
    until(session, b"up")
    assert len(descendants() - before) >= 6
    began = time.monotonic()
    session.close()
    assert descendants() <= before
    assert time.monotonic() - began < 20  # The processes would sleep for ten minutes.
    session.close()
    assert session.receive() == b"" and session.send(b"x") == 0


def test_the_end_of_the_program_is_the_end_of_all():
    before = descendants()
    with Session(("bash", "-c", "sleep 600 & exit 7"), LIMITS) as session:
        due = time.monotonic() + 10
        while session.alive and time.monotonic() < due:
            time.sleep(0.02)
        assert session.status == 7
        while confined(descendants() - before) and time.monotonic() < due:
            time.sleep(0.02)
        assert not confined(descendants() - before)
    assert descendants() <= before


def test_time_ends_it_from_within():
    short = Limits(cpu_seconds=5, wall_seconds=0.5, processes=16)
    with Session(("sleep", "600"), short) as session:
        due = time.monotonic() + 10
        while session.alive and time.monotonic() < due:
            time.sleep(0.05)
        assert not session.alive and session.status is None


def test_a_flood_waits_and_a_receive_is_bounded():
    small = Limits(cpu_seconds=5, wall_seconds=20, output_bytes=10_000, processes=16)
    with Session(("sh", "-c", "yes"), small) as session:
        assert [len(session.receive()) <= 10_000 for _ in range(5)] == [True] * 5


def test_input_that_is_not_read_does_not_hold_the_caller():
    with Session(("sleep", "600"), LIMITS) as session:
        began = time.monotonic()
        taken = session.send(b"x" * 2**20, timeout=0.3)
        assert 0 < taken < 2**20 and time.monotonic() - began < 3


@pytest.mark.parametrize("pty", [False, True])
def test_a_program_that_is_not_there(pty):
    with Session(("no-such-program",), LIMITS, pty=pty) as session:
        assert b"No such file" in session.receive_all()
        due = time.monotonic() + 10
        while session.alive and time.monotonic() < due:
            time.sleep(0.02)
        assert session.status == 127


def test_what_a_session_sees(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET", "canary-77")
    (tmp_path / "data.txt").write_text("shown")
    tmp_path.chmod(0o755)  # What everyone may read: inside, root is somebody else.
    script = (
        "env; id -u; ls /; ls /home /root /etc; ps -e 2>/dev/null | wc -l; cat $1; echo x > $1; mount -t tmpfs x /mnt"
    )
    with Session(("sh", "-c", script, "sh", str(tmp_path / "data.txt")), LIMITS, readable=(str(tmp_path),)) as session:
        said = session.receive_all().decode()
    assert "canary-77" not in said and "shown" in said and "/etc/passwd" not in said
    assert (tmp_path / "data.txt").read_text() == "shown"
    assert os.environ["SECRET"] == "canary-77"


def test_its_processes_and_files_are_capped():
    script = (
        "import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60)\n        n += 1\n"
        "except OSError: print('forks', n)\n"
        "try:\n    with open('big', 'wb') as f:\n        for _ in range(64): f.write(bytes(2**20))\n"
        "except OSError as error: print('files', error.errno)\n"
    )
    with Session(("python3", "-c", script), LIMITS) as session:
        said = session.receive(10).decode()
        while "files" not in said and session.alive:
            said += session.receive(1).decode()
    assert f"forks {LIMITS.processes - 1}" in said and ("files 27" in said or "files 28" in said)
