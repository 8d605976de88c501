"""`gnomon serve`: a policy or a checkpoint behind the APIs that agents speak."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gnomon.errors import ConfigError, ModelError
from gnomon.terminal import put

__all__ = ["serve"]

KEY = "GNOMON_KEY"
LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    what: Annotated[
        str, typer.Argument(metavar="POLICY|RUN|RUN:STEP", help="A model folder, or a checkpoint of a run.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0 chooses a free one.")] = 8000,
    host: Annotated[str, typer.Option(help=f"Address to listen on. Another one than this needs ${KEY}.")] = "127.0.0.1",
    max_tokens: Annotated[int, typer.Option(min=1, help="Largest number of tokens of a reply.")] = 1024,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Seed of replies to requests that have none.")] = 0,
) -> None:
    """Serve a policy over /v1/chat/completions, /v1/responses and /v1/messages. It is not trained."""
    key = os.environ.get(KEY, "")
    if host not in LOCAL and not key:
        why = "anyone in the network could use the policy"
        raise ConfigError("E098", f"{host} is not served without a key", where="--host", why=why, fix=f"export {KEY}=…")
    from gnomon.envs import ENVS

    if what in ENVS or what.rpartition(":")[0].endswith(".py"):
        why = "this command serves policies"
        raise ModelError("E301", f"{what} is an environment", where="POLICY", why=why, fix=f"gnomon serve-env {what}")
    from gnomon.run.policy_server import policy_server

    server = policy_server(what, host=host, port=port, key=key, max_tokens=max_tokens, device=device, seed=seed)
    put(f"serving {what} until interrupted (Ctrl-C)", flush=True)
    put(f"export OPENAI_BASE_URL={server.url}/v1 OPENAI_API_KEY={'$' + KEY if key else 'none'}", flush=True)
    put(f"export ANTHROPIC_BASE_URL={server.url} ANTHROPIC_API_KEY={'$' + KEY if key else 'none'}", flush=True)
    server.run()
