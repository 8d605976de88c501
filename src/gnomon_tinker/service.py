"""Routes of the Tinker API: a learner in this process answers the requests of the official SDK.

Every request of a model has a number. It is carried out once, in order, even if the SDK sends it several times. The SDK
asks for the result until there is one.

Source: the SDK, tinker 0.38.0.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from secrets import compare_digest, token_hex
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gnomon.config import RunConfig
from gnomon.errors import GnomonError
from gnomon.keys import Key
from gnomon.models.weights import WeightsRef
from gnomon_tinker.messages import read_pass, written_pass, written_samples
from gnomon_tinker.sampling import Sampler
from gnomon_tinker.training import Model

__all__ = ["TinkerService"]

WAIT = 20.0
"""Seconds for which a request for a result waits before it is answered with "try again"."""
KEPT = 4096
"""Number of results that are kept."""
PROTOBUF = "application/x-protobuf"
Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Saved:
    """Weights that were saved: with the state of the optimiser in a folder, or for sampling in memory."""

    rank: int
    folder: Path | None = None
    weights: WeightsRef | None = None


class TinkerService:
    """Models, saved weights and results. All are gone when the server ends.

    Args: config: of the base model and the adapter's layers; worker: one thread, which carries out everything.
    """

    def __init__(self, config: RunConfig, token: str, worker: Executor) -> None:
        self.config, self._token, self._worker = config, token, worker
        self._home = tempfile.TemporaryDirectory(prefix="gnomon-tinker-")
        self._models: dict[str, Model] = {}
        self._saved: dict[str, Saved] = {}
        """By path."""
        self._sessions: dict[str, str] = {}
        """Path of the weights of every sampling session; empty for the base model."""
        self._samplers: dict[int, Sampler] = {}
        """By rank of the adapter."""
        self._results: dict[str, Future[Body | bytes]] = {}
        verbs: list[Callable[[Body], Body | bytes]] = [self.create_model, self.optim_step, self.save_weights]
        verbs += [self.load_weights, self.save_weights_for_sampler, self.asample]
        now: dict[str, Callable[[Body], Body]] = {
            "client/config": lambda body: {"parallel_fwdbwd_chunks": False, "use_pyqwest_transport": False},
            "client/dynamic_config": lambda body: {},
            "create_session": lambda body: {"type": "create_session", "session_id": token_hex(8)},
            "session_heartbeat": lambda body: {"type": "session_heartbeat"},
            "telemetry": lambda body: {"status": "accepted"},
            "create_sampling_session": self.create_sampling_session,
            "get_info": self.get_info,
        }
        self.routes = [
            *(Route(f"/api/v1/{name}", self._at_once(act), methods=["POST"]) for name, act in now.items()),
            *(Route(f"/api/v1/{verb.__name__}", self._later(verb), methods=["POST"]) for verb in verbs),
            Route("/api/v1/forward_backward", self._pass, methods=["POST"]),
            Route("/api/v1/samplers/{name}", self._of_sampler),
            Route("/api/v1/sessions/{name}/finish", self._at_once(lambda body: {"accepted": True}), methods=["POST"]),
            Route("/api/v1/retrieve_future", self._retrieve, methods=["POST"]),
            Route("/api/v1/healthz", lambda request: JSONResponse({"status": "ok"})),
            Route("/api/v1/get_server_capabilities", self._at_once(self.capabilities)),
        ]

    def close(self) -> None:
        for sampler in self._samplers.values():
            sampler.close()
        self._home.cleanup()

    # Verbs. Each returns the body of its result. They are carried out one after the other.

    def create_model(self, body: Body) -> Body:
        self._require_base(body["base_model"])
        lora = body.get("lora_config") or {"rank": 0}
        name = model_name(body)
        self._models[name] = Model(self.config, lora["rank"], lora.get("seed"))
        return {"type": "create_model", "model_id": name}

    def train(self, body: bytes) -> bytes:
        work = read_pass(body)
        return written_pass(*self._model(work.model).train(work))

    def optim_step(self, body: Body) -> Body:
        if "adam_params" not in body:
            raise ValueError("optim_step needs adam_params; no other optimiser is supported")
        return {"metrics": self._model(body["model_id"]).step(body["adam_params"])}

    def save_weights(self, body: Body) -> Body:
        model, path = self._model(body["model_id"]), self._path(body, "weights")
        folder = Path(self._home.name) / token_hex(8)
        model.save(folder)
        self._saved[path] = Saved(model.rank, folder=folder)
        return {"type": "save_weights", "path": path}

    def load_weights(self, body: Body) -> Body:
        """The state of a model, or a new model from a state."""
        saved = self._saved.get(body["path"])
        if saved is None or saved.folder is None:
            raise ValueError(f"there is no state {body['path']}")
        name = body.get("model_id") or model_name(body)
        model = self._models.get(name) or Model(self.config, saved.rank, None)
        if model.rank != saved.rank:
            raise ValueError(f"{body['path']} has an adapter of rank {saved.rank}, and the model {model.rank}")
        model.load(saved.folder, optimizer=body["optimizer"])
        self._models[name] = model
        return {"type": "load_weights", "path": body["path"], "model_id": name}

    def save_weights_for_sampler(self, body: Body) -> Body:
        if body.get("kind", "snapshot") != "snapshot":
            raise ValueError("kind must be 'snapshot': saved weights do not change with the model here")
        model, path = self._model(body["model_id"]), self._path(body, "sampler_weights")
        self._saved[path] = Saved(model.rank, weights=model.publish())
        found = {"type": "save_weights_for_sampler", "path": path}
        if body.get("sampling_session_seq_id") is None:
            return found
        return {**self.create_sampling_session({"model_path": path}), **found}

    def asample(self, body: Body) -> bytes:
        path = self._sessions.get(body.get("sampling_session_id") or "", body.get("model_path") or "")
        saved = self._saved.get(path) if path else Saved(0)
        if saved is None or (path and saved.weights is None):
            raise ValueError(f"there are no weights for sampling at {path}")
        key = Key(self.config.seed).at("tinker", session=body["sampling_session_id"], number=body["seq_id"])
        return written_samples(*self._sampler(saved.rank, path).sample(path, saved.weights, body, key))

    def create_sampling_session(self, body: Body) -> Body:
        if not body.get("model_path"):
            self._require_base(body["base_model"])
        name = token_hex(8)
        self._sessions[name] = body.get("model_path") or ""
        return {"type": "create_sampling_session", "sampling_session_id": name}

    def get_info(self, body: Body) -> Body:
        model, base = self._model(body["model_id"]), self.config.policy.path
        data = {"arch": "", "model_name": base, "tokenizer_id": base}
        info = {"type": "get_info", "model_data": data, "model_id": body["model_id"], "model_name": base}
        return info | {"is_lora": model.rank > 0, "lora_rank": model.rank}

    def capabilities(self, body: Body) -> Body:
        return {"supported_models": [{"model_name": self.config.policy.path, "trainable": True, "sampleable": True}]}

    # What they need.

    def _model(self, name: str) -> Model:
        if name not in self._models:
            raise ValueError(f"there is no model {name}; the server may have been started again")
        return self._models[name]

    def _sampler(self, rank: int, path: str) -> Sampler:
        """Args: path: of weights; the base model has an engine of its own, which loads none."""
        place = rank if path else -1
        if place not in self._samplers:
            lora = self.config.policy.lora.model_copy(update={"rank": rank})
            policy = self.config.policy.model_copy(update={"lora": lora})
            self._samplers[place] = Sampler(self.config.model_copy(update={"policy": policy}))
        return self._samplers[place]

    def _path(self, body: Body, kind: str) -> str:
        name = body.get("path") or f"{body.get('seq_id') or 0:06d}"
        path = f"tinker://{body['model_id']}/{kind}/{name}"
        if path in self._saved and not body.get("overwrite"):
            raise ValueError(f"{path} exists; pass overwrite=True, or choose another name")
        return path

    def _require_base(self, name: str) -> None:
        known = self.config.policy.path
        if name not in (known, Path(known).name):
            raise ValueError(f"the server has the base model {known}, not {name}")

    # Requests.

    def _allowed(self, request: Request) -> bool:
        """Whether the key is the token, with or without the prefix `tml-`, which the SDK demands of a key."""
        sent = request.headers.get("x-api-key", "").removeprefix("tml-").encode()
        return compare_digest(sent, self._token.removeprefix("tml-").encode())

    def _at_once(self, act: Callable[[Body], Body]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            if not self._allowed(request):
                return forbidden_response()
            try:
                return JSONResponse(act(await request.json() if await request.body() else {}))
            except (ValueError, KeyError) as error:
                return JSONResponse({"error": str(error)}, 422)

        return answer

    def _later(self, verb: Callable[[Body], Body | bytes]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            if not self._allowed(request):
                return forbidden_response()
            body = await request.json()
            promise = self._promise(verb.__name__, body, lambda: verb(body))
            if verb.__name__ == "asample":
                promise["sample_sequence_ids"] = [f"{promise['request_id']}:{n}" for n in range(body["num_samples"])]
            return JSONResponse(promise)

        return answer

    async def _of_sampler(self, request: Request) -> Response:
        """The base model and the path of the weights that a sampling session uses."""
        if not self._allowed(request):
            return forbidden_response()
        name = request.path_params["name"]
        if name not in self._sessions:
            return JSONResponse({"error": f"there is no sampling session {name}"}, 404)
        path = self._sessions[name] or None
        return JSONResponse({"sampler_id": name, "base_model": self.config.policy.path, "model_path": path})

    async def _pass(self, request: Request) -> Response:
        if not self._allowed(request):
            return forbidden_response()
        data = await request.body()
        try:
            work = read_pass(data)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 422)
        body = {"model_id": work.model, "seq_id": work.number}
        return JSONResponse(self._promise("forward_backward", body, lambda: self.train(data)))

    def _promise(self, verb: str, body: Body, act: Callable[[], Body | bytes]) -> dict[str, Any]:
        """The name of a result. A request that was sent before keeps its result."""
        of = body.get("model_id") or body.get("sampling_session_id") or model_name(body)
        number = body.get("seq_id")
        name = f"{of}:{verb if number is None else number}"
        if number is None and verb not in ("create_model", "load_weights"):
            name += f":{token_hex(4)}"
        if name not in self._results:
            while len(self._results) >= KEPT:
                del self._results[next(iter(self._results))]
            self._results[name] = self._worker.submit(act)
        return {"request_id": name, "model_id": body.get("model_id")}

    async def _retrieve(self, request: Request) -> Response:
        if not self._allowed(request):
            return forbidden_response()
        future = self._results.get((await request.json())["request_id"])
        if future is None:
            return JSONResponse({"error": "there is no such result"}, 410)
        try:
            found = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), WAIT)
        except TimeoutError:
            return JSONResponse({"type": "try_again", "queue_state": "active"}, 408)
        except (ValueError, KeyError, GnomonError) as error:
            return JSONResponse({"error": str(error), "category": "user"})
        except Exception as error:
            return JSONResponse({"error": f"{type(error).__name__}: {error}", "category": "server"})
        return Response(found, media_type=PROTOBUF) if isinstance(found, bytes) else JSONResponse(dict(found))


def model_name(body: Body) -> str:
    return f"{body.get('session_id', '')}:train:{body.get('model_seq_id', 0)}"


def forbidden_response() -> Response:
    return JSONResponse({"error": "the server refuses the key: set TINKER_API_KEY to tml- and its token"}, 403)
