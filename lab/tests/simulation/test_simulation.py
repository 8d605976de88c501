"""Runs in virtual time against times that can be computed by hand."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from commands import command
from gnomon.config import RunConfig, Source, resolve
from gnomon.errors import ResourceError
from gnomon.keys import Key
from gnomon.models.weights import WeightsRef
from gnomon.types import Request, Sampling
from gnomon_lab.simulation import Cluster, Engine, Load, Speed, VirtualLoop, simulate
from gnomon_lab.simulation.gauge import Gauge
from gnomon_lab.simulation.stopwatch import Stopwatch

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
    assert (
        cluster.head.failed == 1 and cluster.head.sent == 3 and cluster.members[0].lost == pytest.approx(5.0, abs=CLOSE)
    )


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
    assert first.sent == first.answers + first.resampled
    never = simulate(config(rollout={"lag": 1}), replace(load, speed=Speed(token=0.02)))
    assert first.resampled > 0 and first.seconds > never.seconds and first.tokens == never.tokens


def test_the_median_of_a_gauge_weighs_its_values_with_their_time():
    """0 for 2 s, 5 for 4 s, 9 for 1 s, 5 for 1 s, 3 for 4 s, and 20 for no time."""
    now = [0.0]
    gauge = Gauge(lambda: now[0])
    for now[0], value in [(2.0, 5), (6.0, 9), (7.0, 5), (8.0, 20), (8.0, 3)]:
        gauge.set(value)
    now[0] = 12.0
    assert (gauge.median, gauge.most) == (3, 20)
    now[0] = 12.5
    gauge.set(5)
    now[0] = 16.0
    assert gauge.median == 5


def test_a_stopwatch_counts_a_coroutine_while_it_runs_and_not_what_runs_while_it_waits():
    """The work of the other takes ten times as long. Cancellation and answers pass through."""

    def work(rounds: int) -> float:
        began = time.thread_time()
        sum(range(rounds))
        return time.thread_time() - began

    async def counted() -> float:
        first = work(200_000)
        assert await asyncio.sleep(0.1, "answer") == "answer"
        return first + work(200_000)

    async def both() -> tuple[float, float, float]:
        watch = Stopwatch()
        task = asyncio.ensure_future(watch.time_steps(counted()))
        cancelled = asyncio.ensure_future(watch.time_steps(asyncio.sleep(100.0)))
        await asyncio.sleep(0.05)
        other = work(4_000_000)
        cancelled.cancel()
        own = await task
        assert cancelled.cancelled()
        return watch.seconds, own, other

    seconds, own, other = played(both())
    assert own <= seconds < own + other / 2


def of_ray(samplers: int, episodes: int, **settings: Any) -> RunConfig:
    return config(launch={"type": "ray", "samplers": samplers, "episodes": episodes}, **settings)


def test_messages_and_queue_of_samplers_are_those_computed_by_hand():
    """Two samplers play 16 rollouts of 0.1 s, two at a time each: 12, 8, 4 and 0 wait for 0.1 s each, and none for 0.25
    s of training. The evaluations before and after are one rollout each, which one sampler plays. Nobody is quiet for a
    second, so nobody is asked whether it is alive."""
    load = Load(speed=Speed(token=0.001), reply=100, reply_spread=0.0, train=0.25)
    found = simulate(of_ray(2, 2), load)
    assert found.seconds == pytest.approx(0.1 + 8 * (4 * 0.1 + 0.25) + 0.1, abs=CLOSE)
    assert found.sent == found.answers == 8 * 16 + 2
    assert found.weights == 8 * 2 + 1
    assert found.watch == 2 * 2
    assert found.messages == 2 * 130 + 17 + 4
    assert (found.queue_median, found.queue_max) == (0, 12)
    assert found.messages_per_second == pytest.approx(281 / 5.4)
    assert found.scheduler_step * 8 == pytest.approx(found.head * found.seconds)
    assert found.rows == pytest.approx(2.0, abs=0.1) and found.resampled == 0


def test_the_queue_is_longer_without_training():
    """As above, with 0.01 s of training: 4 wait at the median of a step."""
    load = Load(speed=Speed(token=0.001), reply=100, reply_spread=0.0, train=0.01)
    assert simulate(of_ray(2, 2), load).queue_median == 4


def test_quiet_samplers_are_asked_every_second():
    """One step. Sampling ends at 0.5 s and the last evaluation begins 10.4 s later, so each is asked ten times."""
    load = Load(speed=Speed(token=0.001), reply=100, reply_spread=0.0, train=10.4)
    found = simulate(of_ray(2, 2, steps=1), load)
    assert found.sent == 18 and found.watch == 2 * 2 + 2 * 10 * 2


@pytest.mark.parametrize("lag", [0, 2])
@pytest.mark.parametrize("in_flight", [False, True])
def test_samplers_take_the_time_of_as_many_servers(lag, in_flight):
    """Enough of them for every rollout at once. Each step hands weights to each of its samplers once."""
    load = Load(speed=Speed(token=0.01), reply=100, reply_spread=0.0, train=0.5)
    rollout = {"lag": lag, "in_flight": in_flight and lag > 0}
    found = simulate(of_ray(8, 8, rollout=rollout), load)
    assert found.seconds == pytest.approx(by_hand(8, lag, 1.0, 0.5), abs=CLOSE)
    assert found.staleness_max <= min(lag, 7) and found.sent == found.answers == 8 * 16 + 2
    assert found.queue_max == 0


def test_three_hundred_samplers_that_fail_lose_no_rollout():
    """Heavy tails. What was sent came back or was lost with its sampler, and was then sent again."""
    speed = Speed(token=0.01, between_failures=60.0, restart=20.0)
    load = Load(speed=speed, reply=300, reply_spread=1.0, call=0.5, train=5.0)
    settings = {"steps": 2, "rollout": {"prompts": 100, "group": 8, "max_tokens": 1024}}
    found = simulate(of_ray(300, 2, **settings), load)
    assert found.rollouts == 2 * 800 and found.answers == 2 * 800 + 2
    assert found.resampled > 50 and found.sent == found.answers + found.resampled
    assert found.queue_max >= 800 - 2 * 300
    assert found.messages == found.sent + found.answers + found.resampled + found.weights + found.watch
    never = simulate(of_ray(300, 2, **settings), replace(load, speed=Speed(token=0.01)))
    assert never.queue_max == 800 - 2 * 300 and never.weights == 2 * 300 + 1
    assert found.tokens == never.tokens and found.seconds > never.seconds
    assert found.lost_tokens > 0 == never.lost_tokens


def test_samplers_that_always_fail_end_the_run_as_they_would():
    load = Load(speed=Speed(token=0.01, between_failures=0.2), reply=1000, reply_spread=0.0)
    with pytest.raises(ResourceError, match="E512"):
        simulate(of_ray(4, 4), load)


@pytest.mark.long
def test_ten_thousand_rollouts_are_sampled_at_once():
    load = Load(servers=20, speed=Speed(token=0.01), reply=100, reply_spread=0.0, train=1.0)
    found = simulate(config(1, rollout={"prompts": 1280, "group": 8}), load)
    assert found.seconds == pytest.approx(2.0 + 2 * 1.0, abs=CLOSE)
    assert found.rows > 460


def test_the_command():
    done = command("simulate", "countdown", "steps=4", "rollout.lag=1", "--call", "2", "--json")
    found = json.loads(done.stdout)
    assert found["steps"] == 4 and found["sent"] == found["answers"] and found["queue_max"] >= found["queue_median"]
    assert "error" in command("simulate", "countdwn").stderr
    shown = command("simulate", "countdown", "steps=4", "launch=ray", "launch.samplers=3", "--failures", "0.1").stdout
    assert (
        "messages per second" in shown and "at the median" in shown and "of this machine's processor per step" in shown
    )
    refused = command("simulate", "countdown", "launch=ray", "--servers", "2")
    assert "launch.samplers=2" in refused.stderr and "Traceback" not in refused.stderr
