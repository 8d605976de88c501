"""Python in an episode's sandbox: it keeps what it should, is ended when it must be, and sees nothing of the host."""

from __future__ import annotations

import time

import pytest

from gnomon.envs import Arithmetic
from gnomon.errors import ResourceError
from gnomon.tools import Outcome, PythonTool, WithTools, use

TOOL = PythonTool(seconds=0.5, wall=4.0)


@pytest.fixture
def run():
    opened = []

    def call(code: str, tool: PythonTool = TOOL) -> tuple[str, str]:
        if not opened:
            opened.append(tool.open())
        result = use(tool, opened[0], {"code": code})
        return result.text, str(result.outcome)

    yield call
    for interpreter in opened:
        interpreter.close()


def test_names_and_files_are_kept_and_the_last_value_is_told(run):
    assert run("x = 6\nprint('hello')\nx * 7") == ("hello\n42", "answered")
    assert run("x + 1") == ("7", "answered")
    assert run("open('note', 'w').write('kept')")[0] == "4"
    assert run("print(open('note').read(), end='')")[0] == "kept"
    assert run("y = 1") == ("(no output)", "answered")
    assert run("'é中'")[0] == "'é中'"


def test_a_fresh_interpreter_keeps_files_alone(run):
    tool = PythonTool(persistent=False)
    assert run("x = 6; open('note', 'w').write('kept')", tool)[0] == "4"
    text, outcome = run("open('note').read(), x", tool)
    assert "NameError" in text and outcome == "answered"
    assert run("open('note').read()", tool)[0] == "'kept'"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("1/0", "ZeroDivisionError"),
        ("def f(:", "SyntaxError"),
        ("\0", "null bytes"),
        ("raise SystemExit(4)", "(no output)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("def f(): f()\nf()", "RecursionError"),
        ("input()", "EOFError"),
        ("import sys; sys.stdout.close()", "(no output)"),
        ("x = bytes(2**32)", "MemoryError"),
        ("import socket; socket.create_connection(('127.0.0.1', 80), 1)", "Error"),
        ("open('/etc/shadow')", "Error"),
        ("print('a' * 10**6)", "characters, cut"),
    ],
)
def test_what_goes_wrong_inside_is_told_and_the_interpreter_lives(run, code, told):
    run("alive = 'still'")
    text, outcome = run(code)
    assert told in text and outcome == Outcome.ANSWERED and len(text) <= 4096
    assert run("alive")[0] == "'still'"


@pytest.mark.parametrize(
    ("code", "limit"), [("while True: pass", 6), ("import time; time.sleep(60)", 12), ("while True: print('x')", 6)]
)
def test_what_never_returns_is_ended_and_the_next_call_is_served(run, code, limit):
    tool = PythonTool(seconds=0.3, wall=1.0)
    began = time.monotonic()
    text, outcome = run(code, tool)
    assert outcome == Outcome.OVERTIME and "time of the call is over" in text
    assert time.monotonic() - began < limit
    assert run("6*7") == ("42", "answered")


@pytest.mark.parametrize(
    "code",
    ["import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)", "import ctypes; ctypes.string_at(0)"],
)
def test_an_interpreter_that_dies_is_told_and_replaced(run, code):
    run("x = 1")
    text, outcome = run(code)
    assert outcome == Outcome.ENDED and "begins afresh" in text
    assert "NameError" in run("x")[0]


def test_no_file_or_variable_of_the_host_is_seen(run, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("canary-41")
    monkeypatch.setenv("SECRET", "canary-42")
    look = f"import os; print(os.environ, os.path.exists({str(tmp_path)!r}), os.listdir('/'), os.listdir('/proc'))"
    text, _ = run(look)
    assert "canary" not in text and "False" in text
    assert run(f"open({str(tmp_path / 'secret')!r}, 'w')")[0].count("Error")
    assert (tmp_path / "secret").read_text() == "canary-41"


def test_code_that_forges_the_end_of_its_output_misleads_itself_alone(run):
    run("import __main__, os\nfor n in range(3): os.write(1, b'\\nforged\\n')")
    assert run("1 + 1")[0].endswith("2")


def test_a_host_without_a_sandbox_is_refused_when_the_environment_is_made(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ResourceError, match="E520"):
        WithTools(env=Arithmetic(), lent=(PythonTool(),))
