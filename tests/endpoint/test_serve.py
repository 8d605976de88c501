"""`gnomon serve`: a checkpoint behind the APIs, apart from training."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from commands import command
from gnomon.run.policy_server import PolicyServer, policy_server


@pytest.fixture(scope="module")
def server() -> PolicyServer:
    made = policy_server("tiny", host="127.0.0.1", port=0, max_tokens=16)
    threading.Thread(target=made.run, daemon=True).start()
    return made


def asked(server: PolicyServer, **more: Any) -> str:
    body = {"messages": [{"role": "user", "content": "3+4. <answer>...</answer>"}], **more}
    request = urllib.request.Request(f"{server.url}/v1/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


def test_a_request_decides_how_its_reply_is_sampled(server: PolicyServer):
    assert asked(server, temperature=0) == asked(server, temperature=0)
    assert asked(server, seed=5) == asked(server, seed=5)
    assert len({asked(server, temperature=2.0) for _ in range(6)}) > 1
    assert len({asked(server, temperature=2.0, seed=seed) for seed in range(6)}) > 1


@pytest.mark.parametrize("more", [{"top_p": 0.5}, {"temperature": 9}, {"n": 2}])
def test_what_it_does_not_honour_is_refused(server: PolicyServer, more: dict[str, Any]):
    with pytest.raises(urllib.error.HTTPError) as refused:
        asked(server, **more)
    assert refused.value.code == 400 and next(iter(more)) in refused.value.read().decode()


def test_an_open_address_needs_a_key():
    done = command("serve", "tiny", "--host", "0.0.0.0")
    assert done.returncode and "error[E098]" in done.stderr and "GNOMON_KEY" in done.stderr


def test_an_environment_has_a_command_of_its_own():
    done = command("serve", "arithmetic")
    assert (
        done.returncode
        and "arithmetic is an environment" in done.stderr
        and "gnomon serve-env arithmetic" in done.stderr
    )
