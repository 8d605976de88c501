"""Serve an environment over HTTP on this machine: its tasks, and the next step of an episode.

A request for a step contains the whole episode, so the server keeps no client state. Repeated requests have no side
effects, and a broken connection loses nothing. Answers of tasks never leave the process.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

from gnomon.envs import offers
from gnomon.envs.base import SPLITS, Env
from gnomon.envs.wire import read_key, step_json, task_json
from gnomon.integrations.exports.plays import Plays
from gnomon.integrations.exports.rewards import Splits

__all__ = ["Refused", "Server"]

LOOPBACK = "127.0.0.1"
BODY = 2**25
"""Largest request, in bytes."""
SECONDS = 30.0
"""Idle seconds after which a connection is closed."""


class Refused(Exception):
    """A refused request, with its HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Http(ThreadingHTTPServer):
    """One thread per connection. Connections dropped by the client are not logged."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Server:
    """Serves an environment on the loopback address.

    A request needs the bearer token, this machine's name as its `Host` (so that web pages cannot reach it by DNS
    rebinding), and a JSON body of at most 32 MiB.

    Args:
        port: 0 selects a free port.
        token: if empty, a new one is generated.
        workers: number of worker processes.
        seconds: CPU seconds for one step.
    """

    def __init__(self, env: Env, *, port: int = 0, token: str = "", workers: int = 2, seconds: float = 2.0) -> None:
        self.env, self.token = env, token or secrets.token_urlsafe(32)
        self.plays = Plays(env, workers=workers, seconds=seconds)
        self.splits = Splits(env)
        self._http = Http((LOOPBACK, port), type("Asked", (Asked,), {"owner": self}))
        self._thread = Thread(target=self._http.serve_forever, daemon=True)
        self.port = int(self._http.server_address[1])
        self.hosts = {f"{name}:{self.port}" for name in (LOOPBACK, "localhost")}

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def answer(self, path: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request. Raises: Refused."""
        match path:
            case "/v1/env":
                return self._about()
            case "/v1/task":
                return task_json(self._task(request))
            case "/v1/step":
                return self._step(request)
        raise Refused(404, f"there is no {path}")

    def _about(self) -> dict[str, Any]:
        return {
            "protocol": 1,
            "name": type(self.env).__name__,
            "reward_range": list(self.env.reward_range),
            "max_turns": self.env.max_turns,
            "players": offers.players(self.env),
            "sizes": {split: len(self.env.tasks(split)) for split in SPLITS},
        }

    def _task(self, request: Mapping[str, Any]) -> Any:
        split, index = request.get("split"), request.get("index")
        if split not in SPLITS or type(index) is not int:
            raise Refused(400, f"a task needs its split, one of {', '.join(SPLITS)}, and its index")
        try:
            return self.splits.task(str(split), index)
        except IndexError as error:
            raise Refused(404, f"there is no {split} task {index}") from error

    def _step(self, request: Mapping[str, Any]) -> dict[str, Any]:
        task, replies = self._task(request), request.get("replies")
        if not isinstance(replies, list) or not all(isinstance(reply, str) for reply in replies):
            raise Refused(400, "`replies` must be a list of all completions so far")
        if len(replies) > self.env.max_turns:
            raise Refused(400, f"{len(replies)} replies; the limit is {self.env.max_turns}")
        try:
            key = read_key(request["key"])
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(400, '`key` is {"seed": N, "path": [...]}') from error
        (step,) = self.plays.steps([(task, key, tuple(replies))])
        return step_json(step)

    def start(self) -> Self:
        """Serve in a new thread."""
        self._thread.start()
        return self

    def forever(self) -> None:
        """Serve until interrupted."""
        self._http.serve_forever()

    def close(self) -> None:
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()
        self.plays.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class Asked(BaseHTTPRequestHandler):
    """One connection."""

    owner: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "gnomon", ""
    timeout = SECONDS

    def do_POST(self) -> None:
        try:
            body = self._body()
            self._say(200, self.owner.answer(self.path, body))
        except Refused as refusal:
            # The unread rest of a request must not be parsed as the next one.
            self.close_connection = True
            self._say(refusal.status, {"error": str(refusal)})
        except Exception as error:
            self.close_connection = True
            self._say(500, {"error": f"{type(error).__name__}: {error}"})

    def _body(self) -> dict[str, Any]:
        """The request's JSON body, after the checks of its headers. Raises: Refused."""
        if self.headers.get("Host", "").lower() not in self.owner.hosts:
            raise Refused(421, "this server answers only on the loopback address")
        authorization = self.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(authorization, f"Bearer {self.owner.token}".encode()):
            raise Refused(401, "the bearer token is missing or wrong")
        if self.headers.get_content_type() != "application/json":
            raise Refused(415, "the content type must be application/json")
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not (length.isascii() and length.isdigit()):
            raise Refused(411, "the header Content-Length is missing")
        if int(length) > BODY:
            raise Refused(413, f"the body has {length} bytes; the limit is {BODY}")
        try:
            body = json.loads(self.rfile.read(int(length)) or b"{}")
        except (ValueError, RecursionError) as error:
            raise Refused(400, "the content is not valid JSON") from error
        if not isinstance(body, dict):
            raise Refused(400, "the content must be a JSON object")
        return body

    def _say(self, status: int, answer: Mapping[str, Any]) -> None:
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Does nothing: requests are not logged."""
