"""A server with a policy, for agents and evaluations: `gnomon serve POLICY|RUN`."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from functools import partial

from gnomon.agents.endpoint import Endpoint
from gnomon.agents.server import Server
from gnomon.agents.stateless import Stateless
from gnomon.engines.embedded import Embedded
from gnomon.errors import ConfigError
from gnomon.export.model import weights_of
from gnomon.keys import Key
from gnomon.models.folder import image_token, model_folder
from gnomon.models.padded import Padded
from gnomon.models.policy import Policy
from gnomon.rendering import Transcript, choose
from gnomon.run.makers.policy import make_device
from gnomon.run.subject import is_run

__all__ = ["PolicyServer", "policy_server"]

TURNS = 2
"""Any conversation may have several turns."""


class PolicyServer:
    """Serves an endpoint on one address."""

    def __init__(self, endpoint: Endpoint, listener: socket.socket) -> None:
        self.endpoint, self.listener = endpoint, listener
        host, port = listener.getsockname()[:2]
        self.url = f"http://{host}:{port}"

    def run(self) -> None:
        """Serve until the process is interrupted."""
        with suppress(KeyboardInterrupt):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await Server(self.endpoint).listen(self.listener)
        async with server:
            await server.serve_forever()


def policy_server(
    what: str, *, host: str, port: int, key: str = "", max_tokens: int = 1024, device: str = "cpu", seed: int = 0
) -> PolicyServer:
    """A server of a model folder, `RUN` or `RUN:STEP`. Args: key: that clients must send; empty for any.

    Raises: ConfigError E091 where it cannot listen; ModelError for a model that cannot be read; RunError E185.
    """
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        what, fix = f"cannot listen on {host}, port {port}", "--port 0 takes a free one"
        raise ConfigError("E091", what, where="--host, --port", why=str(error), fix=fix) from None
    folder = weights_of(what) if is_run(what) else model_folder(what)
    whole = Padded if image_token(folder) is not None else None
    policy = Policy.load(folder, device=make_device(device, "--device"), whole=whole)
    renderer = choose(policy.tokenizer, turns=TURNS)
    endpoint = Endpoint(model=what)
    responder = Stateless(
        renderer,
        partial(Transcript.begin, renderer),
        Embedded(policy).sample,
        key=Key(seed),
        max_tokens=max_tokens,
        piece=lambda token: policy.tokenizer.spell([token]),
    )
    if key:
        endpoint.add(key, responder)
    else:
        endpoint.anyone = responder
    return PolicyServer(endpoint, listener)
