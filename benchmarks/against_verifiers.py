"""The same calls of a program through Gnomon's endpoint and through that of verifiers: which tokens each would train.

    python3 -m venv verifiers && verifiers/bin/pip install verifiers
    python benchmarks/against_verifiers.py --python verifiers/bin/python

A story is a list of requests. Both endpoints serve it over HTTP with replies that the same script samples, token by
token in an unusual spelling, as a policy may. verifiers records a graph, and trains the sampled tokens of each of its
branches once; Gnomon trains the turns of its rollout. Printed are, by story: tokens that were sampled, tokens that each
trains, branches, and prompts that do not begin with the tokens of the turn before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve()
REPLY = "fox dog"
CALL = '<tool_call>\n{"name": "add", "arguments": {"b":  1.50, "a": "\\u00e9"}}\n</tool_call>'
ADD = {"type": "function", "function": {"name": "add", "description": "Adds.",
       "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}  # fmt: skip
ECHOED = ("role", "content", "tool_calls", "reasoning_content")
MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
TRACE: dict[str, Any] = {"id": "0", "task": None, "agent": None, "rewards": {}, "metrics": {}, "info": {}}
Messages = list[dict[str, Any]]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def stories(ask: Any) -> None:
    """Play every story. `ask(story, reply, messages, tools)` returns the assistant's message as the client got it."""
    system = {"role": "system", "content": "s"}

    def begin(name: str, reply: str = REPLY, tools: bool = False) -> tuple[Messages, dict[str, Any]]:
        messages = [system, user("q")]
        return messages, ask(name, reply, messages, tools)

    messages, first = begin("two turns")
    ask("two turns", REPLY, [*messages, first, user("go on")])
    messages, first = begin("text trimmed by the client", f" {REPLY} ")
    trimmed = {"role": "assistant", "content": (first["content"] or "").strip()}
    ask("text trimmed by the client", REPLY, [*messages, trimmed, user("go on")])
    for name in ("tool call", "call written anew by the client"):
        messages, first = begin(name, CALL, True)
        calls = first.get("tool_calls") or []
        if "anew" in name:
            for call in calls:
                call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), sort_keys=True)
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "3"} for call in calls]
        ask(name, REPLY, [*messages, {**first, "content": first.get("content") or ""}, *results], True)
    messages, first = begin("malformed call", "<tool_call>\nno call\n</tool_call>", True)
    ask("malformed call", REPLY, [*messages, first, user("go on")], True)
    messages, first = begin("edited reply")
    ask("edited reply", REPLY, [*messages, {"role": "assistant", "content": "other"}, user("go on")])
    messages, first = begin("edit before a later reply")
    second = ask("edit before a later reply", REPLY + " two", [*messages, first, user("go on")])
    other = [*messages, {"role": "assistant", "content": "other"}, user("go on"), second, user("end")]
    ask("edit before a later reply", REPLY, other)
    messages, first = begin("summary and a new conversation")
    summary = ask("summary and a new conversation", "sum", [*messages, first, user("summarise")])
    ask("summary and a new conversation", REPLY, [system, user(f"So far: {summary['content']}")])
    messages, first = begin("two answers to one prompt")
    ask("two answers to one prompt", "other fox", messages)
    messages, first = begin("thinking left out by the client", f"<think>\nhm\n</think>\n\n{REPLY}")
    plain = {"role": "assistant", "content": first["content"]}
    ask("thinking left out by the client", REPLY, [*messages, plain, user("go on")])


def posted(url: str, key: str, messages: Messages, tools: bool) -> dict[str, Any]:
    """The reply to a request, with the fields that a client sends back."""
    body = {"model": "m", "messages": messages, **({"tools": [ADD]} if tools else {})}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        message: dict[str, Any] = json.load(response)["choices"][0]["message"]
        return {name: value for name, value in message.items() if name in ECHOED}


def spelled(encode: Any, control: dict[str, int], text: str) -> list[int]:
    """The text in one token per character, markup as its control token, and the end of the turn."""
    ids: list[int] = []
    while text:
        mark = next((each for each in MARKS if text.startswith(each) and each in control), "")
        ids += [control[mark]] if mark else encode(text[0])
        text = text[len(mark) or 1 :]
    return [*ids, control["<|im_end|>"]]


def gnomon_side(folder: Path) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT / "tests"))
    from endpoint.serving import Served, serving
    from gnomon.models.tokenizer import Tokenizer
    from gnomon.rendering import Qwen3

    renderer, open_stories = Qwen3(Tokenizer(folder)), dict[str, Served]()
    control, completions = renderer.encoding.control, dict[str, list[list[int]]]()
    with ExitStack() as stack:

        def ask(story: str, reply: str, messages: Messages, tools: bool = False) -> dict[str, Any]:
            if story not in open_stories:
                open_stories[story] = stack.enter_context(serving(renderer))
            served = open_stories[story]
            served.policy.say = lambda prompt, rng: reply
            completions.setdefault(story, []).append([*served.policy.ids(reply), control["<|im_end|>"]])
            return posted(f"{served.url}/v1", served.key, messages, tools)

        stories(ask)
        return {
            story: {
                "prompts": [list(request.prompt_ids) for request in served.policy.requests],
                "completions": completions[story],
                "trained": sorted(list(turn.completion.token_ids) for turn in served.turns()),
                "branches": len({turn.fork for turn in served.turns()}),
            }
            for story, served in open_stories.items()
        }


async def verifiers_side(folder: Path) -> dict[str, Any]:
    from aiohttp import web
    from renderers.configs import Qwen3RendererConfig
    from transformers import AutoTokenizer
    from verifiers.v1.clients.client import ModelContext
    from verifiers.v1.configs.client import TrainClientConfig
    from verifiers.v1.interception.server import InterceptionServer
    from verifiers.v1.session import RolloutSession
    from verifiers.v1.trace import Trace

    tokenizer = AutoTokenizer.from_pretrained(folder)
    control = {token: number for number, token in ((n, str(t)) for n, t in tokenizer.added_tokens_decoder.items())}
    prompts, replies, completions = dict[str, list[list[int]]](), [""], dict[str, list[list[int]]]()

    async def generate(request: web.Request) -> web.Response:
        body = await request.json()
        prompts.setdefault(current[0], []).append(body["token_ids"])
        ids = spelled(lambda text: tokenizer.encode(text, add_special_tokens=False), control, replies[0])
        completions.setdefault(current[0], []).append(ids)
        logprobs = {"content": [{"token": f"token_id:{number}", "logprob": -0.5} for number in ids]}
        choice = {"index": 0, "token_ids": ids, "finish_reason": "stop", "logprobs": logprobs}
        return web.json_response({"request_id": "0", "choices": [choice]})

    app = web.Application()
    app.router.add_post("/inference/v1/generate", generate)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    client = TrainClientConfig(
        base_url=f"http://127.0.0.1:{port}/v1", renderer=Qwen3RendererConfig(), renderer_model_name=str(folder)
    )
    traces, keys, current = dict[str, Any](), dict[str, str](), [""]
    async with InterceptionServer() as server:

        def ask(story: str, reply: str, messages: Messages, tools: bool = False) -> dict[str, Any]:
            if story not in keys:
                trace = Trace.model_construct(**TRACE, nodes=[], calls=[], tools=[], mm_token_type_id_map={}, errors=[])
                traces[story] = trace
                session = RolloutSession(ctx=ModelContext(model="m", client=client), trace=trace)
                keys[story], _ = server.register(session)
            current[0], replies[0] = story, reply
            return posted(f"{server.base_url}/v1", keys[story], messages, tools)

        await asyncio.to_thread(stories, ask)
    await runner.cleanup()
    return {
        story: {
            "prompts": prompts[story],
            "completions": completions[story],
            "trained": sorted(
                [token for token, sampled in zip(node.token_ids, node.mask, strict=True) if sampled]
                for node in trace.nodes
                if node.sampled
            ),
            "branches": len(trace.nodes) - len({node.parent for node in trace.nodes if node.parent is not None}),
        }
        for story, trace in traces.items()
    }


def continued(prompts: list[list[int]], completions: list[list[int]]) -> int:
    """Number of prompts that begin with an earlier prompt and the tokens sampled after it."""
    return sum(
        any(prompt[: len(one) + len(ids)] == one + ids for one, ids in zip(prompts[:place], completions, strict=False))
        for place, prompt in enumerate(prompts)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="of an environment with verifiers")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        print(json.dumps(asyncio.run(verifiers_side(options.folder))))
        return
    sys.path.insert(0, str(ROOT / "tests"))
    from rendering.families import tokenizer_folder

    with tempfile.TemporaryDirectory() as home:
        folder = Path(tokenizer_folder(Path(home) / "qwen3", "qwen3"))
        command = [options.python, str(HERE), "--python", options.python, "--folder", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        if done.returncode:
            sys.exit(done.stderr)
        theirs, ours = json.loads(done.stdout.splitlines()[-1]), gnomon_side(folder)
    print(
        "story: same prompts, same trained tokens; of Gnomon and verifiers: branches, prompts that continue the sample"
    )
    for story, mine in ours.items():
        other = theirs[story]
        same = [mine[part] == other[part] for part in ("prompts", "trained")]
        counts = [continued(side["prompts"], side["completions"]) for side in (mine, other)]
        print(f"{story}: {same[0]}, {same[1]}; {mine['branches']} and {other['branches']}, {counts[0]} and {counts[1]}")


if __name__ == "__main__":
    main()
