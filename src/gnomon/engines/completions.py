"""Log-probabilities of a prompt, from a server with the route `/v1/completions`."""

from __future__ import annotations

import http.client
import json
import math
import ssl
from collections.abc import Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from gnomon.errors import ConfigError, ResourceError

__all__ = ["Completions"]

MAX_BYTES = 64 * 2**20
"""Largest answer that is read."""


class Completions:
    """A client. It connects to the address itself: variables such as `HTTPS_PROXY` have no effect.

    Args:
        url: such as `http://localhost:8000`; `/v1` at its end may be left out.
        model: the name under which the server has the model; by default the first one that it lists.
        key: is sent as a bearer token, and is in no message.
        seconds: limit of each read.
    Raises: ConfigError E093 for what is not an address; ResourceError E550 for a server that does not answer.
    """

    def __init__(self, url: str, *, model: str = "", key: str = "", seconds: float = 120.0) -> None:
        self.url, self._key, self.seconds = url.rstrip("/").removesuffix("/v1"), key, seconds
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not usable_port(url):
            raise ConfigError("E093", f"{url!r} is not an http address", fix="http://localhost:8000")
        self.model = model or self._first_model()

    def logprobs(self, ids: Sequence[int]) -> list[float]:
        """Natural log-probability of every token but the first.

        Raises: ResourceError E551 if the server returns none; E552 if its tokens are others.
        """
        body = {"model": self.model, "prompt": list(ids), "max_tokens": 1, "temperature": 1.0}
        logprobs = echo_logps(self._post(body | {"echo": True, "logprobs": 1}), len(ids))
        if not logprobs:
            logprobs = by_id(self._post(body | {"prompt_logprobs": 0}), ids)
        if not logprobs:
            raise ResourceError(
                "E551",
                "the server returns no log-probabilities of a prompt",
                where=f"{self.url}/v1/completions, model {self.model}",
                why="it ignores both echo with logprobs (OpenAI, vLLM, SGLang) and prompt_logprobs (vLLM)",
                fix="serve the folder with vLLM or SGLang",
            )
        if not all(value is not None and math.isfinite(value) for value in logprobs):
            raise self.other("a log-probability of a prompt token is missing or not finite")
        return [float(value) for value in logprobs if value is not None]

    def other(self, why: str) -> ResourceError:
        return ResourceError(
            "E552",
            "the server's tokens are not those of the folder",
            where=f"{self.url}, model {self.model}",
            why=why,
            fix="name the folder that the server loads, or the served model with --model",
        )

    def _first_model(self) -> str:
        try:
            return str(self._exchange("GET", "/v1/models")["data"][0]["id"])
        except (KeyError, IndexError, TypeError):
            raise self._failure("its list of models has no names", "pass the name with --model") from None

    def _post(self, body: dict[str, Any]) -> Any:
        return self._exchange("POST", "/v1/completions", body)

    def _exchange(self, verb: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The body of the answer."""
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "Connection": "close"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        sent = None if body is None else json.dumps(body)
        try:
            with closing(kind(parts.hostname or "", parts.port, timeout=self.seconds)) as connection:
                connection.request(verb, parts.path + path, sent, headers)
                answer = connection.getresponse()
                data = answer.read(MAX_BYTES)
        except ssl.SSLError as error:
            raise self._failure(f"TLS: {error.reason or error}", self.url.replace("https:", "http:", 1)) from None
        except TimeoutError:
            raise self._failure(f"no answer within {self.seconds:g} seconds", "a larger --seconds") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._failure(
                str(error) or type(error).__name__, "start the server, and repeat the command"
            ) from None
        if answer.status != 200:
            raise self._refusal(verb, path, answer.status, data)
        try:
            return json.loads(data)
        except ValueError:
            raise self._failure(f"its answer to {verb} {path} is not JSON", "give the address of the API") from None

    def _refusal(self, verb: str, path: str, status: int, data: bytes) -> ResourceError:
        why = f"{verb} {path} has the status {status}: {data[:300].decode('utf-8', 'replace').strip()}"
        if status == 400 and (b"token" in data.lower() and b"vocab" in data.lower()):
            return self.other(why)
        fixes = dict.fromkeys((401, 403), "--key NAME, the environment variable that has the server's key")
        fixes |= {404: "give the address of a server with the route /v1/completions, and a model's name with --model"}
        return self._failure(why, fixes.get(status, "read the server's log"))

    def _failure(self, why: str, fix: str) -> ResourceError:
        return ResourceError("E550", "the server does not answer", where=self.url, why=why, fix=fix)


def usable_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def echo_logps(body: Any, tokens: int) -> list[float | None]:
    """Log-probabilities of the prompt in an answer to `echo`; empty if there are none."""
    try:
        logprobs = body["choices"][0]["logprobs"]["token_logprobs"]
    except (KeyError, IndexError, TypeError):
        return []
    return list(logprobs[1:tokens]) if isinstance(logprobs, list) and len(logprobs) >= tokens else []


def by_id(body: Any, ids: Sequence[int]) -> list[float | None]:
    """Log-probabilities of the prompt in vLLM's own form, a table by token; empty if there are none."""
    try:
        tables = body["choices"][0]["prompt_logprobs"][1:]
        return [table[str(token)]["logprob"] for table, token in zip(tables, ids[1:], strict=True)]
    except (KeyError, IndexError, TypeError, ValueError):
        return []
