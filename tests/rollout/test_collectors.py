"""Who collects what: reference answers spliced in, feedback as a condition, replies of somebody else."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest
import torch

from gnomon.engines.embedded import Embedded
from gnomon.envs import CharCount
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.learners.local import LocalLearner
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.tokenizer import Tokenizer
from gnomon.objectives import objective
from gnomon.rendering import choose, joined
from gnomon.rollout import Actor, pack
from gnomon.rollout.conversation import beginning
from gnomon.rollout.demonstrations import Demonstrated, Shown, demonstrations
from gnomon.rollout.feedback import Asked
from gnomon.rollout.relabel import CLOSE, OPEN, WISH, BehindFeedback, WithSolution, condition
from gnomon.rollout.select import Candidates, Refill, mixed, predictive_entropy
from gnomon.rollout.speakers import Own
from gnomon.training.step import StepLog
from gnomon.types import Group, Message, Sampling, Status, Stop
from learners.sequences import credited

SAMPLING = Sampling(max_tokens=12, stop=(CLOSE,))
ENV = CharCount()
TASKS = [(index, ENV.tasks("train")[index]) for index in range(8)]


@pytest.fixture(scope="module")
def engine() -> Embedded:
    return Embedded(Policy.load(model_folder("tiny")))


def actor(engine: Embedded, group: int = 6, **parts: object) -> Actor:
    return Actor(ENV, engine.policy.tokenizer, engine, group=group, sampling=SAMPLING, **parts)


def collect(engine: Embedded, **parts: object) -> list[Group]:
    return asyncio.run(actor(engine, **parts).collect(TASKS, Key(3).at("test")))


def spliced(engine: Embedded) -> list[Group]:
    return collect(engine, relabel=WithSolution(ENV, engine.policy.tokenizer))


def test_the_reference_answer_stands_behind_what_was_sampled(engine):
    rollouts = [rollout for group in spliced(engine) for rollout in group.rollouts]
    opened = [rollout for rollout in rollouts if OPEN in rollout.text]
    assert 0 < len(opened) < len(rollouts)
    for rollout in opened:
        completion = rollout.turns[0].completion
        answer = ENV.solution(rollout.task) + CLOSE
        assert completion.text.endswith(OPEN + answer) and completion.text.count(OPEN) == 1
        given = [isnan(logp) for logp in completion.logprobs]
        count = len(engine.policy.tokenizer.encode(answer))
        assert given == [False] * (len(given) - count) + [True] * count
        assert engine.policy.tokenizer.decode(completion.token_ids) == completion.text
    for rollout in rollouts:
        if OPEN not in rollout.text:
            assert not any(map(isnan, rollout.turns[0].completion.logprobs))
        assert rollout.verdict.status is Status.UNJUDGED


def test_reasoning_and_answer_are_two_segments(engine):
    groups = spliced(engine)
    batch = pack(groups, sampling=SAMPLING, exact=True)
    at = 0
    for sequence in batch.sequences:
        segment = batch.rollouts.segment[at : at + len(sequence)].tolist()
        assert segment == [int(isnan(logp)) for logp in sequence.behavior_logp.tolist()]
        at += len(sequence)
    assert at == len(batch.rollouts.segment)


def test_given_tokens_are_trained_on_and_compared_with_nobody(engine):
    """The gap is that of the sampled tokens alone, and still zero; a given token has the ratio one."""
    learner = LocalLearner(Policy.load(model_folder("tiny")))
    batch = pack(spliced(engine), sampling=SAMPLING, exact=True)
    row = objective("reinforce")
    stats = learner.forward_backward(replace(batch, advantage=torch.ones(len(batch))), row)
    assert stats["logp_mismatch"].value == 0.0
    assert stats["trained"].value == len(batch) == batch.denominators.tokens
    assert all(p.grad is None or p.grad.isfinite().all() for p in learner.parameters.values())


def test_an_environment_without_reference_answers_is_refused(engine):
    class Silent:
        max_turns = 1

    with pytest.raises(ConfigError, match="E037"):
        WithSolution(Silent(), engine.policy.tokenizer)


def conditioned(engine: Embedded, offline: int) -> Actor:
    base = LocalLearner(Policy.load(model_folder("tiny"))).publish()
    renderer = choose(engine.policy.tokenizer)
    asked = Asked(Own(engine, renderer), base=base, offline=offline)
    return actor(engine, group=4, speakers=asked, relabel=BehindFeedback(beginning(ENV, renderer)))


def test_training_stands_behind_the_feedback_that_came(engine):
    played = conditioned(engine, 0)
    wished = asyncio.run(played.rollouts(TASKS, Key(3).at("test"), 4))
    groups = asyncio.run(played.collect(TASKS, Key(3).at("test")))
    statuses = set()
    for group, before in zip(groups, wished, strict=True):
        for rollout, asked in zip(group.rollouts, before.rollouts, strict=True):
            (turn,), (sampled,) = rollout.turns, asked.turns
            assert sampled.prompt_ids == prompt(WISH, group)
            assert turn.prompt_ids == prompt(rollout.verdict.status, group)
            assert turn.completion.token_ids == sampled.completion.token_ids
            assert all(map(isnan, turn.completion.logprobs))
            statuses.add(rollout.verdict.status)
    assert len(statuses) > 1


def prompt(status: Status, group: Group) -> tuple[int, ...]:
    return opening([condition(status), *group.task.messages])


def opening(messages: list[Message]) -> tuple[int, ...]:
    return joined(choose(Tokenizer(model_folder("tiny"))).start(messages))


def test_the_batch_says_which_rollouts_ended_by_themselves(engine):
    groups = collect(engine)
    cut = [[rollout.stop is Stop.TRUNCATED for rollout in group.rollouts] for group in groups]
    assert 0 < sum(map(sum, cut)) < 48
    assert pack(groups, sampling=SAMPLING, exact=True).rollouts.finished.tolist() == [[not c for c in g] for g in cut]


def test_offline_the_base_is_asked_plainly_and_afterwards_the_policy_for_its_best():
    """The policy moves by a fixed amount; as long as the steps are offline nobody sees that in what is collected."""
    engine = Embedded(Policy.load(model_folder("tiny")))
    asked, key = conditioned(engine, 3), Key(3).at("test")
    plain = asyncio.run(actor(engine, group=4).collect(TASKS, key))
    learner = LocalLearner(Policy.load(model_folder("tiny")))
    with torch.no_grad():
        head = learner.policy.projection.weight
        head.add_(0.3 * torch.sin(torch.arange(head.numel()).reshape_as(head)))

    def texts(step: int) -> list[list[str]]:
        learner.version = 7 * step
        asyncio.run(asked.sync(learner.publish(), step))
        groups = asyncio.run(asked.collect(TASKS, key))
        assert engine.version == 7 * step
        for rollout in (rollout for group in groups for rollout in group.rollouts):
            said = condition(rollout.verdict.status)
            assert rollout.turns[0].prompt_ids == opening([said, *rollout.task.messages])
        return [[rollout.text for rollout in group.rollouts] for group in groups]

    before = [[rollout.text for rollout in group.rollouts] for group in plain]
    assert texts(0) == texts(2) == before
    online = texts(3)
    assert online != before
    assert online == [[r.text for r in group.rollouts] for group in asyncio.run(asked.rollouts(TASKS, key, 4))]


def refilled(engine: Embedded, rounds: int, among: list[int], tasks: list[int]) -> list[Group]:
    refill = Refill(offered=ENV.tasks("train"), rounds=rounds, among=among)
    return asyncio.run(
        actor(engine, group=3, selector=refill).collect(
            [(index, ENV.tasks("train")[index]) for index in tasks], Key(3).at("test")
        )
    )


def test_a_step_is_filled_with_groups_that_are_neither_all_right_nor_all_wrong(engine):
    groups = refilled(engine, 8, [], list(range(8)))
    trained = [group for group in groups if not group.spare]
    assert len(trained) == 8 and all(mixed(group.rollouts) for group in trained)
    assert [group.index for group in groups[:8]] == list(range(8))
    assert len({group.index for group in groups}) == len(groups) > 8
    # What is set aside taught nothing, but for what the last round brought too much of: here nothing.
    assert not any(mixed(group.rollouts) for group in groups if group.spare)
    assert groups == refilled(engine, 8, [], list(range(8)))


def test_the_rollouts_of_a_task_do_not_depend_on_the_company_it_is_refilled_in(engine):
    alone = refilled(engine, 0, [], list(range(8)))
    assert [group.rollouts for group in refilled(engine, 8, [], list(range(8)))[:8]] == [g.rollouts for g in alone]
    assert not any(group.spare for group in alone)


def test_a_step_that_runs_out_of_tasks_or_rounds_trains_on_as_many_groups_as_planned(engine):
    few = refilled(engine, 8, list(range(10)), list(range(8)))
    assert {group.index for group in few} == set(range(10)) and sum(not group.spare for group in few) == 8
    assert any(not mixed(group.rollouts) for group in few if not group.spare)
    once = refilled(engine, 1, [], list(range(8)))
    missing = 8 - sum(mixed(group.rollouts) for group in once[:8])
    assert len(once) == 8 + missing and sum(not group.spare for group in once) == 8
    # Every group that is neither is trained on before any of the others.
    assert all(not group.spare for group in once if mixed(group.rollouts))


def test_spare_groups_are_recorded_without_credit_and_not_trained_on(engine):
    groups = refilled(engine, 8, [], list(range(8)))
    batch = pack(groups, sampling=SAMPLING, exact=True)
    trained = [group for group in groups if not group.spare]
    assert batch.denominators.groups == 8 and batch.denominators.sequences == 24
    assert batch.denominators.tokens == sum(rollout.tokens for group in trained for rollout in group.rollouts)
    alone = pack(trained, sampling=SAMPLING, exact=True)
    assert torch.equal(batch.targets, alone.targets) and torch.equal(batch.rollout, alone.rollout)
    assert torch.equal(batch.behavior_logp, alone.behavior_logp)
    learner = LocalLearner(Policy.load(model_folder("tiny")))
    log = StepLog(0)
    log.rollouts(groups)
    log.credit(credited(learner, batch, objective("rloo")))
    told = {(r.task, r.sample): r.body["advantage"] for r in log.records() if r.kind == "rollout"}
    assert len(told) == 3 * len(groups)
    for group in groups:
        mean = sum(group.rewards) / 3
        for rollout in group.rollouts:
            expected = 0.0 if group.spare else 1.5 * (rollout.reward - mean)
            assert told[group.index, rollout.sample] == pytest.approx(expected, abs=1e-12)
    assert log.metrics()["spare"] == pytest.approx(1 - 8 / len(groups))


def test_of_more_tasks_those_are_trained_on_whose_replies_are_least_sure(engine):
    groups = collect(engine, group=3, selector=Candidates(offered=ENV.tasks("train"), candidates=3))
    assert len({group.index for group in groups}) == len(groups) == 24
    assert [group.index for group in groups[:8]] == [index for index, _ in TASKS]
    unsure = {spare: [predictive_entropy([g]) for g in groups if g.spare == spare] for spare in (False, True)}
    assert len(unsure[False]) == 8 and min(unsure[False]) >= max(unsure[True])
    first = groups[0]
    by_hand = -sum(sum(rollout.turns[0].completion.logprobs) for rollout in first.rollouts) / 3
    assert predictive_entropy([first]) == pytest.approx(by_hand, rel=1e-12)


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def shown(env: Demonstrated, engine: Embedded, group: int) -> Actor:
    own = Own(engine, choose(engine.policy.tokenizer))
    return actor(engine, group=group, speakers=Shown(own, env, engine, engine.policy.tokenizer))


def test_demonstrations_are_judged_and_are_the_only_tasks(engine, tmp_path):
    good = f"<answer>{ENV.solution(ENV.tasks('train')[5])}</answer>"
    env = demonstrations(write(tmp_path / "d.jsonl", {"task": 5, "reply": good}, {"task": 9, "reply": "hm"}), ENV)
    assert [task.id for task in env.tasks("train")] == [ENV.tasks("train")[i].id for i in (5, 9)]
    assert env.tasks("test")[3].id == ENV.tasks("test")[3].id
    groups = asyncio.run(shown(env, engine, 1).collect(list(enumerate(env.tasks("train"))), Key(0)))
    assert [group.rollouts[0].verdict.status for group in groups] == [Status.CORRECT, Status.NO_ANSWER]
    assert all(isnan(logp) for group in groups for logp in group.rollouts[0].turns[0].completion.logprobs)


def test_a_demonstration_stands_last_in_a_group_of_sampled_rollouts(engine, tmp_path):
    lines = [{"task": index, "reply": f"<answer>{ENV.solution(task)}</answer>"} for index, task in TASKS]
    env = demonstrations(write(tmp_path / "d.jsonl", *lines), ENV)
    groups = asyncio.run(shown(env, engine, 3).collect(list(enumerate(env.tasks("train"))), Key(0).at("test")))
    assert [[rollout.sample for rollout in group.rollouts] for group in groups] == [[0, 1, 2]] * len(TASKS)
    assert all(group.rollouts[2].verdict.correct for group in groups)
    batch = pack(groups, sampling=SAMPLING, exact=True)
    assert batch.rollouts.demonstrated.tolist() == [[False, False, True]] * len(TASKS)
    learner = LocalLearner(Policy.load(model_folder("tiny")))
    row = objective("luffy")
    assert learner.forward_backward(credited(learner, batch, row), row)["logp_mismatch"].value == 0.0


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['{"task": 1, "reply": "x"}', "{nonsense"], "line 2"),
        (['{"task": "one", "reply": "x"}'], "TypeError"),
        (['{"task": -1, "reply": "x"}'], "IndexError"),
        (['{"reply": "x"}'], "KeyError: 'task'"),
        ([], "empty"),
    ],
)
def test_a_bad_file_of_demonstrations_is_told_with_its_line(tmp_path, lines, words):
    with pytest.raises(ConfigError, match="E035") as caught:
        demonstrations(write(tmp_path / "d.jsonl", *lines), ENV)
    assert words in str(caught.value)


def test_a_missing_file_of_demonstrations_is_told(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        demonstrations(tmp_path / "none.jsonl", ENV)
