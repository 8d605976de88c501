"""Weights that change while completions are sampled: each token says which weights it came from, and is from them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engines.asking import ask, three_versions
from gnomon.engines import sample_all
from gnomon.engines.base import Tier
from gnomon.engines.embedded import Embedded
from gnomon.engines.threaded import Threaded
from gnomon.engines.vllm import VLLM
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.scoring import score
from gnomon.models.weights import WeightsRef
from gnomon.types import Completion, Request

PROMPTS = ("Use 3, 4, 5\n", 'How many "a" are in "banana"?\n')


@pytest.fixture(scope="module")
def versions() -> list[WeightsRef]:
    return three_versions()


@pytest.fixture()
def engine(versions) -> Embedded:
    engine = Embedded(Policy.load(model_folder("tiny")))
    engine.load(versions[0])
    engine.in_flight = True
    return engine


def asked(engine: Embedded, samples: int = 6) -> list[Request]:
    limits = (60, 7, 1, 40, 25, 60)
    return [ask(engine.policy, p, s, limits[s % 6], stop=()) for p in PROMPTS for s in range(samples)]


async def interrupted(
    engine: Embedded, requests: Sequence[Request], loads: Sequence[tuple[int, WeightsRef]], late: Sequence[Request] = ()
) -> tuple[list[Completion], list[Completion]]:
    """Sample while weights are loaded, each after so many turns of the event loop; `late` requests join after that."""
    first = asyncio.ensure_future(sample_all(engine, requests))
    done = 0
    for turns, weights in loads:
        for _ in range(turns - done):
            await asyncio.sleep(0)
        done = turns
        engine.load(weights)
    then = await sample_all(engine, late)
    return await first, then


def test_tokens_before_the_change_are_those_of_the_old_weights_in_every_bit(engine, versions):
    requests = asked(engine)
    whole = asyncio.run(sample_all(engine, requests))
    found, _ = asyncio.run(interrupted(engine, requests, [(12, versions[1])]))
    assert any(completion.changes for completion in found)
    for before, after in zip(whole, found, strict=True):
        kept = after.changes[0][0] if after.changes else len(after.token_ids)
        assert after.version == 0
        assert after.token_ids[:kept] == before.token_ids[:kept]
        assert after.logprobs[:kept] == before.logprobs[:kept]
        assert after.versions() == (0,) * kept + (1,) * (len(after.token_ids) - kept)


def test_a_request_after_the_change_is_that_of_the_new_weights_alone(engine, versions):
    """Its prompt is one that the running batch has computed with the old weights."""
    late = asked(engine, 2)
    _, then = asyncio.run(interrupted(engine, asked(engine), [(9, versions[1])], late))
    alone = Embedded(Policy.load(model_folder("tiny")))
    alone.load(versions[1])
    assert then == asyncio.run(sample_all(alone, late))


def test_loading_the_same_weights_changes_nothing_but_the_note(engine, versions):
    requests = asked(engine)
    whole = asyncio.run(sample_all(engine, requests))
    found, _ = asyncio.run(interrupted(engine, requests, [(4, versions[0]), (9, versions[0]), (9, versions[0])]))
    assert [(c.token_ids, c.logprobs) for c in found] == [(c.token_ids, c.logprobs) for c in whole]


def test_tokens_after_the_change_are_near_those_of_the_new_weights(engine, versions):
    """They are sampled by the new weights on the keys and values of the old: nearer to the new than to the old."""
    requests = [ask(engine.policy, prompt, s, 48, stop=()) for prompt in PROMPTS for s in range(8)]
    found, _ = asyncio.run(interrupted(engine, requests, [(10, versions[2])]))
    old, new = (Embedded(Policy.load(model_folder("tiny"))) for _ in range(2))
    old.load(versions[0]), new.load(versions[2])
    gaps = []
    for each in (old, new):
        scored = [score(each.policy, [r.prompt_ids], [(0, c.token_ids)]) for r, c in zip(requests, found, strict=True)]
        after = [
            (logp - torch.tensor(c.logprobs)).abs()[c.changes[0][0] :]
            for logp, c in zip(scored, found, strict=True)
            if c.changes
        ]
        gaps.append(float(torch.cat(after).mean()))
    assert gaps[1] < 0.5 * gaps[0]


def test_several_changes_before_the_same_token_count_once(engine, versions):
    found, _ = asyncio.run(interrupted(engine, asked(engine), [(6, versions[1]), (6, versions[2]), (11, versions[1])]))
    assert {completion.version for completion in found} == {0}
    longest = max(found, key=lambda completion: len(completion.token_ids))
    assert [version for _, version in longest.changes] == [2, 1]
    places = [place for place, _ in longest.changes]
    assert places == sorted(set(places)) and places[0] > 0


def test_without_the_permission_a_load_during_sampling_is_refused(engine, versions):
    engine.in_flight = False
    with pytest.raises(RuntimeError, match="between two batches"):
        asyncio.run(interrupted(engine, asked(engine), [(5, versions[1])]))


def test_in_a_thread_it_takes_requests_from_anywhere(engine, versions):
    requests = asked(engine, 2)
    threaded = Threaded(engine)
    try:
        assert threaded.tier is Tier.MEASURED
        threaded.load(versions[1])
        here = asyncio.run(sample_all(threaded, requests))
        there = threaded.thread.submit(sample_all(threaded, requests)).result()
        assert here == there and {completion.version for completion in here} == {1}
        assert threaded.thread.submit(loaded(threaded, versions[1])).result() == 1
    finally:
        threaded.close()


async def loaded(engine: Threaded, weights: WeightsRef) -> int:
    """A version that is loaded already needs no other thread."""
    engine.load(weights)
    return engine.version


def test_a_load_that_fails_says_so_and_the_samples_go_on(engine, versions):
    threaded = Threaded(engine)
    wrong = replace(versions[1], base="another")
    try:
        with pytest.raises(Exception, match="E323"):
            threaded.load(wrong)
        assert asyncio.run(sample_all(threaded, asked(engine, 1)))[0].version == 0
    finally:
        threaded.close()


def test_a_worker_process_changes_its_weights_too(versions):
    """The worker of the vLLM engine, with this package's engine in vLLM's place, while it samples 48 long replies."""
    worker = Path(__file__).with_name("policy_worker.py")
    engine = VLLM(model_folder("tiny"), (sys.executable, str(worker)), arguments={"max_model_len": 512}, bound=1e-3)
    threaded = Threaded(engine)
    try:
        threaded.load(versions[0])
        requests = [ask(engine, PROMPTS[0], sample, 160, temperature=2.0) for sample in range(48)]
        sampling = threaded.thread.submit(sample_all(threaded, requests))
        loads = 0
        while not sampling.done():
            loads += 1
            threaded.load(replace(versions[loads % 3], version=loads))
        found = sampling.result()
    finally:
        threaded.close()
    assert loads > 1 and any(completion.changes for completion in found)
    for completion in found:
        seen = completion.versions()
        assert len(seen) == len(completion.token_ids) and list(seen) == sorted(seen) and seen[-1] <= loads
