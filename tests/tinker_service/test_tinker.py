"""The official SDK of Tinker trains and samples on a learner's server; its numbers are those of plain torch.

With the SDK installed, in this environment or in that of GNOMON_TINKER_PYTHON, `sdk.py` talks to a server. Without it,
its requests of an earlier conversation are sent again (`exchange.json`, written where GNOMON_TINKER_RECORD is set).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from transformers import GPTNeoXForCausalLM

from gnomon.config import Source, overrides, resolve
from gnomon.models.folder import model_folder
from gnomon.run.learner_server import LearnerServer
from gnomon_tinker import service
from gnomon_tinker.losses import LOSSES, loss
from gnomon_tinker.messages import read_pass, written_pass
from gnomon_tinker.protobuf import encode_field, fields

EXCHANGE = Path(__file__).with_name("exchange.json")
PYTHON = os.environ.get("GNOMON_TINKER_PYTHON") or (sys.executable if find_spec("tinker") else "")
IDLE = ("/api/v1/session_heartbeat", "/api/v1/telemetry", "/api/v1/client/dynamic_config")
TOKENS, REPLY = [5, 6, 7, 8, 9, 10, 11], 3


@contextmanager
def serving(
    monkeypatch: pytest.MonkeyPatch,
    record: list[dict[str, Any]] | None = None,
    words: Sequence[str] = ("env=char_count",),
) -> Iterator[LearnerServer]:
    """A server whose names are numbered. Args: record: takes requests and answers; words: settings."""
    numbers = count()
    monkeypatch.setattr(service, "token_hex", lambda size: f"{next(numbers):08x}")
    server = LearnerServer(resolve([Source({}, {}), overrides([*words])])[0], token="secret")
    app = server._server.config.app

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        sent, got, head = b"", b"", {}

        async def receive_too() -> Any:
            nonlocal sent
            message = await receive()
            sent += message.get("body", b"")
            return message

        async def send_too(message: Any) -> None:
            nonlocal got
            head.update(message) if message["type"] == "http.response.start" else None
            got += message.get("body", b"")
            await send(message)

        await app(scope, receive_too, send_too)
        if record is not None and scope["path"] not in IDLE and head["status"] != 408:
            kind = dict(scope["headers"]).get(b"content-type", b"").decode()
            facts = {"method": scope["method"], "path": scope["path"], "type": kind, "status": head["status"]}
            record.append({**facts, "sent": b64encode(sent).decode(), "got": b64encode(got).decode()})

    server._server.config.app = recording
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.skipif(not PYTHON, reason="the SDK is not installed: pip install tinker, or set GNOMON_TINKER_PYTHON")
@pytest.mark.parametrize("rank", [4, 0])
def test_the_official_sdk_trains_and_samples(monkeypatch, rank):
    record: list[dict[str, Any]] = []
    with serving(monkeypatch, record) as server:
        keys = {"TINKER_API_KEY": f"tml-{server.token}", "TINKER_BASE_URL": server.url, "TINKER_TELEMETRY": "0"}
        command = [PYTHON, str(Path(__file__).with_name("sdk.py")), str(rank)]
        done = subprocess.run(command, env={**os.environ, **keys}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["info"] == rank and found["importance_sampling 0"] == found["importance_sampling 1"]
    assert found["prompt"][0] is None and found["prompt"][1:] == found["importance_sampling 1"]
    assert [len(tokens) <= 6 and len(tokens) == len(logp) for tokens, logp in found["samples"]] == [True, True]
    assert "'dro' is not known" in found["refused"]
    if rank == 0:
        expected = by_hand()
        for name in ("cross_entropy", "importance_sampling 0"):
            assert found[name] == pytest.approx(expected[name], abs=2e-4), "float32, two steps of Adam"
        assert [found["loss"], found["grad_norm"]] == pytest.approx(expected["loss, norm"], rel=1e-4)
    elif "GNOMON_TINKER_RECORD" in os.environ:
        EXCHANGE.write_text(json.dumps(record, indent=0))


def by_hand() -> dict[str, list[float]]:
    """The conversation of `sdk.py`, in plain torch with autograd of the losses as they are documented."""
    model, targets = (
        GPTNeoXForCausalLM.from_pretrained(model_folder("tiny"), dtype=torch.float32),
        torch.tensor(TOKENS[1:]),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-12, weight_decay=0.0)

    def logp() -> torch.Tensor:
        logits = model(torch.tensor([TOKENS[:-1]])).logits[0].float()
        return logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]

    def step(value: torch.Tensor) -> float:
        optimizer.zero_grad()
        value.backward()
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
        return norm

    first = logp()
    value = -(torch.tensor([1.0, 0.5, -0.25]) * first[-REPLY:]).sum()
    norm = step(value)
    behavior = logp()[-REPLY:].detach() - torch.tensor([0.1, 0.0, 0.0])
    step(-((logp()[-REPLY:] - behavior).exp() * torch.tensor([1.0, 1.0, -1.0])).sum())
    return {
        "cross_entropy": first.tolist(),
        "importance_sampling 0": logp().tolist(),
        "loss, norm": [float(value.detach()), norm],
    }


def test_a_recorded_conversation_of_the_sdk(monkeypatch):
    """Every request of the SDK gets an answer of the same kind, and numbers that differ by rounding alone."""
    with serving(monkeypatch) as server:
        for one in json.loads(EXCHANGE.read_text()):
            status, got = asked(server, one)
            expected = b64decode(one["got"])
            assert status == one["status"], (one["path"], got)
            if got[:1] == b"{":
                assert numbers_of(json.loads(got)) == pytest.approx(numbers_of(json.loads(expected)), rel=1e-2)
                assert shape(json.loads(got)) == shape(json.loads(expected)), one["path"]
            else:
                assert floats(got) == pytest.approx(floats(expected), abs=1e-2)


def asked(server: LearnerServer, one: dict[str, Any], key: str = "tml-secret") -> tuple[int, bytes]:
    """Status and answer; a result that is not ready is asked for again."""
    while True:
        connection = HTTPConnection(urlsplit(server.url).netloc, timeout=60)
        headers = {"content-type": one["type"], "x-api-key": key}
        connection.request(one["method"], one["path"], b64decode(one["sent"]), headers)
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        if found[0] != 408:
            return found


def shape(value: Any) -> Any:
    """A JSON value without its numbers."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    return (
        [shape(part) for part in value]
        if isinstance(value, list)
        else type(value)
        if isinstance(value, float)
        else value
    )


def numbers_of(value: Any) -> list[float]:
    if isinstance(value, dict | list):
        return [
            number for part in (value.values() if isinstance(value, dict) else value) for number in numbers_of(part)
        ]
    return [value] if isinstance(value, float) else []


def floats(body: bytes) -> list[float]:
    """The log-probabilities of results of passes and samples."""
    found = fields(body)
    if found[1] and found[1][0] == b"ArrayRecord":
        entry = fields(bytes(fields(bytes(found[2][0]))[2][0]))
        return np.frombuffer(bytes(fields(bytes(entry[2][0]))[1][0]), "<f4").tolist()
    return [x for each in found[1] for x in np.frombuffer(bytes(fields(bytes(each))[3][0]), "<f4").tolist()]


def test_a_request_that_is_sent_twice_is_carried_out_once_and_a_wrong_key_never(monkeypatch):
    with serving(monkeypatch) as server:
        requests = json.loads(EXCHANGE.read_text())
        step = next(place for place, one in enumerate(requests) if one["path"].endswith("optim_step"))
        for one in requests[: step + 1]:
            asked(server, one)
        for one in requests[step:]:
            got = asked(server, one)[1]
            assert asked(server, one)[1] == got or b"sampling_session" in got
            if one["path"].endswith("get_info"):
                break
        assert asked(server, requests[0], key="tml-wrong")[0] == 403


@pytest.mark.parametrize("name", LOSSES)
def test_the_coefficients_are_the_gradient_of_the_loss(name):
    """By autograd of the loss as it is documented, in float64."""
    rng = np.random.default_rng(0)
    inputs = {key: rng.normal(size=50) for key in ("weights", "logprobs", "advantages")}
    logp = torch.tensor(inputs["logprobs"] + rng.normal(size=50) / 3, requires_grad=True)
    given = {key: torch.tensor(value) for key, value in inputs.items()}
    ratio = (logp - given["logprobs"]).exp()
    clipped = torch.minimum(ratio * given["advantages"], ratio.clip(0.8, 1.3) * given["advantages"])
    gain = {
        "cross_entropy": given["weights"] * logp, "importance_sampling": ratio * given["advantages"], "ppo": clipped
    }[name]  # fmt: skip
    (-gain.sum()).backward()
    options = {"clip_high_threshold": 1.3} if name == "ppo" else {}
    kappa, value = loss(name, options, logp.detach().numpy(), inputs)
    assert logp.grad is not None
    np.testing.assert_allclose(kappa, -logp.grad.numpy(), rtol=1e-12)
    assert value == pytest.approx(float(-gain.detach().sum()), rel=1e-12)


def test_what_is_no_message_is_refused():
    rng = np.random.default_rng(0)
    whole = encode_field(1, "m") + encode_field(
        3, encode_field(1, encode_field(1, encode_field(1, np.arange(3, dtype="<i4").tobytes())))
    )
    assert read_pass(whole).data[0].tokens == (0, 1, 2)
    for _ in range(2000):
        changed = bytearray(whole)
        changed[rng.integers(len(whole))] = rng.integers(256)
        try:
            read_pass(bytes(changed[: rng.integers(1, len(whole) + 1)]))
        except ValueError:
            continue
    assert fields(written_pass([], {"a": 0.5}))[3]
