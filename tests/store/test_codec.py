"""A rollout that was recorded and read back is the same rollout, of whatever kind; older records can be read."""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from dataclasses import fields, is_dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import RunError
from gnomon.store import Record, canonical, decode, encode, logprobs_of
from gnomon.store.codec import known_of
from gnomon.store.layout import pack, unpack
from gnomon.types import (
    Calls,
    Completion,
    Finish,
    Group,
    Message,
    Origin,
    Part,
    Rollout,
    Segment,
    Status,
    Stop,
    Task,
    ToolCall,
    Turn,
    Verdict,
)

TEXT = st.text(max_size=12)
IDS = st.lists(st.integers(0, 2**20), max_size=5).map(tuple)
NUMBER = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e6, max_value=1e6)
LOGP = st.one_of(
    st.just(math.nan),
    st.just(-math.inf),
    st.just(-0.0),
    st.floats(max_value=0, allow_nan=False, width=32),
    st.floats(max_value=0, allow_nan=False),
)
ENTROPY = st.one_of(st.just(math.nan), st.floats(0, 16, width=16))
CALLS = st.lists(st.builds(ToolCall, name=TEXT, arguments=TEXT, id=TEXT), max_size=2).map(tuple)
THOUGHT = st.none() | TEXT.filter(bool)
CALLING = st.builds(Message, role=TEXT, content=TEXT, calls=CALLS, call_id=TEXT, reasoning=THOUGHT)
MESSAGES = st.lists(st.builds(Message, role=TEXT, content=TEXT) | CALLING, max_size=3).map(tuple)
SEGMENTS = st.lists(st.builds(Segment, origin=st.sampled_from(Origin), token_ids=IDS), max_size=3).map(tuple)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ANSWER = PLAIN | st.tuples(st.integers(), TEXT) | st.fractions() | st.binary(max_size=3)
TASK = st.builds(
    Task, id=TEXT, messages=MESSAGES, answer=ANSWER, info=st.just({}) | st.just({"canary": True, "seed": 3})
)


@st.composite
def completions(draw) -> Completion:
    ids = draw(IDS)
    logprobs = draw(st.lists(LOGP, min_size=len(ids), max_size=len(ids)).map(tuple))
    places = sorted(draw(st.sets(st.integers(1, max(1, len(ids) - 1)), max_size=min(2, max(0, len(ids) - 1)))))
    return Completion(
        token_ids=ids,
        logprobs=logprobs,
        text=draw(TEXT),
        finish=draw(st.sampled_from(Finish)),
        version=draw(st.integers(0, 9)),
        changes=tuple((place, 10 + draw(st.integers(0, 9))) for place in places),
        entropies=known_of(draw(st.lists(ENTROPY, min_size=len(ids), max_size=len(ids)))),
    )


@st.composite
def turns(draw) -> tuple[Turn, ...]:
    """Turns that go on from each other or begin another sequence; of some, nobody noted who wrote the prompt."""
    found: list[Turn] = []
    for _ in range(draw(st.integers(0, 4))):
        fork = found[-1].fork + draw(st.integers(0, 1)) if found else 0
        on = found and found[-1].fork == fork
        seen = found[-1].prompt_ids + found[-1].completion.token_ids if on else ()
        segments = draw(SEGMENTS)
        prompt = seen + tuple(token for segment in segments for token in segment.token_ids)
        noted = segments if draw(st.booleans()) else ()
        found.append(
            Turn(prompt_ids=prompt, completion=draw(completions()), messages=draw(MESSAGES), segments=noted, fork=fork)
        )
    return tuple(found)


@st.composite
def verdicts(draw) -> Verdict:
    names = draw(st.lists(TEXT, unique=True, max_size=3))
    parts = tuple(
        Part(name=name, value=draw(NUMBER), weight=draw(NUMBER), gate=draw(st.none() | st.sampled_from(names)))
        for name in names
    )
    span = draw(st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)))
    status, extracted = draw(st.sampled_from(Status)), draw(st.none() | TEXT)
    return Verdict(status=status, parts=parts, extracted=extracted, span=span, detail=draw(TEXT))


@st.composite
def groups(draw) -> Group:
    """Rollouts of one task: some share its prompt as single turns do, and some do not."""
    task = draw(TASK)
    segments, completion = draw(SEGMENTS), completions()
    prompt = tuple(token for segment in segments for token in segment.token_ids)
    plain = completion.map(
        lambda done: (Turn(prompt_ids=prompt, completion=done, messages=task.messages, segments=segments),)
    )
    player = draw(st.integers(0, 2))
    rollouts = tuple(
        Rollout(
            task=task,
            sample=sample,
            turns=draw(plain | turns()),
            verdict=draw(verdicts()),
            stop=draw(st.sampled_from(Stop)),
            player=player,
        )
        for sample in range(draw(st.integers(0, 3)))
    )
    return Group(task=task, index=draw(st.integers(0, 99)), rollouts=rollouts, spare=draw(st.booleans()))


def bits(value: object) -> object:
    """A value in which two floats are equal if all their bits are; every NaN counts as the same."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [(field.name, bits(getattr(value, field.name))) for field in fields(value)]
    if isinstance(value, tuple):
        return [bits(each) for each in value]
    return value


def stored(records: list[Record]) -> list[Record]:
    """The records as a run folder gives them back."""
    return [unpack(pack(seq, b"", record))[0] for seq, record in enumerate(records)]


@settings(max_examples=300, deadline=None)
@given(st.lists(groups(), max_size=3), st.sampled_from(["rollout", "held_out"]))
@pytest.mark.long
def test_what_is_read_back_is_what_was_recorded(written, kind):
    records = stored([record for group in written for record in encode(group, kind=kind, step=4)])
    known = {group.index: group.task for group in written}
    if len(known) == len(written):
        split = "train" if kind == "rollout" else "test"
        found = list(decode(records, lambda of, index: known[index] if of == split else pytest.fail(of)))
        assert bits(tuple(found)) == bits(tuple(written))
    for group, read in zip(written, decode(records), strict=True):
        assert bits(tuple(r.turns for r in read.rollouts)) == bits(tuple(r.turns for r in group.rollouts))
        assert (read.task.id, read.task.messages) == (group.task.id, group.task.messages)
        assert [canonical(record.body) for record in encode(read, kind=kind, step=4)] == [
            canonical(record.body) for record in encode(group, kind=kind, step=4)
        ]


def example(logprobs: tuple[float, ...] = (-0.5,), **parts: object) -> Group:
    task = Task(id="7", messages=(Message(role="user", content="1+1?"),), answer=2)
    given = (Segment(origin=Origin.TEMPLATE, token_ids=(1,)), Segment(origin=Origin.TASK, token_ids=(5, 6)))
    completion = Completion(
        token_ids=tuple(range(len(logprobs))), logprobs=logprobs, text="2", finish=Finish.EOS, version=3
    )
    turn = Turn(prompt_ids=(1, 5, 6), completion=completion, messages=task.messages, segments=given)
    verdict = Verdict(status=Status.CORRECT, parts=(Part(name="correct", value=1.0),))
    rollout = Rollout(task=task, sample=0, turns=(turn,), verdict=verdict, stop=Stop.DONE)
    return Group(task=task, index=2, rollouts=(rollout,), **parts)


def test_float32_log_probabilities_take_four_bytes_and_others_eight():
    for logprobs, size in (((-0.5, math.nan), 4), ((-0.5, -0.1), 8), ((-1e300,), 8), ((-math.inf,), 4)):
        _, record = encode(example(logprobs), kind="rollout", step=0)
        assert len(record.body["logprobs"]) == len(b64encode(b"x" * size * len(logprobs)))
        assert bits(tuple(logprobs_of(record.body))) == bits(logprobs)


def test_entropies_take_two_bytes_and_are_rounded_to_float16():
    entropies = (0.0, 1e-3, 0.123456, 12.476, math.nan)
    group = example((-0.5,) * 5)
    (rollout,) = group.rollouts
    completion = replace(rollout.turns[0].completion, entropies=entropies)
    rollout = replace(rollout, turns=(replace(rollout.turns[0], completion=completion),))
    task, record = encode(replace(group, rollouts=(rollout,)), kind="rollout", step=0)
    assert len(record.body["entropy"]) == len(b64encode(b"x" * 2 * 5))
    (read,) = decode([task, record])
    found = read.rollouts[0].turns[0].completion.entropies
    assert found[:4] == pytest.approx(entropies[:4], rel=2**-11) and math.isnan(found[4])
    assert "entropy" not in list(encode(group, kind="rollout", step=0))[1].body


def test_a_single_turn_of_the_task_is_stored_flat():
    task, record = encode(example(), kind="rollout", step=0)
    assert "turns" not in record.body and task.body["prompt_ids"] == [1, 5, 6]


def test_calls_beside_the_turns_are_stored_where_there_are_any():
    group = example()
    _, plain = encode(group, kind="rollout", step=0)
    calls = Calls(refused={"limit_calls": 2}, undelivered=7)
    counted = replace(group, rollouts=(replace(group.rollouts[0], calls=calls),))
    asked, record = encode(counted, kind="rollout", step=0)
    assert "calls" not in plain.body and record.body["calls"] == {"refused": {"limit_calls": 2}, "undelivered": 7}
    (read,) = decode([asked, record])
    assert read.rollouts[0].calls == calls


@pytest.mark.parametrize("missing", ["token_ids", "status", "stop", "parts", "version"])
def test_a_damaged_rollout_is_an_error_with_its_place(missing):
    task, record = encode(example(), kind="rollout", step=0)
    body = {key: value for key, value in record.body.items() if key != missing}
    with pytest.raises(RunError, match="rollout of step 0, task 2, sample 0") as caught:
        list(decode([task, Record(kind="rollout", step=0, task=2, sample=0, body=body)]))
    assert caught.value.code == "E405"


def test_another_task_than_was_recorded_is_an_error():
    records, other = list(encode(example(), kind="rollout", step=0)), Task(id="8", messages=(), answer=None)
    with pytest.raises(RunError) as caught:
        list(decode(records, lambda split, index: other))
    assert caught.value.code == "E142"
