"""The web server of the viewer, bound to this machine, for a browser that was opened with the token."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from http.cookies import SimpleCookie
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from urllib.parse import parse_qsl, urlencode

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gnomon.errors import ConfigError, RunError
from gnomon.viewer.app import application

__all__ = ["Guard", "Viewer"]


class Viewer:
    """Serves the runs in some folders at `url` until `stop` is called or the process is interrupted.

    Args:
        places: run folders, and folders that hold run folders.
        port: TCP port on 127.0.0.1; 0 for a free one.
    Raises: ConfigError E091 when the port is taken; RunError E404 for a folder that does not exist.
    """

    def __init__(self, places: Sequence[Path], *, port: int = 0) -> None:
        if missing := [folder for folder in places if not folder.exists()]:
            raise RunError(
                "E404",
                "the folder does not exist",
                where=str(missing[0]),
                fix="gnomon view .",
            )
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
            self._socket.listen()  # A browser that is opened now waits for the first answer.
        except OSError as error:
            self._socket.close()
            raise ConfigError(
                "E091", f"port {port} is not free", where="--port", why=str(error), fix="--port 0 takes a free one"
            ) from None
        self.port, self.token = self._socket.getsockname()[1], token_urlsafe(16)
        guarded = Guard(application(places), port=self.port, token=self.token)
        # No access log: its lines would hold the token.
        settings = uvicorn.Config(guarded, log_level="warning", access_log=False, lifespan="off")
        self._server = uvicorn.Server(settings)

    @property
    def url(self) -> str:
        """Where the runs are shown; it carries the token."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def run(self) -> None:
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        self._server.should_exit = True


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # With no referrer at all, a form would be sent without its origin too.
    "Cache-Control": "no-store",
}
LOOPBACK = ("127.0.0.1", "localhost")


class Guard:
    """Accepts a request to this host and port with the token, unless it comes from another site. A write must come
    from a page of this server.

    The token comes once in the address (`?token=`) and from then on in a cookie that scripts and other sites cannot
    use. Every answer carries the headers that forbid scripts, styles and frames from elsewhere.
    """

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self.app, self.token = app, token
        self.hosts = {f"{name}:{port}" for name in LOOPBACK}
        self.cookie = f"gnomon_{port}"  # Cookies are shared between the ports of a host.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer = self.refusal(scope) or self.entrance(scope)
        await (answer or self.app)(scope, receive, with_headers)

    def refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that no page of ours sends; None for one that may go on."""
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self.hosts:
            return PlainTextResponse("This server answers to 127.0.0.1 and localhost only.", 403)
        origin = headers.get("origin", "")
        if origin and origin.removeprefix("http://") not in self.hosts:
            return PlainTextResponse("Requests from other sites are refused.", 403)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return PlainTextResponse("Requests from other sites are refused.", 403)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("This server only shows runs.", 405)
        if scope["method"] == "POST" and not origin:
            return PlainTextResponse("A note is written from a page of this server only.", 403)
        return None

    def entrance(self, scope: Scope) -> Response | None:
        """The answer to a request without the cookie, or with the token in its address."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        supplied = next((value for name, value in query if name == "token"), None)
        if supplied is not None and compare_digest(supplied.encode(), self.token.encode()):
            query = [(name, value) for name, value in query if name != "token"]
            answer = RedirectResponse(scope["path"] + (f"?{urlencode(query)}" if query else ""), 303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
            return answer
        cookies = SimpleCookie(Headers(scope=scope).get("cookie", ""))
        cookie = cookies[self.cookie].value if self.cookie in cookies else ""
        if compare_digest(cookie.encode(), self.token.encode()):
            return None
        return PlainTextResponse("Open the address that `gnomon view` printed: it carries the token.", 403)
