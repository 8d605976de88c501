"""Serves the endpoint on sockets of this process: one for all rollouts, or one from each sandbox."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from gnomon.agents.endpoint import Endpoint

__all__ = ["Server"]

IDLE = 3600
"""Seconds that a connection is kept between two requests: a program's tool may take long, and a client that sends on a
connection that was just closed gets an error."""


class Server:
    """The endpoint in the running event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        config = uvicorn.Config(
            endpoint,
            http="h11",
            ws="none",
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_keep_alive=IDLE,
        )
        config.load()
        protocol: Any = config.http_protocol_class
        self._protocol: Any = partial(protocol, config=config, server_state=ServerState(), app_state={})

    async def listen(self, listener: socket.socket) -> asyncio.Server:
        """Accept connections on a listening socket, until the returned server is closed."""
        listener.setblocking(False)
        # Connections inherit it. Without it, a reply waits 40 ms for the client's delayed acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return await asyncio.get_running_loop().create_server(self._protocol, sock=listener)
