"""Rewards by majority and by the policy's own judgement: what is paid, what stays beside it, and what is refused."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

from gnomon import train
from gnomon.api import configure
from gnomon.engines.scripted import Scripted
from gnomon.envs import CharCount
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.monitoring.alarms import Monitor
from gnomon.rejudge.replay import replay
from gnomon.rendering import choose
from gnomon.rollout import Actor, pack
from gnomon.rollout.conversation import beginning
from gnomon.rollout.reward import QUESTION, ByMajority, ByPolicy, majority
from gnomon.run.parts import build
from gnomon.store.codec import decode, encode
from gnomon.training.step import rollout_stats
from gnomon.types import Group, Sampling, Status, Verdict
from rollout.scripts import by_sample

ENV, SAMPLING = CharCount(), Sampling(max_tokens=24, stop=("</answer>",))
TASKS = [(place, ENV.tasks("train")[place]) for place in range(4)]
TOKENIZER = Tokenizer(model_folder("tiny"))
KEY = Key(5).at("step")
RIGHT = int(TASKS[0][1].answer)
A, B, C = (f"<answer>{(RIGHT + by) % 4}</answer>" for by in range(3))


def collected(script, reward=None, tasks=TASKS[:1], group: int = 4, judge=lambda prompt: "no") -> list[Group]:
    """Groups of a scripted policy. Args: script: replies by task, sample and turn; judge: what it says of replies."""
    written = by_sample(script, key=KEY)

    def reply(prompt: str, asked: bytes) -> str:
        return judge(prompt) if QUESTION in prompt else written(prompt, asked)

    engine = Scripted(TOKENIZER, reply)
    renderer = choose(TOKENIZER, turns=1)
    if reward is ByPolicy:
        reward = ByPolicy(
            engine=engine,
            begin=beginning(ENV, renderer),
            renderer=renderer,
            sampling=SAMPLING,
            judgements=3,
            context=4096,
        )
    actor = Actor(ENV, TOKENIZER, engine, group=group, sampling=SAMPLING, renderer=renderer, reward=reward)
    try:
        return asyncio.run(actor.collect(tasks, KEY))
    finally:
        actor.workers.close()


def of(replies: list[str], reward=None) -> Group:
    (found,) = collected(lambda task, sample, turn: replies[sample], reward, group=len(replies))
    return found


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([A, A, B, C], [1, 1, 0, 0]),
        ([B, A, B, C], [1, 0, 1, 0]),  # The most frequent answer is wrong.
        ([B, A, A, B], [1, 0, 0, 1]),  # Of two that are equally frequent, the first.
        ([A, B, B, A], [1, 0, 0, 1]),
        ([C, B, A], [1, 0, 0]),
        (["?", "?", A, "?"], [0, 0, 1, 0]),  # A reply without an answer does not vote.
        (["<answer>x</answer>", "<answer>x</answer>", B], [0, 0, 1]),  # Nor one that is not a number.
        (["?", "?", "?"], [0, 0, 0]),
        ([A, A, A], [1, 1, 1]),
    ],
)
def test_the_most_frequent_answer_is_paid_and_the_truth_stays(replies: list[str], expected: list[int]) -> None:
    plain, group = of(replies), of(replies, ByMajority())
    assert list(group.rewards) == expected
    for before, after in zip(plain.rollouts, group.rollouts, strict=True):
        assert (after.turns, after.stop, after.verdict.status) == (before.turns, before.stop, before.verdict.status)
        assert [(p.name, p.value) for p in after.verdict.parts[:-1]] == [
            (p.name, p.value) for p in before.verdict.parts
        ]
    stats = rollout_stats([group])
    assert stats["correct"].value == replies.count(A) / len(replies), "pass@1 follows the truth"
    assert stats["reward"].value == pytest.approx(sum(expected) / len(replies))
    assert pack([group], sampling=SAMPLING, exact=True).rollouts.rewards.tolist() == [[float(x) for x in expected]]
    records = list(encode(group, kind="rollout", step=0))
    assert [each.rewards for each in decode(records)] == [group.rewards]


@pytest.mark.parametrize("share", [Fraction(1, 3), Fraction(3, 5)])
def test_the_chance_to_be_paid_is_that_of_the_vote(share: Fraction) -> None:
    """Over all groups of three that a policy with P(a) = share writes: exact, by enumeration."""
    paid = {"a": Fraction(0), "b": Fraction(0)}
    for answers in itertools.product("ab", repeat=3):
        chance = share ** answers.count("a") * (1 - share) ** answers.count("b")
        paid[answers[0]] += chance * (majority(answers) == answers[0])
    assert paid["a"] == share * (1 - (1 - share) ** 2)  # Paid unless both others write b.
    assert paid["b"] == (1 - share) * (1 - share**2)
    # With two answers and an even group, the first of a tie is paid: the winner of a fair coin, by exchange.
    ties = [answers for answers in itertools.product("ab", repeat=2) if len(set(answers)) == 2]
    assert sorted(majority(answers) for answers in ties) == ["a", "b"]


def test_a_greedy_rollout_does_not_vote_and_a_failed_group_is_left_alone() -> None:
    group = of([A, B, B])
    greedy = replace(group, greedy=group.rollouts[0])
    (found,) = asyncio.run(ByMajority().groups([greedy], KEY))
    assert found.greedy is not None and found.greedy.reward == 0 and found.rewards == (0, 1, 1)
    failed = replace(group.rollouts[0], verdict=Verdict(status=Status.FAILED, parts=()))
    broken = replace(group, rollouts=(failed, *group.rollouts[1:]))
    assert asyncio.run(ByMajority().groups([broken], KEY)) == [broken]


def test_the_policy_is_asked_about_each_of_its_replies() -> None:
    """The policy calls 2 right and nothing else; every judgement sees the task, one reply and the question."""
    seen: list[str] = []

    def judge(prompt: str) -> str:
        seen.append(prompt)
        return " Yes." if "<answer>2</answer>" in prompt else "yesterday" if "<answer>1" in prompt else "no, yes"

    replies = [f"<answer>{number}</answer>" for number in (2, 1, 3, 2)]
    groups = collected(lambda task, sample, turn: replies[sample], ByPolicy, TASKS[:2], judge=judge)
    assert [group.rewards for group in groups] == [(1.0, 0.0, 0.0, 1.0)] * 2
    assert len(seen) == 2 * 4 * 3
    for _, task in TASKS[:2]:
        own = [prompt for prompt in seen if task.messages[-1].content in prompt]
        assert len(own) == 12 and all(own.count(prompt) == 3 * replies.count(reply_in(prompt)) for prompt in own)
    truths = [rollout.verdict.correct for group in groups for rollout in group.rollouts]
    assert truths == [reply == ENV.framed(ENV.solution(task)) for _, task in TASKS[:2] for reply in replies]


def reply_in(prompt: str) -> str:
    start = prompt.rindex("<answer>", 0, prompt.rindex("</answer>"))
    return prompt[start : prompt.rindex("</answer>") + len("</answer>")]


def test_a_conversation_without_room_is_not_called_right() -> None:
    group = of([A, B, C])
    renderer = choose(TOKENIZER, turns=1)
    engine, begin = Scripted(TOKENIZER, lambda prompt, key: "yes"), beginning(ENV, renderer)
    own = ByPolicy(engine=engine, begin=begin, renderer=renderer, sampling=SAMPLING, judgements=1, context=4096)
    room = len(own.prompt(group.rollouts[0])) + 8
    for context, expected in ((room, 1.0), (room - 1, 0.0)):
        (found,) = asyncio.run(replace(own, context=context).groups([group], KEY))
        assert found.rewards == (expected,) * 3


def test_the_alarm_compares_the_paid_reward_with_the_truth() -> None:
    """The group agrees more and more on a wrong answer: paid rewards rise while correctness falls."""
    monitor, found = Monitor(), []
    for step in range(12):
        groups = collected(partial(drifted, step), ByMajority(), TASKS)
        records = [record for group in groups for record in encode(group, kind="rollout", step=step)]
        found += [alarm.name for alarm in monitor.step(step, records)]
    assert "correct.falls" in found


def drifted(step: int, task: int, sample: int, turn: int) -> str:
    """Half of the replies are right at first, and the same wrong answer is in all of them later."""
    wrong_by = (0, 0, 1, 2)[sample] if step < 6 else 1
    return ENV.framed(str((int(TASKS[task][1].answer) + wrong_by) % 4))


@pytest.mark.parametrize("by", ["majority", "policy"])
@pytest.mark.parametrize("env", ["char_count", "guess_number"])
def test_a_run_is_the_same_when_it_is_repeated(tmp_path, by: str, env: str) -> None:
    own = {"prompts": 3, "group": 3, "max_tokens": 12, "judged_by": by, "judgements": 2 if by == "policy" else 1}
    shared = {"steps": 2, "threads": 1, "quiet": True, "eval": {"tasks": 2}}
    runs = [tmp_path / name for name in ("a", "b")]
    heads = []
    for run in runs:
        with train(env, run=str(run), rollout=own, **shared) as reader:
            heads.append(reader.fingerprint)
            rollouts = [rollout for group in reader.groups() for rollout in group.rollouts]
            held_out = [record.body["parts"] for record in reader.records("held_out")]
    assert heads[0] == heads[1]
    name = {"majority": "majority", "policy": "judgement"}[by]
    assert {rollout.verdict.parts[-1].name for rollout in rollouts} == {name}
    assert all(part["name"] != name for parts in held_out for part in parts), "evaluations are judged by the verifier"
    if env == "char_count":
        assert not replay(runs[0], trust=True).flips, "the verdicts are as they were"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"rollout": {"judged_by": "majority", "group": 2}}, "E117"),
        ({"rollout": {"judged_by": "majority", "refill": 1}}, "E117"),
        ({"rollout": {"judged_by": "policy"}, "objective": "fcp"}, "E117"),
        ({"rollout": {"judged_by": "majority", "group": 1, "demonstrations": "x"}, "objective": "sft"}, "E117"),
        ({"rollout": {"judgements": 4}}, "E118"),
        ({"rollout": {"judged_by": "majority", "judgements": 4}}, "E118"),
    ],
)
def test_what_nobody_could_learn_from_is_refused(settings: dict, code: str) -> None:
    with pytest.raises(ConfigErrors, match=code):
        configure("char_count", settings)


def test_a_game_has_no_right_answer() -> None:
    config, _ = configure("nim", {"rollout": {"judged_by": "majority"}, "threads": 1})
    with pytest.raises(ConfigError, match="E117"):
        build(config)
