"""The HTTP endpoint: three dialects, streamed or not. The key of a request names who answers it."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

from gnomon.agents.chat import CHAT
from gnomon.agents.dialect import Dialect, compact
from gnomon.agents.exchange import ChatReply, ChatRequest, Refused
from gnomon.agents.messages import MESSAGES
from gnomon.agents.recorder import Responder
from gnomon.agents.responses import RESPONSES

__all__ = ["Endpoint"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
DIALECTS = {dialect.path: dialect for dialect in (CHAT, RESPONSES, MESSAGES)}
COUNT = "/messages/count_tokens"
JSON = (b"content-type", b"application/json")
FINAL = (b"x-should-retry", b"false")
PIXELS = 2**26
"""Most pixels of the images of a request."""


class Gone(Exception):
    """The client has closed the connection."""


class Endpoint:
    """An ASGI application.

    A request carries the key as bearer token, as `x-api-key`, or in its path, `/k/KEY/v1/…`. Clients do not retry what
    the endpoint refuses.

    Args: keepalive: seconds between comments in a stream whose reply is still sampled; largest: bytes of a request;
        longest: bytes of a request beside its images.
    """

    def __init__(
        self, *, keepalive: float = 3.0, largest: int = 2**24, longest: int = 2**24, model: str = "policy"
    ) -> None:
        self.keepalive, self.largest, self.longest, self.model = keepalive, largest, longest, model
        self.anyone: Responder | None = None
        """Answers requests with an unknown key. None refuses them."""
        self._responders: dict[str, Responder] = {}

    def add(self, key: str, responder: Responder) -> None:
        self._responders[key] = responder

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path, key = path_and_key(scope["path"], headers)
        dialect = DIALECTS.get(path, MESSAGES if path.startswith(MESSAGES.path) else CHAT)
        try:
            responder = self._responder(key)
            try:
                await self._serve(scope["method"], path, responder, headers, dialect, receive, send)
            except Refused as refused:
                responder.settle(refused, True)
                raise
        except Refused as refused:
            await respond(send, refused.status, dialect.error(refused), FINAL)
        except Gone:
            pass

    async def _serve(
        self, method: str, path: str, responder: Responder, headers: Mapping[str, str], dialect: Dialect,
        receive: Receive, send: Send,
    ) -> None:  # fmt: skip
        if method == "GET" and (path == "/models" or path.startswith("/models/")):
            model = {"id": self.model, "object": "model", "type": "model", "created": 0, "owned_by": "gnomon",
                     "display_name": self.model, "created_at": "1970-01-01T00:00:00Z"}  # fmt: skip
            whole = {"object": "list", "data": [model], "has_more": False, "first_id": self.model,
                     "last_id": self.model}  # fmt: skip
            return await respond(send, 200, whole if path == "/models" else model)
        if method != "POST" or path not in (*DIALECTS, COUNT):
            raise Refused(f"{method} {path} does not exist here", status=404, code="not_found")
        body = await body_of(receive, headers, self.largest)
        request = self._request(body, dialect, headers)
        encoded = sum(len(image.data) for message in request.messages for image in message.images) * 4 // 3
        if len(body) - encoded > self.longest:
            raise too_large(f"the text of the request has more than {self.longest} bytes")
        if images := request.images:
            if sum(image.area for image in images) > PIXELS:
                raise too_large(f"the images of the request have more than {PIXELS} pixels")
            await asyncio.to_thread(responder.see, images)
        if path == COUNT:
            return await respond(send, 200, {"input_tokens": responder.count(request)})
        return await self._answer(responder, request, dialect, receive, send)

    def _responder(self, key: str) -> Responder:
        responders = [
            value for own, value in self._responders.items() if hmac.compare_digest(own.encode(), key.encode())
        ]
        if not responders and self.anyone is not None:
            return self.anyone
        if not responders:
            raise Refused("the key is not that of a rollout", status=401, code="invalid_api_key")
        return responders[0]

    def _request(self, body: bytes, dialect: Dialect, headers: Mapping[str, str]) -> ChatRequest:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Refused(f"the body is not JSON: {error}", code="invalid_request") from None
        if not isinstance(value, dict):
            raise Refused("the body is not a JSON object", code="invalid_request")
        retries = headers.get("x-stainless-retry-count", "0")
        return replace(dialect.read(value), retry=retries.isdigit() and int(retries) > 0)

    async def _answer(
        self, responder: Responder, request: ChatRequest, dialect: Dialect, receive: Receive, send: Send
    ) -> None:
        work = asyncio.ensure_future(responder.answer(request))
        disconnect = asyncio.ensure_future(wait_for_disconnect(receive))
        begun = False
        try:
            while not work.done() and not disconnect.done():
                await asyncio.wait({work, disconnect}, timeout=self.keepalive, return_when=asyncio.FIRST_COMPLETED)
                if request.stream and not work.done() and not disconnect.done():
                    begun = begun or await begin_stream(send)
                    await send_part(send, ": keepalive\n\n")
            if not work.done():
                raise Gone
            try:
                reply = work.result()
            except Refused as refused:
                if not begun:
                    raise
                responder.settle(refused, True)
                await send_part(send, event_text("error", dialect.error(refused)), last=True)
                return
            await self._deliver(responder, request, reply, dialect, disconnect, begun, send)
        finally:
            if not work.done():
                work.cancel()
            disconnect.cancel()
            await asyncio.gather(work, disconnect, return_exceptions=True)

    async def _deliver(
        self, responder: Responder, request: ChatRequest, reply: ChatReply, dialect: Dialect,
        disconnect: asyncio.Future[None], begun: bool, send: Send,
    ) -> None:  # fmt: skip
        """Send a reply. It was recorded before; it counts as delivered if the client stayed until its last part."""
        there = False
        try:
            if request.stream:
                if not begun:
                    await begin_stream(send)
                *parts, last = [event_text(name, data) for name, data in dialect.events(request, reply)]
                await send_part(send, "".join(parts))
                await asyncio.sleep(0)
                if disconnect.done():
                    raise Gone
                await send_part(send, last + dialect.end, last=True)
            else:
                await asyncio.sleep(0)
                if disconnect.done():
                    raise Gone
                await respond(send, 200, dialect.write(request, reply))
            there = True
        finally:
            responder.settle(reply, there)


def path_and_key(path: str, headers: Mapping[str, str]) -> tuple[str, str]:
    """The path below `/v1`, and the key of a request."""
    bearer = headers.get("authorization", "")
    key = headers.get("x-api-key") or (bearer[7:] if bearer.lower().startswith("bearer ") else "")
    if path.startswith("/k/"):
        key, _, rest = path[3:].partition("/")
        path = f"/{rest}"
    return path.removeprefix("/v1"), key


async def body_of(receive: Receive, headers: Mapping[str, str], largest: int) -> bytes:
    """Raises: Refused for a body that is compressed or too large; Gone."""
    if headers.get("content-encoding", "identity") != "identity":
        raise Refused("compressed bodies are not supported", status=415, code="unsupported_encoding")
    body, why = bytearray(), f"the body is larger than {largest} bytes"
    if int(headers.get("content-length") or 0) > largest:
        raise too_large(why)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        body += message.get("body", b"")
        if len(body) > largest:
            raise too_large(why)
        if not message.get("more_body"):
            return bytes(body)


def too_large(why: str) -> Refused:
    return Refused(why, status=413, code="request_too_large")


async def wait_for_disconnect(receive: Receive) -> None:
    """Returns when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def respond(send: Send, status: int, value: Any, *headers: tuple[bytes, bytes]) -> None:
    body = compact(value).encode(errors="replace")
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [JSON, length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def begin_stream(send: Send) -> bool:
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    return True


async def send_part(send: Send, text: str, *, last: bool = False) -> None:
    await send({"type": "http.response.body", "body": text.encode(errors="replace"), "more_body": not last})


def event_text(name: str, data: Any) -> str:
    return (f"event: {name}\n" if name else "") + f"data: {compact(data)}\n\n"
