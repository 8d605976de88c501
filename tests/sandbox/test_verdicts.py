"""Attacks S24 to S29 on verdicts: hardened workers, and the checks that stand behind them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gnomon.envs.char_count import CharCount
from gnomon.envs.check import check_env
from gnomon.keys import Key
from gnomon.sandbox import Finished, Job, Sandbox
from gnomon.types import Part, Status, Task, Verdict
from gnomon.workers import Exceeded, Pool, Raised, Returned
from sandbox import hostile
from sandbox.conftest import CANARY, LIMITS, descendants
from workers.plays import last_steps


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(hostile.call, workers=1, seconds=0.5, wall=20, memory=2**30, hardened=True) as made:
        assert made.map([("parses", "1+1")]) in ([Returned("2")], [Exceeded("cpu")])  # It imports SymPy once.
        yield made


def test_s24_bombs_in_an_answer_end_the_worker_and_not_the_trainer(pool):
    bombs = [
        ("matches", "(a+)+$", "a" * 64 + "b"),
        ("parses", "9**9**9**9"),
        ("evaluates", "9**9**9"),
        ("evaluates", "len(bytearray(10**11))"),
    ]
    for bomb in bombs:
        found = pool.map([bomb])[0]
        assert isinstance(found, Exceeded) and found.resource in ("cpu", "memory"), (bomb, found)
        began = time.monotonic()
        assert pool.map([("nap", 0.0)]) == [Returned(0.0)]
        assert time.monotonic() - began < 10


def test_s25_answers_that_are_code_find_nothing_to_do(pool, tmp_path, listener):
    """A scorer that evaluates its text is wrong; hardened, it is only wrong."""
    secret = tmp_path / "expected.json"
    secret.write_text(CANARY)
    before = descendants()
    texts = [
        f"open({str(secret)!r}).read()",
        f"open({str(tmp_path / 'made')!r}, 'w')",
        "open('/etc/passwd').read()",
        "os.system('touch /tmp/gnomon-was-here')",
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.kill(os.getppid(), 9)",
        "os.kill(os.getpid(), 9)",
        f"os.chmod({str(secret)!r}, 0o777)",
        f"os.chown({str(secret)!r}, 1, 1)",
        f"os.unlink({str(secret)!r})",
        f"os.utime({str(secret)!r})",
        f"os.truncate({str(secret)!r}, 0)",
        "os.setuid(12345) or os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
        f"socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}))",
        "Path('/proc/self/environ').read_text()",
    ]
    stat = secret.stat()
    for text in texts:
        (found,) = pool.map([("evaluates", text)])
        refused = isinstance(found, Raised) and ("PermissionError" in found.error or "Errno 1" in found.error)
        assert refused or found == Returned(32512), (text, found)  # 127 of a shell that did not start.
    assert secret.stat() == stat  # First: to read it changes its time of access.
    assert secret.read_text() == CANARY and [*tmp_path.iterdir()] == [secret]
    assert not Path("/tmp/gnomon-was-here").exists() and not descendants() - before
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_s25_an_answer_of_a_hardened_worker_runs_nothing_where_it_is_opened(pool, tmp_path):
    planted = tmp_path / "planted"
    (found,) = pool.map([("plants", str(planted))])
    assert isinstance(found, Raised) and "posix.mkdir" in found.error and not planted.exists()
    # The same answer does run where it is not: this is what hardening is for.
    with Pool(hostile.call, workers=1) as open_pool:
        open_pool.map([("plants", str(planted))])
    assert planted.exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1.0", [1.0], None, True])
def test_s26_impossible_verdicts_are_no_verdicts(pool, value):
    (found,) = pool.map([("forges", value)])
    assert isinstance(found, Raised), found
    if value is not True:
        (found,) = pool.map([("scores", value)])
        assert isinstance(found, Raised) and "Error" in found.error


def test_s26_a_verdict_outside_the_declared_range_is_none():
    for value in (1e308, -0.5):
        found = judged(Verdict(status=Status.CORRECT, parts=(Part(name="correct", value=value),)))
        assert found.status is Status.FAILED and "outside its declared range" in found.detail
    assert judged(Verdict(status=Status.CORRECT, parts=(Part(name="correct", value=1.0),))).reward == 1.0


def judged(verdict: object) -> Verdict:
    """What a rollout takes for the verdict of an environment that gives this one."""
    env = Answers(said=verdict)
    (step,) = last_steps(env, [(env.tasks("train")[0], Key(0), ["x"])], workers=1)
    assert step.verdict is not None
    return step.verdict


@dataclass(frozen=True, kw_only=True)
class Answers(CharCount):
    """Gives the same verdict on everything."""

    said: object = None

    def verify(self, task: Task, reply: str) -> Verdict:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said  # type: ignore[return-value]


@pytest.mark.parametrize(("verdict", "words"), [(None, "returned None"), (RuntimeError("no"), "RuntimeError: no")])
def test_s27_a_verifier_that_raises_or_says_nothing_is_never_a_zero(verdict, words):
    found = judged(verdict)
    assert found.status is Status.FAILED and words in found.detail and found.parts == ()


@dataclass(frozen=True, kw_only=True)
class Moody(CharCount):
    def check(self, task: Task, answer: str) -> bool:
        return random.SystemRandom().random() < 0.5


@dataclass(frozen=True, kw_only=True)
class Hurried(CharCount):
    def check(self, task: Task, answer: str) -> bool:
        return time.perf_counter_ns() // 1000 % 2 == 0


@pytest.mark.parametrize("kind", [Moody, Hurried])
def test_s28_a_verifier_of_clock_or_chance_is_found_out(kind):
    report = check_env(kind(), tasks=40)
    assert not report.passed
    assert any("judged" in f.detail or "judges" in f.detail for f in report.findings if not f.passed), str(report)


def test_s29_no_result_is_kept_to_be_poisoned():
    """Neither a pool nor a sandbox remembers an answer: the same job is computed each time it is asked for."""
    source = "import os\ndef solve(): return os.urandom(8).hex()"
    job = Job(source=source, call="solve", inputs=((),))
    with Sandbox(workers=1, limits=LIMITS) as sandbox:
        first, second = sandbox.map([job, job])
    assert isinstance(first, Finished) and isinstance(second, Finished) and first.values != second.values
