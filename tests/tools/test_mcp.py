"""Tools of a server process that speaks the Model Context Protocol: one of ours, and the official package's."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from gnomon.envs import Arithmetic
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.tools import Outcome, WithTools, start_server, use
from gnomon.tools.mcp import MCPTool

PYTHON = os.path.realpath(sys.executable)
OFFICIAL = """
import sys
sys.path[:0] = {path!r}
try:
    from mcp.server.fastmcp import FastMCP as Server
except ImportError:
    from mcp.server.mcpserver import MCPServer as Server
server = Server("sums")
@server.tool()
def add(a: int, b: int) -> int:
    "Adds two numbers."
    return a + b
server.run("stdio")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The server's file where everyone may read it: inside a sandbox we are somebody else."""
    shutil.copy(Path(__file__).parent / "stdio_server.py", tmp_path / "server.py")
    for place in (tmp_path, *tmp_path.parents[:2]):
        place.chmod(0o755)
    return tmp_path


def tools(folder: Path, how: str = "", **settings: object) -> dict[str, MCPTool]:
    command = (PYTHON, str(folder / "server.py"), how)
    made = start_server(command, readable=(str(folder),), **settings)  # type: ignore[arg-type]
    return {tool.remote: tool for tool in made}


@pytest.mark.parametrize("sandboxed", [True, False])
@pytest.mark.parametrize("how", ["", "chatty"])
def test_tools_are_found_and_called_and_share_one_process(folder, sandboxed, how):
    found = tools(folder, how, sandboxed=sandboxed, prefix="my_")
    assert [tool.name for tool in found.values()] == ["my_echo", "my_count", "my_odd"]
    assert found["echo"].argument == "text" and found["count"].argument is None
    env = WithTools(env=Arithmetic(), lent=tuple(found.values()), budget=8)
    episode = env.start(env.tasks("train")[0], Key(0))
    said = [
        [message.content for message in episode.step(reply).messages]
        for reply in (
            "<my_echo>hé 中</my_echo>",
            '<tool_call>{"name": "my_count"}</tool_call><tool_call>{"name": "my_count"}</tool_call>',
            '<tool_call>{"name": "my_echo"}</tool_call>',
        )
    ]
    assert said == [["hé 中"], ["2", "3"], ["error: the argument 'text' is missing"]]
    episode.close()
    again = env.start(env.tasks("train")[0], Key(0))
    assert again.step('<tool_call>{"name": "my_count"}</tool_call>').messages[0].content == "1", "one per episode"
    again.close()


@pytest.mark.parametrize(
    ("how", "text", "outcome"),
    [
        ("error", "error: it failed", "answered"),
        ("image", "[image]", "answered"),
        ("nonsense", "(nothing)", "answered"),
        ("ask", "-32601", "answered"),
        ("refuse", "error: Refused: no such thing", "raised"),
        ("hang", "time of the call is over", "overtime"),
        ("die", "begins afresh", "ended"),
        ("flood", "begins afresh", "ended"),
    ],
)
@pytest.mark.parametrize("sandboxed", [True, False])
def test_what_a_server_does_wrong_is_told_and_the_next_call_is_served(folder, how, text, outcome, sandboxed):
    # A flood of megabytes takes a busy machine its time.
    found = tools(folder, wall=30.0 if how == "flood" else 2.0, sandboxed=sandboxed)
    opened = found["odd"].open()
    began = time.monotonic()
    result = use(found["odd"], opened, {"how": how})
    assert text in result.text and result.outcome == outcome and len(result.text) <= 4096
    assert time.monotonic() - began < 30
    assert use(found["echo"], opened, {"text": "again"}).text == "again"
    assert use(found["echo"], opened, {"text": "again"}).outcome is Outcome.ANSWERED
    opened.close()


@pytest.mark.parametrize("sandboxed", [True, False])
def test_what_is_no_server_is_refused(folder, sandboxed):
    for command in ((PYTHON, str(folder / "server.py"), "mute"), ("no-such-program",)):
        with pytest.raises(ConfigError, match="E161"):
            start_server(command, readable=(str(folder),), sandboxed=sandboxed)


def test_a_sandboxed_server_sees_no_file_that_it_was_not_given(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "secret"
    other.write_text("canary")
    script = folder / "look.py"
    source, look = (folder / "server.py").read_text(), f"str(__import__('os').path.exists({str(other)!r}))"
    script.write_text(source.replace('arguments.get("text", "")', look))
    (echo, *_) = start_server((PYTHON, str(script)), readable=(str(folder),))
    opened = echo.open()
    assert use(echo, opened, {"text": ""}).text == "False"
    opened.close()


@pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="pip install mcp, to try the official server")
def test_the_official_server_is_understood():
    path = [place for place in sys.path if os.path.isdir(place)]
    (add,) = start_server((PYTHON, "-c", OFFICIAL.format(path=path)), readable=tuple(path), wall=30.0)
    opened = add.open()
    assert add.name == "add" and add.description == "Adds two numbers."
    assert use(add, opened, {"a": 2, "b": 3}).text == "5"
    assert use(add, opened, {"a": "x", "b": 3}).outcome is Outcome.MALFORMED
    opened.close()
