"""The web server of the viewer, bound to this machine."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from secrets import token_urlsafe

import uvicorn

from gnomon.errors import ConfigError, RunError
from gnomon.viewer.app import application
from gnomon.viewer.network import Guard

__all__ = ["Viewer"]


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
