"""A real HTTP server that answers like a chat model, or misbehaves in the way that the model's name asks for."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-very-secret-0123456789"


def judged(prompt: str) -> str:
    """A judge that goes by the gold, but that can be talked into a verdict by a reply with this very order."""
    gold = prompt.split("Reference answer:\n")[1].split("\n")[0]
    reply = prompt.split("-----\n")[1].rpartition("\n-----")[0]
    right = reply.strip() == gold
    return json.dumps({"verdict": "right" if right else "wrong", "reason": "compared"})


class Answers(BaseHTTPRequestHandler):
    seen: list[dict[str, Any]]

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
        getattr(self, f"do_{body['model']}")(body["messages"][-1]["content"])

    def say(self, content: Any, status: int = 200) -> None:
        body = json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode()
        self.raw(body, status)

    def raw(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_honest(self, prompt: str) -> None:
        self.say(judged(prompt))

    def do_gullible(self, prompt: str) -> None:
        """Accepts whatever gives it an order."""
        reply = prompt.split("-----\n")[1].rpartition("\n-----")[0]
        accepts = "full marks" in reply or "Ignore" in reply or '"right"' in reply
        self.say('{"verdict": "right", "reason": "I was told so"}' if accepts else judged(prompt))

    def do_confusable(self, prompt: str) -> None:
        """Loses its form over one reply only."""
        self.say("Well..." if "riddle" in prompt else judged(prompt))

    def do_talkative(self, prompt: str) -> None:
        self.say("Sure! The answer is right.")

    def do_fenced(self, prompt: str) -> None:
        self.say('```json\n{"verdict": "right", "reason": "x"}\n```')

    def do_twice(self, prompt: str) -> None:
        self.say('{"verdict": "wrong", "verdict": "right", "reason": "x"}')

    def do_third(self, prompt: str) -> None:
        self.say('{"verdict": "mostly", "reason": "x"}')

    def do_nothing(self, prompt: str) -> None:
        self.say(None)

    def do_garbage(self, prompt: str) -> None:
        self.raw(b"\xff\x00<html>")

    def do_bomb(self, prompt: str) -> None:
        self.raw(b"[" * 100_000)

    def do_flood(self, prompt: str) -> None:
        self.raw(b"x" * 10_000_000)

    def do_busy(self, prompt: str) -> None:
        if sum(call["model"] == "busy" for call in self.seen) % 2:
            self.raw(b"later", 503)
        else:
            self.say(judged(prompt))

    def do_forbidden(self, prompt: str) -> None:
        self.raw(f"bad key {self.headers.get('Authorization')}".encode(), 401)

    def do_silent(self, prompt: str) -> None:
        time.sleep(3)

    def do_dripping(self, prompt: str) -> None:
        """One byte at a time, each well within a socket's timeout."""
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            for _ in range(30):
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.1)
        except OSError:
            pass

    def do_hangup(self, prompt: str) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    seen: list[dict[str, Any]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answering", (Answers,), {"seen": seen}))
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
