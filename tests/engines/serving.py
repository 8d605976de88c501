"""A server with the route `/v1/completions` over a model: real HTTP, and log-probabilities that transformers computes.

It takes the forms of a request that servers differ in: `echo` (as vLLM, SGLang and OpenAI), `prompt` (vLLM's
`prompt_logprobs` alone), `none` (log-probabilities of new tokens alone, as llama.cpp), and faults by name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import torch
from transformers import AutoModelForCausalLM

KEY = "sesame"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None: ...

    def reply(self, status: int, body: object) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with suppress(BrokenPipeError):  # The client has given up.
            self.wfile.write(data)

    def do_GET(self) -> None:
        self.reply(200, {"data": [{"id": "policy"}]} if self.server.form != "nameless" else {"data": []})

    def do_POST(self) -> None:
        body, form = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.server.form
        ids = body["prompt"]
        if form == "slow":
            time.sleep(2)
        if form == "key" and self.headers.get("Authorization") != f"Bearer {KEY}":
            self.reply(401, {"error": "Unauthorized"})
        elif form == "chat only":
            self.reply(404, {"detail": "Not Found"})
        elif form == "page":
            self.reply(200, b"<html>")
        elif max(ids) >= self.server.vocabulary:
            self.reply(400, {"error": {"message": f"Token id {max(ids)} is out of vocabulary"}})
        else:
            logps = self.server.scored(ids)
            if form == "gone":
                logps[3] = float("nan")
            choice: dict[str, object] = {"text": "", "logprobs": {"token_logprobs": [-1.0]}}
            if body.get("echo") and form not in ("prompt", "none"):
                choice["logprobs"] = {"token_logprobs": [None, *logps, -1.0]}
            if body.get("prompt_logprobs") is not None and form == "prompt":
                tables = [{str(token): {"logprob": logp}} for token, logp in zip(ids[1:], logps, strict=True)]
                choice["prompt_logprobs"] = [None, *tables]
            self.reply(200, {"choices": [choice]})


class Server(ThreadingHTTPServer):
    def __init__(self, folder: Path, dtype: torch.dtype, form: str) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")
        self.vocabulary, self.form = self.model.config.vocab_size, form
        super().__init__(("127.0.0.1", 0), Handler)

    @torch.no_grad()
    def scored(self, ids: list[int]) -> list[float]:
        text = torch.tensor([ids])
        logp = torch.log_softmax(self.model(text).logits[0, :-1].float(), -1)
        return logp.gather(1, text[0, 1:, None])[:, 0].tolist()


@contextmanager
def serving(folder: Path, dtype: torch.dtype = torch.float32, form: str = "echo") -> Iterator[str]:
    """The address of a server of a model folder."""
    server = Server(folder, dtype, form)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
