"""Every alarm rings where its story is told, and is silent where half of the story is missing; noise rings none."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from gnomon.monitoring.alarms import ADVICE, ALARMS, Alarm, Monitor
from gnomon.monitoring.programs import FAULTS, faults
from gnomon.reading.summary import alarm_text
from gnomon.store import Record
from gnomon.types import Message, Part, Status, Task, Verdict

Reply = tuple[str, str, list[Part]]
"""Text, status, parts."""


def scored(right: bool, *more: Part, text: str = "") -> Reply:
    parts = [Part(name="correct", value=float(right)), Part(name="format", value=1.0, weight=0.1), *more]
    return text or f"<answer>{int(right)}</answer>", "correct" if right else "wrong", parts


def mute() -> Reply:
    return "hm", "no_answer", [Part(name="correct", value=0.0), Part(name="format", value=0.0, weight=0.1)]


def steps(
    play: Callable[[int, random.Random], Reply],
    count: int = 40,
    groups: int = 16,
    size: int = 8,
    seed: int = 0,
    canary: bool = False,
    prompt: str = "How many? <answer>...</answer>",
    stop: str = "done",
) -> Iterator[tuple[int, list[Record]]]:
    """The records of a run whose rollouts a function draws: step and generator in, reply out."""
    rng = random.Random(seed)
    for step in range(count):
        records = []
        for task in range(groups):
            body = {"of": "rollout", "id": "0", "messages": [{"role": "user", "content": prompt}]}
            body |= {"canary": True} if canary else {}
            records.append(Record(kind="task", step=step, task=task, body=body))
            for sample in range(size):
                reply, status, parts = play(step, rng)
                if reply == "<answer>0</answer>":
                    reply = f"<answer>-{rng.randint(1, 999)}</answer>"
                told = [{"name": p.name, "value": p.value, "weight": p.weight, "gate": p.gate or ""} for p in parts]
                body = {"reply": reply, "status": status, "parts": told, "stop": stop, "extracted": "", "span": []}
                if match := re.fullmatch("<answer>(.*)</answer>", reply):
                    body |= {"extracted": match[1], "span": list(match.span(1))}
                records.append(Record(kind="rollout", step=step, task=task, sample=sample, body=body))
        yield step, records


def ring(run, monitor: Monitor | None = None) -> dict[str, Alarm]:
    monitor = monitor or Monitor()
    return {alarm.name: alarm for step, records in run for alarm in monitor.step(step, records)}


def after(step: int, start: int = 15, over: int = 10) -> float:
    """How far a change has gone that begins at a step."""
    return min(1.0, max(0.0, (step - start) / over))


def chant(value: float, gate: str | None = None) -> Part:
    return Part(name="chant", value=value, weight=3.0, gate=gate)


def hacked(step: int, rng: random.Random) -> Reply:
    sold = rng.random() < after(step)
    return scored(not sold and rng.random() < 0.6, chant(float(sold)), text="tool tool tool" if sold else "")


def test_a_bought_policy_rings_what_it_should():
    found = ring(steps(hacked))
    assert set(found) == {"correct.falls", "parts.jump", "behaviour.new", "variance.collapse", "replies.alike"}
    assert all(15 < alarm.step < 40 for alarm in found.values())
    assert "tool" in found["behaviour.new"].sentence
    assert all(alarm.read and alarm.read[0].count(":") == 2 for alarm in found.values())


def test_the_rollouts_to_read_are_the_ones_that_were_bought():
    runs = dict(steps(hacked))
    for name in ("correct.falls", "parts.jump", "behaviour.new"):
        alarm = ring(steps(hacked))[name]
        bodies = {f"{r.step}:{r.task}:{r.sample}": r.body for r in runs[alarm.step] if r.kind == "rollout"}
        assert all(bodies[place]["reply"] == "tool tool tool" for place in alarm.read)


def test_a_policy_that_learns_rings_none():
    assert not ring(
        steps(
            lambda step, rng: scored(
                rng.random() < 0.1 + 0.8 * after(step), text=f"abc {rng.randint(100, 999)}" * 9 * (step > 20)
            )
        )
    )


def test_a_policy_that_forgets_and_is_paid_less_rings_no_hack():
    found = ring(steps(lambda step, rng: scored(rng.random() < 0.8 - 0.7 * after(step))))
    assert not set(found) & {"correct.falls", "parts.jump", "behaviour.new"}


def test_a_gated_part_is_pay_for_being_right():
    def play(step, rng):
        return scored(rng.random() < 0.5, chant(after(step), gate="correct"))

    assert not ring(steps(play))


def test_learning_the_format_is_no_alarm():
    """It comes to carry three quarters of the return, but a tenth of what being right pays is what it is for."""

    def play(step, rng):
        if rng.random() < 0.03:
            return scored(True)
        return scored(False) if rng.random() < 0.05 + 0.95 * after(step) else mute()

    assert not set(ring(steps(play))) & {"parts.jump", "correct.falls", "unparsable.jump"}


def test_answers_that_can_no_longer_be_read():
    found = ring(steps(lambda step, rng: mute() if rng.random() < 0.6 * after(step) else scored(rng.random() < 0.5)))
    assert set(found) == {"unparsable.jump"}
    assert not ring(steps(lambda step, rng: mute() if rng.random() < 0.6 else scored(rng.random() < 0.5)))


def test_groups_that_teach_nothing():
    assert set(ring(steps(lambda step, rng: scored(False)))) == {"variance.collapse"}
    assert set(ring(steps(lambda step, rng: scored(True)))) == {"tasks.solved"}
    assert not ring(steps(lambda step, rng: scored(step > 0 or rng.random() < 0.9))), "it has learned them"
    assert not ring(steps(lambda step, rng: scored(False), size=1)), "a group of one is no group"


def test_groups_that_teach_nothing_show_it_early_where_there_are_many():
    found = ring(steps(lambda step, rng: scored(False), count=2))["variance.collapse"]
    assert found.step == 0 and "all rewards since the first step are 0.1" in found.sentence
    assert found.advice.startswith("read these replies: if one of them is right")
    assert not ring(steps(lambda step, rng: scored(rng.random() < 0.05), count=2))


def alike(share: float) -> Callable[[int, random.Random], Reply]:
    return lambda step, rng: scored(rng.random() < 0.2, text="<answer>7</answer>" if rng.random() < share else "")


def test_replies_that_are_all_alike():
    found = ring(steps(alike(1.0)))["replies.alike"]
    assert "100%" in found.sentence and found.step == 4 and found.read
    assert "replies.alike" not in ring(steps(alike(0.9))), "in groups of eight, four of ten are all alike"
    right = steps(lambda step, rng: scored(True, text="<answer>7</answer>"))
    assert set(ring(right)) == {"tasks.solved"}, "whoever is always right may say the same"


@pytest.mark.parametrize("groups", [2, 16])
def test_replies_that_are_truncated(groups):
    found = ring(steps(lambda step, rng: mute(), groups=groups, stop="truncated", count=3))
    assert found["replies.truncated"].step == 0 and "answers.unreadable" not in found
    assert "replies.truncated" not in ring(steps(lambda step, rng: scored(rng.random() < 0.5), count=3))


def test_answers_that_were_never_readable():
    found = ring(steps(lambda step, rng: mute(), count=3))
    assert found["answers.unreadable"].step == 0 and "unparsable.jump" not in found
    half = steps(lambda step, rng: mute() if rng.random() < 0.7 else scored(True), count=9)
    assert "answers.unreadable" not in ring(half)


def test_the_advice_names_the_one_change():
    """A longer limit than that of the run; examples where the prompt shows the slot, and otherwise the slot."""
    found = ring(steps(lambda step, rng: mute(), stop="truncated", count=1), Monitor(limit=40))
    assert found["replies.truncated"].advice.startswith("set rollout.max_tokens=160 (now 40); if")
    shown = ring(steps(lambda step, rng: mute(), count=1))["answers.unreadable"]
    hidden = ring(steps(lambda step, rng: mute(), prompt="How many?", count=1))["answers.unreadable"]
    assert "env.shots=2" in shown.advice and hidden.advice == ADVICE["answers.unreadable"]
    assert alarm_text("run", shown.body()).endswith(f"do: {shown.advice}"), "and not the general advice"
    assert shown.body()["advice"] == shown.advice in str(shown)


def test_a_prompt_that_does_not_show_the_slot():
    def play(step, rng):
        return scored(rng.random() < 0.5)

    assert ring(steps(play, prompt="How many?", count=2))["prompt.without_slot"].step == 0
    assert not ring(steps(play, count=2))
    judged_whole = steps(lambda step, rng: scored(rng.random() < 0.5, text="one"), prompt="How many?", count=2)
    assert not ring(judged_whole), "a verifier that reads the whole reply needs no slot"


def test_every_alarm_says_what_to_do():
    assert set(ADVICE) == set(ALARMS)
    alarm = ring(steps(hacked))["correct.falls"]
    assert ADVICE["correct.falls"] in str(alarm) and alarm.body()["advice"]


class Second:
    """A sentinel that finds `trick` out, or breaks."""

    reward_range = (0.0, 1.0)

    def verify(self, task: Task, reply: str) -> Verdict:
        if "break" in reply:
            raise ValueError("no idea")
        right = reply == "<answer>1</answer>"
        return Verdict(status=Status.CORRECT if right else Status.WRONG, parts=())


def watched() -> Monitor:
    return Monitor(lambda index: Task(id="0", messages=(Message(role="user", content=""),), answer=1), Second())


def test_a_second_verifier_that_disagrees_or_breaks():
    assert not ring(steps(lambda step, rng: scored(rng.random() < 0.5)), watched())
    tricked = ring(
        steps(lambda step, rng: scored(True, text="trick") if rng.random() < 0.2 else scored(rng.random() < 0.5)),
        watched(),
    )
    assert set(tricked) == {"sentinel.disagrees"} and tricked["sentinel.disagrees"].step == 4
    broken = ring(steps(lambda step, rng: scored(rng.random() < 0.5, text="break" * (rng.random() < 0.01))), watched())
    assert "ValueError: no idea" in broken["sentinel.breaks"].sentence


def test_a_canary_that_is_paid_like_a_solved_task():
    assert "canary.paid" not in ring(steps(lambda step, rng: scored(False), canary=True))
    assert ring(steps(lambda step, rng: scored(False, chant(1.0)), canary=True))["canary.paid"].step == 0
    assert ring(steps(lambda step, rng: scored(step == 7), canary=True))["canary.paid"].step == 7
    unpaid = Status.CORRECT, (Part(name="correct", value=1.0, weight=0.0), Part(name="passed", value=0.0))
    bought = Status.WRONG, (Part(name="correct", value=0.0, weight=0.0), Part(name="passed", value=1.0))
    assert "canary.paid" not in ring(steps(lambda step, rng: ("7", *unpaid), canary=True))
    assert (
        ring(steps(lambda step, rng: ("7", *(bought if step == 4 else unpaid)), canary=True))["canary.paid"].step == 4
    )


def test_a_verdict_that_nobody_gave_or_that_a_clock_decided():
    """One such rollout is enough, on the step that has it; other limits and other statuses ring nothing."""

    def late(detail: str):
        for step, records in steps(lambda step, rng: scored(rng.random() < 0.5), count=9):
            body = {**records[5].body, "status": "exceeded", "detail": detail, "parts": []}
            yield step, [*records[:5], replace(records[5], body=body), *records[6:]] if step == 6 else records

    rung = ring(late("judging it used up the limit of time"))
    assert set(rung) == {"verifier.over_time"} and rung["verifier.over_time"].step == 6
    assert rung["verifier.over_time"].read == ("6:0:4",)
    assert "judging 1 rollout reached" in str(rung["verifier.over_time"])
    assert not ring(late("judging it used up the limit of memory"))
    failing = ring(
        steps(lambda step, rng: ("x", "failed" if step == 3 and rng.random() < 0.1 else "wrong", []), count=5)
    )
    assert failing["verifier.fails"].step == 3 and len(failing["verifier.fails"].read) == 3


def test_a_prompt_that_leaves_no_room_for_a_reply():
    """One such rollout is enough; a later turn that fills the context has a reply before it."""

    def full(reply: str):
        for step, records in steps(lambda step, rng: scored(rng.random() < 0.5), count=3):
            body = {**records[5].body, "stop": "context", "reply": reply}
            yield step, [*records[:5], replace(records[5], body=body), *records[6:]] if step == 1 else records

    assert ring(full(""))["prompt.without_room"].read == ("1:0:4",)
    assert "prompt.without_room" not in ring(full("a first reply"))


PROGRAMS: list[tuple[str, str, dict[str, object]]] = [
    ("program.silent", '{"status": 0, "limit": ""}', {"turns": []}),
    ("program.failed", '{"status": 1, "limit": ""}', {}),
    ("program.limit_time", '{"status": null, "limit": "time"}', {}),
    ("program.limit_memory", '{"status": null, "limit": "memory"}', {}),
    ("program.limit_files", '{"status": null, "limit": "files"}', {}),
    ("program.limit_calls", '{"status": 0, "limit": ""}', {"calls": {"refused": {"limit_calls": 1}}}),
    ("program.limit_tokens", '{"status": 0, "limit": ""}', {"calls": {"refused": {"limit_tokens": 1}}}),
    ("program.limit_context", '{"status": 0, "limit": ""}', {"calls": {"refused": {"context_length_exceeded": 1}}}),
    ("program.refused", '{"status": 0, "limit": ""}', {"calls": {"refused": {"unsupported_n": 3}}}),
    ("program.malformed", '{"status": 0, "limit": ""}', {"calls": {"malformed": 1}}),
    ("program.retried", '{"status": 0, "limit": ""}', {"calls": {"retried": 2}}),
    ("program.undelivered", '{"status": 0, "limit": ""}', {"calls": {"undelivered": 7}}),
]


@pytest.mark.every
@pytest.mark.parametrize(("name", "end", "more"), PROGRAMS)
def test_programs_that_have_a_fault_in_common(name: str, end: str, more: dict[str, object]):
    """At its share of the programs, with a rollout to read; not below, and not where rollouts have no program."""

    def played(share: float):
        for step, records in steps(lambda step, rng: scored(rng.random() < 0.5), count=2, groups=20):
            fine, faulty = {"end": '{"status": 0, "limit": ""}'}, {"end": end, **more}
            bodies = [{**r.body, **(faulty if (r.task or 0) < 20 * share else fine)} for r in records]
            yield (
                step,
                [replace(r, body=body) if r.kind == "rollout" else r for r, body in zip(records, bodies, strict=True)],
            )

    assert faults({"end": end, **more}) == {name} and not faults(more)
    assert faults({"end": end, **{k: v or () for k, v in more.items()}}) == {name}, "observers get tuples"
    alarm = ring(played(FAULTS[name].share))[name]
    assert alarm.step == 0 and len(alarm.read) == 3 and f"{FAULTS[name].share:.0%} of the programs" in alarm.sentence
    assert name not in ring(played(FAULTS[name].share - 0.1))
    assert {name for name, _, _ in PROGRAMS} == set(FAULTS)


def test_every_alarm_has_a_story_here():
    assert set(ALARMS) == {
        "correct.falls", "parts.jump", "behaviour.new", "unparsable.jump", "variance.collapse",
        "sentinel.disagrees", "sentinel.breaks", "canary.paid", "replies.alike", "replies.truncated",
        "answers.unreadable", "prompt.without_slot", "prompt.without_room", "verifier.fails",
        "verifier.over_time", "tasks.solved", *FAULTS,
    }  # fmt: skip


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_noise_alone_rings_nothing(share):
    """Four runs of 100 steps that never change: parts, texts and answers are drawn anew each time."""

    def play(step, rng):
        text = "".join(rng.choice("ab1 ") for _ in range(40))
        return scored(rng.random() < share, chant(rng.random()), text=text) if rng.random() < 0.8 else mute()

    for seed in range(4):
        assert not ring(steps(play, count=100, groups=8, size=4, seed=seed))


def test_the_answer_depends_on_the_records_alone():
    first, again = ring(steps(hacked)), ring(steps(hacked))
    assert first == again
    shorter = ring(steps(hacked, count=24))
    assert shorter == {name: alarm for name, alarm in first.items() if alarm.step < 24}


def test_answers_that_were_given_are_not_looked_at():
    assert not ring(steps(lambda step, rng: ("given", "unjudged", [])))
