"""Commands that serve until they are interrupted: `gnomon serve`, `serve-env` and `serve-learner`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gnomon.commands.env_options import chosen_env
from gnomon.commands.words import EnvName, Settings
from gnomon.errors import ConfigError, ModelError
from gnomon.terminal import put

__all__ = ["serve", "serve_env", "serve_learner"]

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


def serve_env(
    what: EnvName,
    settings: Settings = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0 chooses a free one.")] = 8765,
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 2,
) -> None:
    """Serve an environment over HTTP on localhost. The token is $GNOMON_TOKEN, or a new one."""
    from gnomon.integrations.exports import Server

    server = Server(chosen_env(what, settings), port=port, workers=workers, token=os.environ.get("GNOMON_TOKEN", ""))
    put(f"serving {what} at {server.url}; Ctrl-C stops", flush=True)
    if "GNOMON_TOKEN" not in os.environ:
        put(f"export GNOMON_TOKEN={server.token}", flush=True)
    try:
        server.forever()
    finally:
        server.close()


def serve_learner(
    what: Annotated[str, typer.Argument(help="Recipe or environment of the runs that use this server.")],
    settings: Settings = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port; 0 chooses a free one.")] = 8766,
    host: Annotated[str, typer.Option(help="Address to listen on. Change it only in a network that you trust.")] = (
        "127.0.0.1"
    ),
) -> None:
    """Serve a learner over HTTP, for runs with learner=URL. The token is $GNOMON_LEARNER_TOKEN, or a new one."""
    from gnomon.config import resolve
    from gnomon.run.find import check_policy_config
    from gnomon.run.learner_server import LearnerServer
    from gnomon.run.subject import layers

    config, _ = resolve(layers(what, settings), [check_policy_config])
    server = LearnerServer(config, host=host, port=port, token=os.environ.get("GNOMON_LEARNER_TOKEN", ""))
    put(f"serving a learner until interrupted (Ctrl-C); in the run, set learner={server.url}", flush=True)
    if not os.environ.get("GNOMON_LEARNER_TOKEN"):
        put(f"export GNOMON_LEARNER_TOKEN={server.token}", flush=True)
    server.run()
