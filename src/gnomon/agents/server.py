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
    """The endpoint in the running event loop.

    Args: most: connections at once; a further one is closed at once, so that nobody takes all descriptors of this
        process. None: any number.
    """

    def __init__(self, endpoint: Endpoint, most: int | None = None) -> None:
        self.endpoint, self.most = endpoint, most
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
        self._open = 0

    async def listen(self, listener: socket.socket) -> asyncio.Server:
        """Accept connections on a listening socket, until the returned server is closed."""
        listener.setblocking(False)
        # Connections inherit it. Without it, a reply waits 40 ms for the client's delayed acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return await asyncio.get_running_loop().create_server(self._connection, sock=listener)

    def _connection(self) -> asyncio.Protocol:
        if self.most is not None and self._open >= self.most:
            return Closed()
        self._open += 1
        protocol: Any = self._protocol()
        lost = protocol.connection_lost

        def connection_lost(error: Exception | None) -> None:
            self._open -= 1
            lost(error)

        protocol.connection_lost = connection_lost
        connection: asyncio.Protocol = protocol
        return connection


class Closed(asyncio.Protocol):
    """Closes its connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
