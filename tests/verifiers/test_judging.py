"""What became of a call is one verdict: the policy's doing counts against it, the judge's against nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from gnomon.types import Status, Task, Verdict
from gnomon.verifiers import Judge, Retry, judge, judge_all, settle
from gnomon.workers import Died, Exceeded, Pool, Raised, Returned
from verifiers.odd_verifiers import Costly, Odd, forged

TASK = Task(id="1", messages=(), answer="4")
SECONDS = 0.3
RANGE = (0.0, 1.0)


@pytest.fixture(scope="module")
def owner() -> Iterator[Judge]:
    with Judge(Odd(), workers=2, seconds=SECONDS, wall=2 * SECONDS, output=2**16) as made:
        yield made


@pytest.mark.parametrize(
    ("reply", "status", "detail"),
    [
        ("<answer>4</answer>", Status.CORRECT, ""),
        ("<answer>5</answer>", Status.WRONG, ""),
        ("4", Status.NO_ANSWER, "no <answer>"),
        ("!spin", Status.EXCEEDED, "limit of time"),
        ("!sleep", Status.EXCEEDED, "limit of time"),
        ("!eat", Status.EXCEEDED, "memory"),
        ("!talk", Status.EXCEEDED, "output"),
        ("!throw", Status.FAILED, "RuntimeError: the gold file is gone"),
        ("!leave", Status.FAILED, "died"),
        ("!nothing", Status.FAILED, "None instead of a verdict"),
        ("!number", Status.FAILED, "1.0 instead of a verdict"),
        ("!too_much", Status.FAILED, "outside its declared range"),
        ("!no_number", Status.FAILED, "not finite"),
        ("!no_status", Status.FAILED, "instead of a verdict"),
        ("!no_parts", Status.FAILED, "an invalid verdict"),
        ("!say_failed", Status.FAILED, "no gold"),
    ],
)
def test_every_end_of_a_call_is_one_verdict_and_the_next_is_served(owner, reply, status, detail):
    verdict, after = owner.judge([(TASK, reply), (TASK, "<answer>4</answer>")])
    assert verdict.status is status and detail in verdict.detail
    assert after.correct
    if status is not Status.CORRECT:
        assert verdict.reward == 0


def test_a_traceback_stands_in_the_detail(owner):
    (verdict,) = owner.judge([(TASK, "!throw")])
    assert "odd_verifiers.py" in verdict.detail and "in throw" in verdict.detail


def test_a_reply_that_exceeds_its_limits_earns_the_lowest_reward_there_is():
    (verdict,) = judge(Costly(), [(TASK, "!spin")], workers=1, seconds=SECONDS)
    assert (verdict.status, verdict.reward) == (Status.EXCEEDED, -0.5)
    assert [part.name for part in verdict.parts] == ["exceeded"]


@pytest.mark.parametrize("accident", ["once", "sleep_once", "die_once"])
def test_an_accident_is_tried_once_more(tmp_path, accident):
    with Judge(Odd(note=str(tmp_path / "note")), workers=1, seconds=SECONDS, wall=2 * SECONDS) as owner:
        (verdict,) = owner.judge([(TASK, f"!{accident}")])
    assert verdict.status is Status.WRONG


def test_with_no_retries_an_accident_is_a_failure(tmp_path):
    with Judge(Odd(note=str(tmp_path / "note")), workers=1, retries=0) as owner:
        (verdict,) = owner.judge([(TASK, "!die_once")])
    assert verdict.status is Status.FAILED and "1 time in a row" in verdict.detail


def test_the_second_try_has_a_worker_that_judged_nothing_before(owner):
    """Several of them, so that even those that are tried again beside each other each get a fresh one."""
    items = [(TASK, "<answer>4</answer>")] * 3 + [(TASK, "!when_fresh")] * 5
    assert [verdict.status for verdict in owner.judge(items)] == [Status.CORRECT] * 3 + [Status.WRONG] * 5


def test_settling_says_what_to_try_again():
    good = Verdict(status=Status.WRONG, parts=())
    assert settle(Returned(good), RANGE) is good
    for accident, status in [
        (Raised("E: x", "trace"), Status.FAILED),
        (Died(1), Status.FAILED),
        (Returned(0.5), Status.FAILED),
        (Exceeded("wall"), Status.EXCEEDED),
    ]:
        found = settle(accident, RANGE)
        assert isinstance(found, Retry) and found.verdict.status is status
    for spent in ("cpu", "memory", "output"):
        found = settle(Exceeded(spent), RANGE)
        assert isinstance(found, Verdict) and found.status is Status.EXCEEDED
    assert isinstance(settle(Returned(forged()), (0.0, 0.5)), Retry)


def mixed() -> list[tuple[Task, str]]:
    replies = [f"<answer>{i % 7}</answer>" for i in range(60)]
    replies[7], replies[20], replies[33], replies[41] = "!spin", "!throw", "!nothing", "!leave"
    return [(TASK, reply) for reply in replies]


def test_verdicts_do_not_depend_on_workers_or_order():
    items = mixed()
    one = judge(Odd(), items, workers=1, seconds=SECONDS)
    assert judge(Odd(), items, workers=2, seconds=SECONDS) == one
    assert judge(Odd(), items[::-1], workers=2, seconds=SECONDS) == one[::-1]
    assert [verdict.status for verdict in one].count(Status.FAILED) == 3


def test_a_judge_serves_threads_and_async_code():
    # The clock's limit is wide, so that a busy machine does not decide which limit is met first.
    with Judge(Odd(), workers=2, seconds=SECONDS, wall=30) as owner:
        serve(owner)


def serve(owner: Judge) -> None:
    expected, found = owner.judge(mixed()), {}

    def ask(name: int) -> None:
        found[name] = owner.judge(mixed())

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: expected, 1: expected}

    async def main() -> tuple[list[Verdict], int]:
        task, ticks = asyncio.ensure_future(owner.ajudge(mixed())), 0
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return await task, ticks

    verdicts, ticks = asyncio.run(main())
    assert verdicts == expected and ticks > 5


def test_any_pool_will_do():
    with Pool(Odd().verify, workers=1) as pool:
        assert [v.status for v in judge_all(Odd(), pool, [(TASK, "<answer>4</answer>")])] == [Status.CORRECT]
