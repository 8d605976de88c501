"""The nouns: frozen, picklable, and a verdict that cannot contradict itself."""

import math
import pickle
from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

import gnomon.types as types
from gnomon.types import (
    Calls,
    Completion,
    Finish,
    Group,
    Message,
    Origin,
    Part,
    Request,
    Rollout,
    Sampling,
    Segment,
    Status,
    Stop,
    Task,
    Tool,
    ToolCall,
    Turn,
    Verdict,
)

TASK = Task(id="00ff", messages=(Message(role="user", content="2+2?"),), answer=4, info={"text": "2+2"})
COMPLETION = Completion(token_ids=(5, 6, 1), logprobs=(-0.5, -1.0, 0.0), text="4.", finish=Finish.EOS, version=3)


def verdict(*parts: Part, status: Status = Status.CORRECT) -> Verdict:
    return Verdict(status=status, parts=parts)


def rollout(sample: int, value: float) -> Rollout:
    turns = tuple(Turn(prompt_ids=ids, completion=COMPLETION) for ids in ((1, 2), (1, 2, *COMPLETION.token_ids, 3)))
    return Rollout(task=TASK, sample=sample, turns=turns, verdict=verdict(Part(name="a", value=value)), stop=Stop.DONE)


NOUNS = [
    TASK, TASK.messages[0], COMPLETION, Sampling(max_tokens=4), rollout(0, 1.0), rollout(0, 1.0).turns[0],
    Part(name="a", value=1.0), verdict(), Group(task=TASK, index=2, rollouts=(rollout(0, 1.0),)),
    Request(prompt_ids=(1,), key=b"k" * 16, sampling=Sampling(max_tokens=1)),
    Segment(origin=Origin.TASK, token_ids=(1, 2)), Tool(name="add", description="Adds."),
    Calls(refused={"limit_calls": 2}, retried=1), ToolCall(name="add", arguments='{"a": 1}', id="call_1"),
]  # fmt: skip


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: type(noun).__name__)
def test_nouns_are_frozen_slotted_keyword_only_and_travel(noun: object) -> None:
    assert is_dataclass(noun) and not hasattr(noun, "__dict__")
    assert all(field.kw_only for field in fields(noun))
    name = fields(noun)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(noun, name, None)
    assert pickle.loads(pickle.dumps(noun)) == noun


def test_every_noun_is_tried_above() -> None:
    public = [getattr(types, name) for name in types.__all__]
    assert {kind for kind in public if is_dataclass(kind)} == {type(noun) for noun in NOUNS}


def test_a_reward_is_the_weighted_sum_of_its_parts() -> None:
    assert verdict().reward == 0.0
    assert verdict(Part(name="a", value=0.5, weight=2.0), Part(name="b", value=1.0, weight=-0.25)).reward == 0.75


@pytest.mark.parametrize(("value", "reward"), [(1.0, 1.1), (0.0, 0.0), (-1.0, -1.0)])
def test_a_part_counts_when_its_gate_is_positive(value: float, reward: float) -> None:
    parts = (Part(name="correct", value=value), Part(name="format", value=1.0, weight=0.1, gate="correct"))
    assert verdict(*parts).reward == pytest.approx(reward)
    assert verdict(*reversed(parts)).reward == pytest.approx(reward), "the order of the parts does not matter"


def test_a_gate_looks_at_the_value_not_at_the_weight() -> None:
    assert verdict(Part(name="seen", value=1.0, weight=0.0), Part(name="b", value=1.0, gate="seen")).reward == 1.0


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ((Part(name="a", value=1.0), Part(name="a", value=0.0)), "named twice"),
        ((Part(name="a", value=math.nan),), "not finite"),
        ((Part(name="a", value=math.inf),), "not finite"),
        ((Part(name="a", value=1.0, weight=math.nan),), "not finite"),
        ((Part(name="a", value=0.0, weight=math.inf),), "not finite"),
        ((Part(name="a", value=1e200, weight=1e200),), "not finite"),
        ((Part(name="a", value=1.0, gate="b"),), "gated on 'b'"),
    ],
)
def test_an_impossible_verdict_cannot_be_made(parts: tuple[Part, ...], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        verdict(*parts)


@pytest.mark.parametrize("status", Status)
def test_only_one_status_is_correct(status: Status) -> None:
    assert verdict(status=status).correct == (status is Status.CORRECT)


def test_a_rollout_and_its_group_add_up() -> None:
    group = Group(task=TASK, index=0, rollouts=(rollout(0, 1.0), rollout(1, 0.0)))
    assert group.rewards == (1.0, 0.0)
    assert group.rollouts[0].tokens == 6
    assert group.rollouts[0].text == "4.4."
