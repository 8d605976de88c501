"""An endpoint in a thread of the test, behind it a policy that says what a script says."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gnomon.agents.endpoint import Endpoint
from gnomon.agents.recorder import Bounds, Recorder
from gnomon.agents.server import Server
from gnomon.keys import Key
from gnomon.rendering import Renderer, Transcript
from gnomon.types import Completion, Finish, Request, Sampling, Turn

Say = Callable[[str, random.Random], str]
"""The policy's reply to a prompt, both as text; `<tool_call>` and the like become control tokens."""
MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")


@dataclass
class Policy:
    """Spells its replies letter by letter."""

    renderer: Renderer
    say: Say
    delay: float = 0.0
    prompts: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def ids(self, text: str) -> list[int]:
        encoding = self.renderer.encoding  # type: ignore[attr-defined]
        found: list[int] = []
        while text:
            mark = next((each for each in MARKS if text.startswith(each) and each in encoding.control), "")
            found += [encoding.control[mark]] if mark else encoding.tokenizer.encode(text[0])
            text = text[len(mark) or 1 :]
        return found

    async def sample(self, request: Request) -> Completion:
        encoding = self.renderer.encoding  # type: ignore[attr-defined]
        prompt = encoding.decode(request.prompt_ids)
        self.prompts.append(prompt)
        self.requests.append(request)
        await asyncio.sleep(self.delay)
        text = self.say(prompt, random.Random(request.key))
        ids = self.ids(text)
        finish = Finish.EOS
        stops = [place for stop in request.sampling.stop if (place := text.find(stop)) >= 0]
        if stops:
            ends = min(text.find(stop) + len(stop) for stop in request.sampling.stop if stop in text)
            ids, finish = self.ids(text[:ends]), Finish.STOP
        else:
            ids.append(encoding.control["<|im_end|>"])
        if len(ids) > request.sampling.max_tokens:
            ids, finish = ids[: request.sampling.max_tokens], Finish.LENGTH
        return Completion(
            token_ids=tuple(ids),
            logprobs=tuple(-0.5 for _ in ids),
            text=encoding.tokenizer.decode(ids),
            finish=finish,
            version=0,
        )


@dataclass
class Served:
    """The endpoint of one rollout, from a client's side."""

    port: int
    key: str
    policy: Policy
    recorder: Recorder
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def turns(self) -> tuple[Turn, ...]:
        async def turns() -> tuple[Turn, ...]:
            return self.recorder.turns()

        return asyncio.run_coroutine_threadsafe(turns(), self.loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.recorder.close(), self.loop).result()

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, dict[str, str], bytes]:
        return self.ask("POST", path, json.dumps(body).encode() if not isinstance(body, bytes) else body, **headers)

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            names = {"authorization": f"Bearer {self.key}"} | {n.replace("_", "-"): v for n, v in headers.items()}
            connection.request(method, path, body, names)
            response = connection.getresponse()
            return response.status, {n.lower(): v for n, v in response.getheaders()}, response.read()
        finally:
            connection.close()


@contextmanager
def serving(
    renderer: Renderer,
    say: Say = lambda prompt, rng: "fox",
    *,
    delay: float = 0.0,
    keepalive: float = 3.0,
    max_tokens: int = 400,
    bounds: Bounds | None = None,
    largest: int = 2**20,
    longest: int = 2**24,
    stop: tuple[str, ...] = (),
) -> Iterator[Served]:
    """An endpoint with one rollout."""
    policy = Policy(renderer, say, delay)
    encoding = renderer.encoding  # type: ignore[attr-defined]
    recorder = Recorder(
        renderer,
        partial(Transcript.begin, renderer),
        policy.sample,
        key=Key(0),
        sampling=Sampling(max_tokens=max_tokens, stop=stop),
        bounds=bounds or Bounds(calls=100),
        piece=lambda token: encoding.tokenizer.decode([token]),
    )
    endpoint, ready = Endpoint(keepalive=keepalive, largest=largest, longest=longest), threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    endpoint.add("secret", recorder)
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        await Server(endpoint).listen(listener)
        ready.set()

    async def ending() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield Served(listener.getsockname()[1], "secret", policy, recorder, loop)
    finally:
        asyncio.run_coroutine_threadsafe(ending(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        listener.close()
