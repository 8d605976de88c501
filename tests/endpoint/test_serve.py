"""`gnomon serve`: a checkpoint behind the APIs, apart from training."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from math import exp
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
    return str(choice(server, **more)["message"]["content"])


def choice(server: PolicyServer, **more: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": "3+4. <answer>...</answer>"}], **more}
    request = urllib.request.Request(f"{server.url}/v1/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        found: dict[str, Any] = json.load(response)["choices"][0]
    return found


def first_tokens(server: PolicyServer, **more: Any) -> dict[str, float]:
    """The first tokens of 24 replies, with their probabilities as the server reports them."""
    replies = [choice(server, seed=seed, logprobs=True, max_tokens=1, **more) for seed in range(24)]
    return {(token := reply["logprobs"]["content"][0])["token"]: exp(token["logprob"]) for reply in replies}


@pytest.mark.parametrize("cut", [{"top_k": 2}, {"top_p": 0.95}])
def test_a_reply_is_of_the_likeliest_tokens_and_reports_their_share(server: PolicyServer, cut: dict[str, Any]):
    # Seeds are fixed. The likeliest two of the first tokens have 0.929 and 0.042, and four are drawn from the whole.
    whole, kept = first_tokens(server, temperature=2.0), first_tokens(server, temperature=2.0, **cut)
    assert 1 < len(kept) < len(whole)
    assert sum(kept.values()) == pytest.approx(1, abs=1e-5)
    share = sum(whole[token] for token in kept)
    assert kept == {token: pytest.approx(whole[token] / share, rel=1e-4) for token in kept}


def test_the_likeliest_token_alone_is_certain(server: PolicyServer):
    greedy = asked(server, temperature=0)
    for cut in ({"top_k": 1}, {"top_p": 0}):
        reply = choice(server, temperature=2.0, logprobs=True, **cut)
        assert reply["message"]["content"] == greedy
        assert {token["logprob"] for token in reply["logprobs"]["content"]} == {0.0}


def test_a_request_decides_how_its_reply_is_sampled(server: PolicyServer):
    assert asked(server, temperature=0) == asked(server, temperature=0)
    assert asked(server, seed=5) == asked(server, seed=5)
    assert len({asked(server, temperature=2.0) for _ in range(6)}) > 1
    assert len({asked(server, temperature=2.0, seed=seed) for seed in range(6)}) > 1


@pytest.mark.parametrize(
    "more", [{"top_p": 1.5}, {"top_k": -2}, {"top_k": 1.5}, {"temperature": 9}, {"temperature": "hot"}, {"n": 2}]
)
def test_what_it_does_not_honour_is_refused(server: PolicyServer, more: dict[str, Any]):
    with pytest.raises(urllib.error.HTTPError) as refused:
        asked(server, **more)
    assert refused.value.code == 400 and next(iter(more)) in refused.value.read().decode()


@pytest.mark.long
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
