"""The page of a rollout that a program played: branches, tool calls, and what happened to calls beside the turns."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from random import Random

from endpoint.programs import renderer_of
from endpoint.serving import Served, serving
from gnomon.envs.agent import End
from gnomon.reading.address import Address
from gnomon.reading.rollouts import rollout, rollout_text
from gnomon.store import Record, Run, RunReader
from gnomon.store.codec import encode
from gnomon.types import Group, Message, Part, Rollout, Status, Stop, Task, Verdict
from viewer.conftest import asked, served
from viewer.used import screen

ASKED = "Add 1 and 2, and write the sum to out.txt."
TOOL = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}


def say(prompt: str, rng: Random) -> str:
    if "helper" in prompt:
        return '<tool_call>\n{"name": "add", "arguments": {"a": 1,}}\n</tool_call>'
    if "<tool_response>" not in prompt.split("</tools>")[-1]:
        return '<think>\nThe tool adds.\n</think>\n\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    return "It is 3."


def calls(endpoint: Served) -> None:
    """Two turns and a branch; a repeated, an abandoned and two refused calls."""
    messages: list[object] = [{"role": "system", "content": "You add."}, {"role": "user", "content": ASKED}]

    def post(messages: object, path: str = "/v1/chat/completions", retries: int = 0, **more: object) -> object:
        body = {"messages": messages, "tools": [TOOL], **more}
        status, _, text = endpoint.post(path, body, x_stainless_retry_count=str(retries))
        return json.loads(text)["choices"][0]["message"] if status == 200 else status

    reply = post(messages)
    assert post(messages, retries=1) == reply
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "3"} for call in reply["tool_calls"]]
    assert post([*messages, reply, *results])["content"] == "It is 3."
    post([{"role": "system", "content": "You are a helper."}, messages[1]])
    assert (post(messages, n=2), post(messages, "/v1/embeddings")) == (400, 404)
    text = json.dumps({"messages": [{"role": "user", "content": "Is anybody there?"}]})
    with socket.create_connection(("127.0.0.1", endpoint.port)) as client:
        client.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\n"
                       f"Content-Length: {len(text)}\r\n\r\n{text}".encode())  # fmt: skip
        while len(endpoint.policy.prompts) < 4:
            time.sleep(0.01)


def played(folder: Path) -> Path:
    """A run of one group of two: a program with all that can happen to a call, and one that a limit ended."""
    with serving(renderer_of("qwen3", folder / "family"), say, delay=0.2) as endpoint:
        calls(endpoint)
        time.sleep(0.4)
        turns, beside = endpoint.turns(), endpoint.recorder.calls
    task = Task(id="sum", messages=(Message(role="user", content=ASKED),), answer="3")
    before = {"notes.txt": b"kept", "old.txt": b"gone"}
    end = End(status=1, output="Traceback: KeyError\n", files={"notes.txt": b"kept", "out.txt": b"3\n", "b": b"\xff"})
    wrong = Verdict(status=Status.WRONG, parts=(Part(name="correct", value=0.0),), detail="out.txt is 3, not 4")
    late = End(status=None, limit="time")
    pairs = ((turns, end.dumps(before), beside), ((), late.dumps(), type(beside)()))
    rollouts = tuple(
        Rollout(task=task, sample=sample, turns=found, verdict=wrong, stop=Stop.DONE, end=text, calls=counts)
        for sample, (found, text, counts) in enumerate(pairs)
    )
    group = Group(task=task, index=0, rollouts=rollouts)
    step = Record(kind="step", step=0, body={"metrics": {"reward": 0.0}, "statuses": {}})
    recipe = '[env]\ntype = "repair"\n'
    with Run.create(folder / "run", recipe=recipe, manifest={"tier": "exact"}, genesis={"config": {}}) as run:
        run.append([*encode(group, kind="rollout", step=0), step])
    return folder / "run"


def test_the_page_of_a_program_shows_all_that_happened_to_its_calls(tmp_path, browser):
    run = played(tmp_path)
    with served(run) as viewer:
        url = f"http://127.0.0.1:{viewer.port}/run/run/-"
        for width in (1200, 420):
            with screen(browser, width):
                browser.open(f"{url}/rollout/0:0:0?token={viewer.token}")
                assert browser.value("document.documentElement.scrollWidth <= innerWidth")
        text = browser.value("document.body.innerText")
        browser.open(f"{url}/rollout/0:0:1")
        silent = browser.value("document.body.innerText")
        for path in ("step/0", "group/0:0?with=1", "task/0", "search?text=adds", "rollout/0:0:0?as=markdown"):
            assert asked(viewer, f"/run/run/-/{path}")[0] == 200, path
    for words in (
        "a new conversation: turn 3", "Turn 3 begins a new conversation.", "Exit status 1. It removed old.txt.",
        "Calls refused: not_found 1, unsupported_n 1", "Replies with a tool call that cannot be read: 1",
        "Calls repeated by the client: 1", "Sampled tokens that the program never received: 63", "Traceback: KeyError",
        "1 byte, not text",
    ):  # fmt: skip
        assert words in text, (words, text)
    assert ASKED in silent and "The program received no reply." in silent
    assert "The limit of time ended it. It changed no file." in silent
    with RunReader(run) as reader:
        shown = rollout_text(rollout(reader, Address("rollout", 0, 0, 1)))
    assert ASKED in shown and "--- program: the limit of time ended it" in shown and "--- reply" not in shown
