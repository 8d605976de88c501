"""A server with a learner, for runs of Gnomon and for the SDK of Tinker: `gnomon serve-learner RECIPE`."""

from __future__ import annotations

import json
import socket
from asyncio import get_running_loop
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from secrets import compare_digest, token_urlsafe
from typing import Any

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gnomon.config import RunConfig
from gnomon.errors import ConfigError, GnomonError, ResourceError
from gnomon.learners.base import Closing, Learner
from gnomon.learners.served import AGAIN, ALIVE, CALL, SESSION
from gnomon.learners.verbs import carried_out
from gnomon.learners.wire import dumps, loads
from gnomon.run.makers import make_objective
from gnomon.run.makers.served import TOKEN, of_learner
from gnomon.run.parts import make_trainer
from gnomon_tinker import TinkerService

__all__ = ["LearnerServer"]


class LearnerServer:
    """Serves one learner at a time. A client that begins takes the place of the one before.

    Args:
        config: settings of the learner; clients with others are refused.
        host, port: where it listens; port 0 takes a free one.
        token: that clients must send; a random one where it is empty.
    Raises: ConfigError E091 where it cannot listen.
    """

    def __init__(self, config: RunConfig, *, host: str = "127.0.0.1", port: int = 0, token: str = "") -> None:
        self.config, self.settings, self.token = config, of_learner(config), token or token_urlsafe(16)
        self._learner: Learner | None = None
        self._session = ""
        self._open: set[tuple[str, int]] = set()
        """Calls that are carried out or wait: session and number."""
        self._number = 0
        """Of the last call of the session."""
        self._outcome: bytes | Exception = b""
        """Of that call. It is sent again where the client did not get it."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            what, fix = f"cannot listen on {host}, port {port}", "--port 0 takes a free one"
            raise ConfigError("E091", what, where="--host, --port", why=str(error), fix=fix) from None
        self.url = f"http://{host}:{self._socket.getsockname()[1]}"
        self._worker = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))
        """One thread carries out all verbs, one after the other."""
        self._tinker = TinkerService(config, self.token, self._worker)
        routes = [Route("/v1/{verb}", self._answer, methods=["POST"]), *self._tinker.routes]
        settings = uvicorn.Config(Starlette(routes=routes), log_level="warning", access_log=False, lifespan="off")
        self._server = uvicorn.Server(settings)

    def run(self) -> None:
        """Serve until the process is interrupted or `stop` is called."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._worker.submit(self._drop).result()
            self._tinker.close()
            self._worker.shutdown()

    def stop(self) -> None:
        self._server.should_exit = True

    async def _answer(self, request: Request) -> Response:
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not compare_digest(sent.encode(), self.token.encode()):
            fix = f"export {TOKEN}=… with the token that the server printed"
            return refusal(ResourceError("E508", "the learner's server refuses the token", fix=fix), 403)
        verb, headers = request.path_params["verb"], request.headers
        call = headers.get(SESSION, ""), int(headers.get(CALL, "0"))
        if verb == ALIVE:
            return Response(dumps(call in self._open))
        body = await request.body()
        self._open.add(call)
        try:
            body_out = await get_running_loop().run_in_executor(self._worker, self._answer_once, verb, *call, body)
        except GnomonError as error:
            return refusal(error, 422)
        except Exception as error:  # The server goes on, and the client gets the reason.
            why = f"{type(error).__name__}: {error}"
            return refusal(ResourceError("E508", f"the learner's server cannot carry out {verb}", why=why), 500)
        finally:
            self._open.discard(call)
        return Response(body_out, media_type="application/octet-stream")

    def _answer_once(self, verb: str, session: str, number: int, body: bytes) -> bytes:
        """The outcome of a call, which is carried out once however often it is sent."""
        if verb == "begin":
            return dumps(self._begin(*loads(body)))
        if self._learner is None or session != self._session:
            why = "another run has begun since, or the server was started again"
            raise ResourceError(
                "E508", "the server no longer has the learner of this run", why=why, fix="gnomon resume RUN"
            )
        if number < max(1, self._number):
            raise ResourceError("E508", f"call {number} of {verb} is not the next one, but was sent before", fix=AGAIN)
        if number > self._number:
            self._number = number
            try:
                self._outcome = dumps(carried_out(self._learner, verb, loads(body)))
            except Exception as error:
                self._outcome = error
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def _begin(self, settings: Mapping[str, Any]) -> str:
        if other := differences(self.settings, settings):
            raise ConfigError(
                "E048",
                "the run and the learner's server have different settings",
                where="learner",
                why="; ".join(other),
                fix=same(other, self.settings, settings),
            )
        self._drop()
        config = self.config.model_copy(update={"learner": "local"})
        self._learner = make_trainer(config, make_objective(config))
        self._session, self._number, self._outcome = token_urlsafe(8), 0, b""
        return self._session

    def _drop(self) -> None:
        if isinstance(self._learner, Closing):
            self._learner.close()
        self._learner = None


def same(other: Sequence[str], ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """The fix that makes the settings equal. The attention of `auto` depends on the device, not on the recipe alone."""
    if len(other) == 1 and other[0].startswith("policy.attention "):
        server, run = ours["policy"]["attention"], theirs.get("policy", {}).get("attention", "exact")
        return f"start the run with policy.attention={server}, or the server with policy.attention={run}"
    return "start both with the same recipe and the same policy"


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """The settings that are not equal, each with both values."""
    result = []
    for name in sorted({*ours, *theirs}):
        one, other = ours.get(name), theirs.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            result += [f"{name}.{part}" for part in differences(one, other)]
        elif one != other:
            result.append(f"{name} is {json.dumps(one)} on the server and {json.dumps(other)} in the run")
    return result


def refusal(error: GnomonError, status: int) -> Response:
    facts = {"kind": type(error).__name__, "code": error.code, "what": error.what}
    return JSONResponse(facts | {"where": error.where, "why": error.why, "fix": error.fix}, status)
