"""Runs in virtual time against times that can be computed by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from commands import command
from gnomon.config import RunConfig, Source, resolve
from gnomon.keys import Key
from gnomon.models.weights import WeightsRef
from gnomon.simulation import Cluster, Engine, Load, Speed, VirtualLoop, simulate
from gnomon.types import Request, Sampling

CLOSE = 1e-6
"""Seconds: sums of a few thousand floating-point steps."""


def config(steps: int = 8, **settings: Any) -> RunConfig:
    rollout = {"prompts": 4, "group": 4, **settings.pop("rollout", {})}
    plain = {"steps": steps, "rollout": rollout, "eval": {"tasks": 1, "every": 1000}, **settings}
    return resolve([Source(plain, {})])[0]


def played(work: Coroutine[Any, Any, Any]) -> Any:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


async def decoded(cluster: Cluster, sizes: list[int]) -> list[float]:
    """When requests of these sizes, made together, are complete."""

    async def one(tokens: int) -> float:
        await cluster.decode(tokens)
        return asyncio.get_running_loop().time()

    return list(await asyncio.gather(*map(one, sizes)))


def times(servers: int, speed: Speed, sizes: list[int]) -> list[float]:
    async def work() -> list[float]:
        return await decoded(Cluster(servers, speed, Key(0)), sizes)

    found: list[float] = played(work())
    return found


def test_a_year_of_waiting_takes_no_time():
    async def wait() -> float:
        await asyncio.gather(asyncio.sleep(3e7), asyncio.sleep(1.0))
        return asyncio.get_running_loop().time()

    assert played(wait()) == pytest.approx(3e7)


def test_waiting_for_nothing_is_an_error_and_does_not_hang():
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="no timer"):
        played(wait())


def test_rows_share_a_server():
    """10 tokens of three rows, then 20 of the one that is left."""
    found = times(1, Speed(token=0.1, row=0.01), [10, 10, 30])
    assert found == pytest.approx([1.3, 1.3, 1.3 + 20 * 0.11], abs=CLOSE)


def test_requests_wait_for_a_row():
    found = times(1, Speed(rows=2, token=0.1, row=0.01), [10, 20, 10])
    assert found == pytest.approx([1.2, 2.4, 2.4], abs=CLOSE)


def test_a_request_goes_to_the_server_that_owes_least():
    assert times(2, Speed(rows=1, token=0.1), [10, 20, 10, 10]) == pytest.approx([1.0, 2.0, 2.0, 3.0], abs=CLOSE)


def test_new_weights_stop_a_server_and_mark_the_next_token():
    async def work() -> tuple[float, Any]:
        engine = Engine(Cluster(1, Speed(token=0.1, load=2.0), Key(0)), lambda request: 40)
        engine.in_flight = True
        request = Request(prompt_ids=(1,), key=bytes(16), sampling=Sampling(max_tokens=99))
        answer = asyncio.ensure_future(engine.sample(request))
        await asyncio.sleep(1.5)
        engine.load(WeightsRef(base="", version=3, tensors={}, probe=(), probe_logp=()))
        completion = await answer
        return asyncio.get_running_loop().time(), completion

    seconds, completion = played(work())
    assert seconds == pytest.approx(6.0, abs=CLOSE)
    assert completion.version == 0 and completion.versions().count(3) in (24, 25)


def test_a_failure_loses_its_tokens_and_its_rows_begin_again():
    """Two servers, a row each; the first fails after 0.5 s, and its row runs on the second, no slower."""

    async def work() -> tuple[list[float], Cluster]:
        cluster = Cluster(2, Speed(token=0.1, restart=100.0), Key(0))
        asyncio.get_running_loop().call_later(0.5, cluster.members[0]._fail)
        return await decoded(cluster, [10, 10]), cluster

    seconds, cluster = played(work())
    assert seconds == pytest.approx([1.5, 1.0], abs=CLOSE)
    assert cluster.resampled == 1 and cluster.members[0].lost == pytest.approx(5.0, abs=CLOSE)


def by_hand(steps: int, lag: int, sampling: float, training: float) -> float:
    """Seconds of a run: batch k begins with step k − lag, and step k trains when the batch and step k − 1 are over. An
    evaluation of one rollout comes before and after."""
    ends = [sampling]
    for k in range(steps):
        begun = ends[max(0, k - lag)]
        ends.append(max(ends[k], begun + sampling) + training)
    return ends[-1] + sampling


@pytest.mark.parametrize("in_flight", [False, True])
@pytest.mark.parametrize("lag", [0, 1, 2, 4, 20])
@pytest.mark.parametrize(("sampling", "training"), [(1.0, 3.0), (3.0, 1.0), (2.0, 2.0)])
def test_the_schedule_takes_the_time_that_it_must(lag, sampling, training, in_flight):
    """Replies of 100 tokens, whose speed does not depend on the rows beside them."""
    load = Load(speed=Speed(token=sampling / 100), reply=100, reply_spread=0.0, train=training)
    found = simulate(config(rollout={"lag": lag, "in_flight": in_flight and lag > 0}), load)
    assert found.seconds == pytest.approx(by_hand(8, lag, sampling, training), abs=CLOSE)
    assert found.learner_busy == pytest.approx(8 * training / found.seconds)
    assert found.staleness_max <= min(lag, 7) and found.rollouts == 8 * 16 and found.tokens == 12800


def test_tokens_in_flight_are_younger():
    """Sampling takes most of the time, so most tokens come after the first change."""
    load = Load(speed=Speed(token=0.01), reply=400, reply_spread=0.8, train=0.5)
    ages = [simulate(config(20, rollout={"lag": 4, "in_flight": flight}), load).staleness for flight in (False, True)]
    assert ages[1] < ages[0] - 0.5


def test_calls_wait_for_a_worker():
    load = Load(speed=Speed(token=0.01), reply=10, reply_spread=0.0, call=1.0, call_spread=0.0, turns=3, train=0.0)
    found = simulate(config(1, workers={"count": 4}), load)
    evaluations = 2 * 3 * (0.1 + 1.0)
    assert found.seconds == pytest.approx(evaluations + 0.1 + 3 * 16 / 4, abs=CLOSE)
    assert found.workers_busy == pytest.approx((3 * 16 + 6) / (4 * found.seconds))


def test_refilled_steps_sample_more():
    plain, refilled = (simulate(config(rollout={"refill": refill}), Load(right=0.9)) for refill in (0, 3))
    assert refilled.seconds > plain.seconds and refilled.rollouts > plain.rollouts


def test_it_repeats_itself_and_failures_cost_time():
    speed = Speed(token=0.02, between_failures=20.0, restart=5.0)
    load = Load(servers=3, speed=speed, call=0.5)
    first, second = (simulate(config(rollout={"lag": 1}), load) for _ in range(2))
    assert replace(first, scheduler=0.0, head=0.0) == replace(second, scheduler=0.0, head=0.0)
    never = simulate(config(rollout={"lag": 1}), replace(load, speed=Speed(token=0.02)))
    assert first.resampled > 0 and first.seconds > never.seconds and first.tokens == never.tokens


@pytest.mark.long
def test_ten_thousand_rollouts_are_sampled_at_once():
    load = Load(servers=20, speed=Speed(token=0.01), reply=100, reply_spread=0.0, train=1.0)
    found = simulate(config(1, rollout={"prompts": 1280, "group": 8}), load)
    assert found.seconds == pytest.approx(2.0 + 2 * 1.0, abs=CLOSE)
    assert found.rows > 460


def test_the_command():
    done = command("simulate", "countdown", "steps=4", "rollout.lag=1", "--call", "2", "--json")
    assert json.loads(done.stdout)["steps"] == 4
    assert "error" in command("simulate", "countdwn").stderr
    assert "per step" in command("simulate", "countdown", "steps=4", "--servers", "2", "--failures", "0.01").stdout
