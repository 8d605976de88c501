"""The dispatch of calls to processes, with a clock that the tests set."""

from __future__ import annotations

import pytest

from gnomon.config.sections import Launch
from gnomon.errors import ResourceError
from gnomon_ray.dispatch import CHECKS, QUESTIONS, Call, Dispatch, Life


class Scripted:
    """Processes that do what a test says. Args: room: whether there is any."""

    def __init__(self, room: bool = True, **launch: float) -> None:
        self.time, self.room = 0.0, room
        self.looked, self.begun, self.asked, self.ended = 0, list[Life](), list[Life](), list[Life]()
        self.sent: list[tuple[Life, int, Call]] = []
        self.dispatch = Dispatch(self, Launch(type="ray", **launch), lambda: self.time)

    def placed(self, number: int) -> bool:
        self.looked += 1
        return self.room

    def start(self, life: Life) -> None:
        self.begun.append(life)

    def send(self, life: Life, number: int, call: Call) -> None:
        self.sent.append((life, number, call))

    def ask(self, life: Life) -> None:
        self.asked.append(life)

    def load(self, life: Life, loaded: object) -> None:
        raise AssertionError("no weights change in these tests")

    def end(self, life: Life) -> None:
        self.ended.append(life)

    def no_room(self) -> Exception:
        return ResourceError("E511", "no room")

    def until(self, time: float) -> None:
        """Let time pass, as the watch of a run does."""
        while (due := self.dispatch.due) <= time:
            self.time = max(self.time, due)
            self.dispatch.tick()
        self.time = time

    def ready(self, time: float = 1.0) -> None:
        """All processes have started at this time."""
        self.until(time)
        for life in self.begun:
            self.dispatch.on_start(life)

    def call(self) -> Call:
        call = Call("play", ())
        self.dispatch.waiting.append(call)
        self.dispatch.serve()
        return call


def test_calls_go_to_the_least_busy_and_others_wait_in_order():
    processes = Scripted(samplers=2, episodes=2)
    processes.ready()
    calls = [processes.call() for _ in range(6)]
    assert [life.slot for life, _, _ in processes.sent] == [0, 1, 0, 1]
    life, number, call = processes.sent[1]
    processes.dispatch.on_answer(life, number, "answer")
    processes.dispatch.serve()
    assert call.answer.result() == "answer" and processes.sent[4][0] is life and processes.sent[4][2] is calls[4]
    assert list(processes.dispatch.waiting) == [calls[5]]


def test_calls_of_a_dead_process_are_sent_first_and_its_late_answers_are_ignored():
    processes = Scripted(samplers=2, episodes=1)
    processes.ready()
    calls = [processes.call() for _ in range(3)]
    life, number, _ = processes.sent[0]
    processes.dispatch.on_loss(life, "killed")
    processes.dispatch.on_loss(life, "killed")
    processes.dispatch.on_answer(life, number, "late")
    assert list(processes.dispatch.waiting) == [calls[0], calls[2]] and not calls[0].answer.done()
    assert [loss.episodes for loss in processes.dispatch.losses] == [1]


def test_a_call_that_always_dies_is_an_error():
    processes = Scripted(samplers=3, restarts=1)
    processes.ready()
    call = processes.call()
    for _ in range(2):
        processes.dispatch.on_loss(processes.sent[-1][0], "killed")
        processes.dispatch.serve()
    with pytest.raises(ResourceError, match="E512"):
        call.answer.result(0)


def test_a_process_that_does_not_answer_is_replaced_and_one_that_does_is_not():
    processes = Scripted(samplers=2, seconds=20.0)
    processes.ready()
    silent, other = processes.begun
    while processes.time < 60.0 and not processes.ended:
        processes.until(processes.time + 0.1)
        for life in processes.asked:
            if life is other:
                processes.dispatch.alive(life)
        processes.asked.clear()
    assert processes.ended == [silent]
    assert 1.0 + 20.0 < processes.time < 1.0 + 20.0 + 2.0 + 0.2
    processes.until(processes.time + 1.0)
    assert [life.slot for life in processes.begun] == [0, 1, 0]


def test_time_in_which_this_process_was_stopped_is_forgiven():
    processes = Scripted(samplers=1, seconds=20.0)
    processes.ready()
    processes.until(5.0)
    processes.time = 500.0
    processes.dispatch.forgive(495.0)
    processes.until(515.0)
    assert not processes.ended


def test_ten_thousand_quiet_processes_are_not_all_looked_at():
    """Over a minute: a question for each after a tenth of `launch.seconds`, and a bounded number of looks at places."""
    processes = Scripted(samplers=10_000, seconds=300.0)
    processes.ready(11.0)
    assert len(processes.begun) == processes.looked == 10_000
    processes.until(11.0 + 29.0)
    assert not processes.asked
    processes.until(11.0 + 31.0)
    assert len(processes.asked) == 10_000
    few = Scripted(samplers=200, seconds=300.0)
    few.ready()
    for second in range(2, 12):
        few.until(float(second))
        for life in few.asked[-QUESTIONS * 2 :]:
            few.dispatch.alive(life)
    assert len(few.asked) <= QUESTIONS * 11
    full = Scripted(room=False, samplers=10_000, seconds=300.0)
    full.until(60.0)
    assert 10_000 < full.looked <= 60 * CHECKS + 10_000


def test_no_room_for_too_long_is_an_error():
    processes = Scripted(room=False, samplers=3, seconds=5.0)
    processes.until(4.0)
    with pytest.raises(ResourceError, match="E511"):
        processes.until(6.0)
