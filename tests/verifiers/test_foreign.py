"""Foreign reward functions judge as in their own library, and what they get wrong is theirs."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from gnomon.errors import GnomonError
from gnomon.integrations.rewards import GymScore, RubricReward, TrlReward, VerifiersTask, VerlScore, from_name
from gnomon.types import Message, Status, Task
from gnomon.verifiers import Verifier
from gnomon.workers import Exceeded, Pool, Returned

FILE = str(Path(__file__).with_name("foreign_functions.py"))
TASK = Task(id="t", messages=(Message(role="user", content="2 + 2?"),), answer="4", info={"level": 1})


def trl(*names, **options):
    return TrlReward(functions=tuple(f"{FILE}:{name}" for name in names), **options)


def parts(verdict):
    return [(part.name, part.value, part.weight) for part in verdict.parts]


def test_trl_functions_are_weighed_and_one_that_is_silent_pays_nothing():
    judge = trl("exact", "polite", "harder", weights=(1.0, 0.5, 2.0), top=2.5)
    assert parts(judge.verify(TASK, "4")) == [("exact", 1.0, 1.0), ("polite", 0.0, 0.5)]
    hard = Task(id="h", messages=TASK.messages, answer="please", info={"level": 2})
    best = judge.verify(hard, "please")
    assert parts(best) == [("exact", 1.0, 1.0), ("polite", 1.0, 0.5), ("harder", 0.5, 2.0)]
    assert (best.status, best.reward, judge.reward_range) == (Status.CORRECT, 2.5, (0.0, 2.5))
    partial = judge.verify(hard, "no, please")
    assert (partial.status, partial.reward) == (Status.WRONG, 1.5)


@pytest.mark.parametrize("conversational", [True, False])
def test_trl_prompts_and_completions_are_messages_or_text(conversational):
    assert trl("sees", conversational=conversational).verify(TASK, "x").correct


@pytest.mark.parametrize("name", ["nan", "infinite", "nothing", "word", "two", "alone"])
def test_what_is_no_score_is_the_functions_failure(name):
    with pytest.raises(GnomonError, match="E132"):
        trl(name).verify(TASK, "4")


def test_a_reward_outside_of_what_was_declared_is_told():
    with pytest.raises(GnomonError, match=r"E133.*the reward 7"):
        trl("huge").verify(TASK, "4")
    assert trl("huge", top=7.0).verify(TASK, "4").correct


@pytest.mark.parametrize("bound", [0.0, 1.0])
def test_a_sum_that_rounding_puts_outside_the_range_is_its_bound(bound):
    hair = 1.2e-7 if bound else -1.2e-7

    def half(completions, **columns):
        return [bound / 2]

    def other(completions, **columns):
        return [bound / 2 + hair]

    verdict = TrlReward(functions=(half, other)).verify(TASK, "4")
    assert abs(verdict.reward - bound) < 1e-12 and verdict.correct == bool(bound)


def test_trl_functions_are_asked_about_a_batch_as_their_trainer_asks():
    hard = Task(id="h", messages=TASK.messages, answer="please", info={"level": 2, "hint": "x"})
    judge = trl("exact", "harder", weights=(1.0, 2.0), top=2.0)
    calls = [(TASK, "4"), (hard, "please"), (TASK, "5")]
    assert judge.together(calls) == [judge.verify(task, reply).parts for task, reply in calls]
    with pytest.raises(GnomonError, match=r"E132.*for 3 completions"):
        trl("two").together(calls)


def test_a_function_that_needs_token_ids_is_refused():
    with pytest.raises(GnomonError, match=r"E134.*completion_ids"):
        trl("by_tokens")


def test_a_right_reply_may_earn_less_than_the_top():
    judge = VerlScore(function=f"{FILE}:plain_score", right=0.25)
    assert judge.verify(TASK, "5").correct and judge.verify(TASK, "5").reward == 0.25
    with pytest.raises(ValueError, match=r"right is 1\.5"):
        VerlScore(function=f"{FILE}:plain_score", right=1.5)


def test_verl_functions_get_the_arguments_that_their_signatures_name():
    assert VerlScore(function=f"{FILE}:short_score").verify(TASK, "4").correct


def test_trl_own_reward_judges_as_it_does_there():
    rewards = pytest.importorskip("trl.rewards")
    judge = TrlReward(functions=("trl.rewards:think_format_reward",))
    replies = ["<think>\nhm\n</think>\n4", "4", "<think>4", "<think><think></think>", ""]
    theirs = rewards.think_format_reward([[{"role": "assistant", "content": reply}] for reply in replies])
    assert [judge.verify(TASK, reply).reward for reply in replies] == theirs
    assert {*theirs} == {0.0, 1.0}


def test_verl_scores_are_floats_or_dicts_whose_other_numbers_weigh_nothing():
    task = Task(id="v", messages=TASK.messages, answer="4", info={"data_source": "sums", "extra_info": {"hints": 3}})
    verdict = VerlScore(function=f"{FILE}:compute_score").verify(task, "4")
    assert verdict.correct and parts(verdict) == [("score", 1.0, 1.0), ("acc", 1.0, 0.0), ("hints", 3.0, 0.0)]
    wrong = VerlScore(function=f"{FILE}:plain_score").verify(TASK, "5")
    assert (wrong.status, wrong.reward) == (Status.WRONG, 0.25)
    with pytest.raises(GnomonError, match='the returned dict has no "score"'):
        VerlScore(function=f"{FILE}:scoreless").verify(TASK, "4")


@pytest.mark.parametrize("name", ["rubric", "make_rubric"])
def test_a_rubrics_functions_get_what_their_signatures_ask_for(name):
    judge = RubricReward(rubric=f"{FILE}:{name}")
    assert parts(judge.verify(TASK, "4")) == [("right", 1.0, 0.75), ("brief", 1.0, 0.25)]
    assert judge.verify(TASK, "5").reward == 0.25
    assert judge.verify(TASK, "4").correct


def test_a_rubric_that_breaks_is_not_a_zero_and_one_for_groups_is_refused():
    with pytest.raises(KeyError, match="reference"):
        RubricReward(rubric=f"{FILE}:broken").verify(TASK, "4")
    with pytest.raises(GnomonError, match=r"E134.*whole group"):
        RubricReward(rubric=f"{FILE}:grouped")


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "verifiers.v1", None)
    monkeypatch.setitem(sys.modules, "reasoning_gym.factory", None)
    with pytest.raises(GnomonError, match="pip install verifiers"):
        VerifiersTask(task=f"{FILE}:right")
    with pytest.raises(GnomonError, match=r"gnomon\[reasoning-gym\]"):
        GymScore(dataset="countdown_of_nothing")


def test_reasoning_gym_scores_the_slot_as_the_package_does():
    gym = pytest.importorskip("reasoning_gym")
    judge = GymScore(dataset="chain_sum")
    tasks = judge.tasks("train")
    data = gym.create_dataset("chain_sum", seed=tasks.seed, size=tasks.size)
    for index in range(5):
        task, entry = tasks[index], data[index]
        assert task.answer == entry["answer"] and task.messages[0].content.startswith(entry["question"])
        assert judge.verify(task, judge.solution(task)).correct
        for text in ("", "0", f"it is {task.answer}", f"{task.answer}.0"):
            assert judge.verify(task, f"<answer>{text}</answer>").reward == data.score_answer(text, entry)
    assert judge.verify(tasks[0], "no slot").reward == data.score_answer(None, data[0]) == 0.0
    assert len({task.id for task in tasks}) > 490
    # A short sum comes up twice by chance now and then; seeds side by side would share 499.
    assert len({task.id for task in tasks} & {task.id for task in judge.tasks("test")}) < 20


def test_a_foreign_verifier_is_a_verifier_that_pickles_and_runs_in_a_pool():
    for judge in (trl("exact"), VerlScore(function=f"{FILE}:plain_score"), RubricReward(rubric=f"{FILE}:rubric")):
        assert isinstance(judge, Verifier) and pickle.loads(pickle.dumps(judge)) == judge
        with Pool(judge.verify, workers=1, seconds=0.5) as pool:
            assert pool.map([(TASK, "4"), (TASK, "5")]) == [Returned(judge.verify(TASK, r)) for r in "45"]


def test_a_slow_import_is_not_charged_to_the_first_reply(tmp_path):
    lines = "import time\nend = time.process_time() + 1.0\nwhile time.process_time() < end: pass\n"
    slow = tmp_path / "slow.py"
    slow.write_text(lines + "def score(data_source, solution_str, ground_truth, extra_info): return 1.0\n")
    judge = VerlScore(function=f"{slow}:score")
    with Pool(judge.verify, workers=1, seconds=0.3) as pool:
        (outcome,) = pool.map([(TASK, "4")])
    assert outcome != Exceeded("cpu") and outcome.value.correct


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "does not name a function"),
        ("no_such_package.rewards:exact", "E131.*cannot be imported"),
        (f"{FILE}:exat", "has no exat.*it has"),
        ("missing.py:exact", "the file missing.py does not exist"),
    ],
)
def test_a_name_that_leads_nowhere_is_told_at_once(name, said):
    with pytest.raises(GnomonError, match=f"(?s){said}"):
        VerlScore(function=name)


def test_targets_have_prefixes():
    assert from_name(f"trl:{FILE}:exact,{FILE}:polite") == trl("exact", "polite")
    assert from_name(f"trl:{FILE}:exact,polite,harder") == trl("exact", "polite", "harder")
    assert from_name(f"trl:{FILE}:exact, polite", weights=(1.0, 0.5)) == trl("exact", "polite", weights=(1.0, 0.5))
    assert from_name(f"verl:{FILE}:plain_score") == VerlScore(function=f"{FILE}:plain_score")
    assert from_name(f"rubric:{FILE}:rubric") == RubricReward(rubric=f"{FILE}:rubric")
    assert from_name(f"trl:{FILE}:exact", gold="answer", top=2.0) == trl("exact", gold="answer", top=2.0)
    with pytest.raises(TypeError, match="colour"):
        from_name(f"trl:{FILE}:exact", colour="red")
    assert from_name("countdown") is from_name("trl:") is None
    assert from_name("my_pkg.env:Mine") is None
