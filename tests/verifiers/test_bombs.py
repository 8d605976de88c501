"""A batch with bombs in it: math-verify hangs in its workers alone, and the other verdicts are what they were."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gnomon.types import Status, Task, Verdict
from gnomon.verifiers import Judge, judge
from gnomon.verifiers.math import Math
from verifiers.odd_verifiers import Unscreened
from verifiers.shipped import there

pytestmark = pytest.mark.skipif(not there("math_verify"), reason="needs math_verify")

BOMBS = (
    "9^{9^{9^{9}}}", "10000000!", "((((9!)!)!)!)", r"\prod_{i=1}^{10^7} i", "2^{2000000000}",
    "99^{98^{97}}", r"\binom{10^8}{5\cdot 10^7}", "((10^9)!)!", r"\sum_{i=1}^{10^9} (i!)^7", "9^{9^{9^{9^{9}}}}",
)  # fmt: skip
SECONDS = 0.5


def task(place: int) -> Task:
    return Task(id=str(place), messages=(), answer=f"{place}/7")


def items(count: int, every: int) -> list[tuple[Task, str]]:
    """Right and wrong answers by turns, some of them left to computer algebra; bombs at regular places."""
    found = []
    for place in range(count):
        right = place % 2 == 0
        answer = f"{place if right else place + 1}/7"
        if place % 5 == 0:
            answer = rf"\frac{{{place if right else place + 1}}}{{\sqrt{{49}}}}"
        if place % every == every - 1:
            answer = BOMBS[place // every % len(BOMBS)]
        found.append((task(place), f"<answer>{answer}</answer>"))
    return found


@pytest.mark.long
def test_a_thousand_of_which_twenty_are_bombs() -> None:
    """Nothing stands in front of computer algebra here but the pool."""
    poisoned, clean = items(1000, 50), items(1000, 10**9)
    began = time.monotonic()
    with Judge(Unscreened(), workers=2, seconds=SECONDS, wall=30, memory=2**29) as owner:
        verdicts = owner.judge(poisoned)
        seconds = time.monotonic() - began
        expected = owner.judge(clean)
    # A core that others use too is less than a core: the limit is 60 seconds of two.
    assert seconds < 60 * max(1.0, os.getloadavg()[0] / 2)
    bombs = set(range(49, 1000, 50))
    assert len(bombs) == 20
    for place, verdict in enumerate(verdicts):
        if place in bombs:
            assert verdict.status in (Status.EXCEEDED, Status.MALFORMED, Status.WRONG), (place, verdict)
            assert verdict.reward == 0
        else:
            assert verdict == expected[place]
            assert verdict.correct == (place % 2 == 0), (place, verdict)
    assert sum(verdicts[place].status is Status.EXCEEDED for place in bombs) >= 14


@pytest.mark.parametrize("bomb", BOMBS)
def test_the_math_verifier_needs_no_pool_for_a_bomb(bomb: str) -> None:
    for answer, gold in ((bomb, "1/7"), ("1/7", bomb), (bomb, bomb + "+1"), (f"({bomb}, 2)", "(1, 2)")):
        began = time.process_time()
        verdict = Math().verify(Task(id="1", messages=(), answer=gold), f"<answer>{answer}</answer>")
        assert time.process_time() - began < 0.3
        assert verdict.status in (Status.REJECTED, Status.MALFORMED, Status.WRONG)


def test_one_and_two_workers_say_the_same() -> None:
    batch = items(20, 10)
    one = judge(Unscreened(), batch, workers=1, seconds=SECONDS)
    assert judge(Unscreened(), batch[::-1], workers=2, seconds=SECONDS) == one[::-1]


BOMB = (task(1), r"<answer>9^{9^{9^{9}}}</answer>")
GOOD = (task(1), r"<answer>\frac{1}{\sqrt{49}}</answer>")


def test_the_bomb_freezes_no_thread_beside_it() -> None:
    """In the caller it keeps the interpreter for itself, and an alarm does not help off the main thread."""
    ticks, found = 0, list[Verdict]()
    with Judge(Unscreened(), workers=1, seconds=SECONDS) as owner:
        thread = threading.Thread(target=lambda: found.extend(owner.judge([BOMB, GOOD])))
        thread.start()
        while thread.is_alive():
            time.sleep(0.01)
            ticks += 1
    assert [verdict.status for verdict in found] == [Status.EXCEEDED, Status.CORRECT]
    assert ticks > 10


def test_the_bomb_freezes_no_event_loop() -> None:
    async def main() -> tuple[list[Verdict], int]:
        with Judge(Unscreened(), workers=1, seconds=SECONDS) as owner:
            running, ticks = asyncio.ensure_future(owner.ajudge([BOMB, GOOD])), 0
            while not running.done():
                await asyncio.sleep(0.01)
                ticks += 1
            return await running, ticks

    verdicts, ticks = asyncio.run(main())
    assert [verdict.status for verdict in verdicts] == [Status.EXCEEDED, Status.CORRECT]
    assert ticks > 10


def test_judging_goes_on_when_the_parents_parent_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "verdicts"
    inner = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from gnomon.verifiers import judge\nfrom verifiers.odd_verifiers import Unscreened\n"
        "from verifiers.test_bombs import BOMB, GOOD\nimport os, time\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "found = judge(Unscreened(), [BOMB, GOOD], workers=1, seconds=0.5)\n"
        f"open({str(note)!r}, 'w').write(' '.join(v.status for v in found))\n"
    )
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    parent = subprocess.Popen(
        [sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert parent.stdin is not None and parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    parent.kill()
    parent.wait()
    parent.stdin.close()
    deadline = time.monotonic() + 30
    while not (note.exists() and note.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert note.read_text() == "exceeded correct"
