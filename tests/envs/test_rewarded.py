"""Tasks as rows and a reward as a function: what is accepted, and what is said of the rest."""

from __future__ import annotations

import functools
import os
import pickle
import time

import numpy as np
import pytest

from gnomon.envs import Env
from gnomon.errors import ConfigError, VerifierError
from gnomon.integrations.rewarded import make_env
from gnomon.keys import Key
from gnomon.run import trial
from gnomon.run.reward_weights import weigh
from gnomon.types import Message, Task
from gnomon.verifiers import LLMJudge, NoScore, Number, Verifier
from gnomon.verifiers.endpoint import Endpoint
from gnomon.workers import Carried, pack_value

ROWS = [{"prompt": f"{n}+1?", "answer": str(n + 1), "level": n % 3} for n in range(40)]


def plain(completion, answer):
    return completion == answer


def by_column(text, level):
    return text == str(level)


def with_task(reply, task: Task):
    return reply == task.answer


def positional(given, wanted, /):
    return given == wanted


def two_names(x, y):
    return x == y


def trl(completions, answer, **columns):
    return [float(text == gold) for text, gold in zip(completions, answer, strict=True)]


def trl_columns(prompts, completions, level):
    return [float(text == str(value)) for text, value in zip(completions, level, strict=True)]


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return float(solution_str == ground_truth) if extra_info["level"] in (0, 1, 2) else -1.0


async def waits(completion, answer):
    return completion == answer


@pytest.mark.parametrize(
    "reward", [plain, with_task, positional, two_names, trl, compute_score, waits, lambda c, a: c == a]
)
def test_a_function_is_given_what_its_parameters_name(reward):
    env = make_env(ROWS, reward)
    assert isinstance(env, Env) and isinstance(env, Verifier)
    task = env.tasks("train")[0]
    assert env.verify(task, task.answer).correct and env.verify(task, task.answer).reward == 1.0
    assert not env.verify(task, "no").correct and env.verify(task, "no").reward == 0.0
    assert env.start(task, Key(0)).step(task.answer).verdict.correct
    assert Carried.of(env).load().verify(task, task.answer).correct


def logged(function):
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


class Judge:
    """Rewards as methods and as objects."""

    def __call__(self, *, completion, answer):
        return completion == answer

    def method(self, completion, answer, *rest):
        return completion == answer

    async def later(self, completion, **columns):
        return completion == columns["answer"] and columns["level"] < 3


@pytest.mark.parametrize(
    "reward",
    [
        lambda **known: known["completion"] == known["answer"],
        lambda completion, **known: completion == known["ground_truth"],
        functools.wraps(plain)(logged(plain)),
        functools.wraps(trl)(logged(trl)),
        functools.partial(lambda completion, answer, weight: weight * (completion == answer), weight=1.0),
        functools.partial(lambda weight, **known: weight * (known["reply"] == known["answer"]), 1.0),
        Judge(),
        Judge().method,
        Judge().later,
    ],
    ids=["**", "text, **", "wraps", "wraps TRL", "partial", "partial **", "object", "method", "coroutine"],
)
def test_a_reward_of_any_kind_gets_its_arguments(reward):
    env = make_env(ROWS, reward)
    task = env.tasks("train")[0]
    assert env.verify(task, task.answer).correct and not env.verify(task, "no").correct


def test_what_a_partial_has_set_stays_set():
    env = make_env(ROWS, functools.partial(plain, answer="always"))
    assert env.verify(env.train[0], "always").correct and not env.verify(env.train[0], env.train[0].answer).correct


@pytest.mark.parametrize("reward", [lambda *given: 1.0, logged(plain), logged(trl), Judge, Number()])
def test_a_reward_whose_arguments_are_unknown_is_refused(reward):
    with pytest.raises(ConfigError, match=r"E163(.|\n)*fix: reward="):
        make_env(ROWS, reward)


def test_a_verifier_becomes_a_reward_by_the_line_that_refuses_it():
    """Both what the verifier is and what its method returns is refused with words that can be pasted."""
    verifier = Number()
    with pytest.raises(ConfigError, match="E163") as caught:
        make_env(ROWS, verifier)
    reward = eval(caught.value.fix.removeprefix("reward="), {"VERIFIER": verifier})
    env = make_env(ROWS, reward)
    gold = env.train[0].answer
    assert env.verify(env.train[0], f"<answer>{gold}</answer>").correct
    assert not env.verify(env.train[0], f"<answer>{gold}0</answer>").correct
    verdicts = make_env(ROWS, lambda reply, task: verifier.verify(task, reply))
    with pytest.raises(NoScore, match=r"\.reward is the number of a verdict"):
        verdicts.verify(env.train[0], "4")


def test_a_judge_that_cannot_be_asked_is_told_by_its_own_error():
    judge = LLMJudge(ask=Endpoint(base_url="http://127.0.0.1:1/v1", model="m", tries=1))
    env = make_env(ROWS, lambda reply, task: judge.verify(task, reply).reward)
    with pytest.raises(VerifierError, match="did not answer") as caught:
        trial.trial(env)
    error = caught.value
    assert (error.code, error.where) == ("E115", "http://127.0.0.1:1/v1, model m")
    assert error.fix.startswith("check that the server runs") and "judging the reply" in error.why


@pytest.mark.parametrize(
    ("value", "reward", "status"),
    [(np.float32(1) + np.finfo(np.float32).eps, 1.0, "correct"), (1 + 2e-16, 1.0, "correct"), (-1e-17, 0.0, "wrong")],
)
def test_a_reward_that_rounding_puts_outside_the_range_is_its_bound(value, reward, status):
    env = make_env(ROWS, lambda completion: value)
    verdict = env.verify(env.train[0], "x")
    assert verdict.reward == reward and verdict.status == status
    with pytest.raises(NoScore, match=r"returned 1.0001, outside reward_range \(0, 1\); pass reward_range=\(0, 1.01\)"):
        env = make_env(ROWS, lambda completion: 1.0001)
        env.verify(env.train[0], "x")


def test_the_range_to_pass_holds_every_reward_that_was_tried():
    """Before a run, right and wrong replies are judged: one earns 5, the other -1."""
    with pytest.raises(VerifierError, match="E105") as caught:
        weigh(make_env(ROWS, lambda completion, answer: 5.0 if completion == answer else -1.0))
    assert caught.value.fix.startswith("reward_range=(-1, 5)") and "from -1 to 5" in caught.value.why


@pytest.mark.parametrize("reward", [by_column, trl_columns])
def test_a_parameter_may_name_a_column(reward):
    env = make_env(ROWS, reward)
    task = env.tasks("train")[0]
    assert env.verify(task, str(task.info["level"])).correct and not env.verify(task, "9").correct


def test_messages_are_given_to_a_batch_function_as_messages():
    rows = [{"messages": [{"role": "user", "content": f"{n}?"}], "answer": str(n)} for n in range(9)]
    seen = []

    def reward(prompts, completions, answer):
        seen.append((prompts[0], completions[0]))
        return [1.0]

    env = make_env(rows, reward)
    env.verify(env.train[0], "reply")
    assert seen[0][0][0]["role"] == "user" and seen[0][1] == [{"role": "assistant", "content": "reply"}]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "did a branch end without"),
        ("yes", "must return True, False or a finite number"),
        (float("nan"), "must return"),
        (float("inf"), "must return"),
        ([1.0], "must return"),
        (5.0, r"reward_range=\(0, 5\)"),
        (-1.0, r"reward_range=\(-1, 1\)"),
    ],
)
def test_what_is_no_score_is_no_verdict(value, words):
    env = make_env(ROWS, lambda completion: value)
    with pytest.raises(NoScore, match=words):
        env.verify(env.train[0], "x")


@pytest.mark.parametrize("value", [True, 1, 1.0, pytest.param(None, id="numpy")])
def test_a_truth_value_or_a_number_is_a_score(value):
    env = make_env(ROWS, lambda completion: np.float32(1) if value is None else value)
    assert env.verify(env.train[0], "x").correct


@pytest.mark.parametrize("value", [[1.0, 2.0], 1.0, None, []])
def test_a_batch_function_returns_a_list_of_one(value):
    env = make_env(ROWS, lambda completions, **columns: value)
    with pytest.raises(NoScore, match="a list of one score"):
        env.verify(env.train[0], "x")


def test_the_held_out_questions_are_an_eighth_and_apart():
    env = make_env(ROWS + ROWS, plain)
    asked = [{task.messages[0].content for task in env.tasks(split)} for split in ("train", "test")]
    assert len(asked[1]) == 5 and len(asked[0]) == 35 and not asked[0] & asked[1]
    assert make_env(list(reversed(ROWS)), plain).spec != env.spec
    assert len(make_env(ROWS[:2], plain).tasks("test")) == 1
    both = make_env({"train": ROWS[:5], "test": ROWS[5:9]}, plain)
    assert [len(both.tasks(split)) for split in ("train", "test")] == [5, 4]


def test_tasks_and_files_are_taken_too(tmp_path):
    tasks = [Task(id=str(n), messages=(Message(role="user", content=str(n)),), answer=str(n)) for n in range(9)]
    assert make_env(tasks, plain).train[0] in tasks
    (tmp_path / "q.jsonl").write_text("".join(f'{{"question": "{n}?", "solution": "{n}"}}\n' for n in range(9)))
    env = make_env(tmp_path / "q.jsonl", lambda completion, solution: completion == solution)
    assert env.verify(env.train[0], env.train[0].answer).correct


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([], "there are no tasks"),
        (5, "must be rows"),
        ([3, 4], "must be a row"),
        ([{"q": "x"}, {"q": "y"}], "no prompt"),
        ([{"prompt": "x"}, {"prompt": "y"}], "no answer, and plain needs one"),
        ([{"prompt": "x", "answer": "1"}, {"prompt": "y"}], "train, row 1"),
        ([{"prompt": "", "answer": "1"}, {"prompt": "y", "answer": "1"}], "a prompt must be text"),
        ([{"prompt": [], "answer": "1"}, {"prompt": "y", "answer": "1"}], "a prompt must be text or messages"),
        ([{"prompt": "x", "answer": "1"}], "only one question"),
    ],
)
def test_rows_that_are_none_are_refused_with_their_place(tasks, words):
    with pytest.raises(ConfigError, match=words) as caught:
        make_env(tasks, plain)
    assert caught.value.code == "E162"


def test_a_parameter_that_names_nothing_is_refused_before_any_reply():
    with pytest.raises(ConfigError, match=r"E163.*'gold_answer'"):
        make_env(ROWS, lambda completion, gold_answer: 1.0)
    with pytest.raises(ConfigError, match=r"E163.*'scores'"):
        make_env(ROWS, lambda completions, scores: [1.0])
    with pytest.raises(ConfigError, match="must be a function"):
        make_env(ROWS, "f")  # type: ignore[arg-type]


def test_what_a_module_defines_is_named_and_the_rest_is_written_out():
    assert pack_value(plain) == pickle.dumps(plain)
    number = 3
    assert pickle.loads(pack_value(lambda: number))() == 3


def test_rewards_ranges_and_splits_that_cannot_be_used_are_refused():
    rows = [{"prompt": f"{i} + 1?", "answer": str(i + 1)} for i in range(9)]
    for reward in (3, max):
        with pytest.raises(ConfigError, match="E163"):
            make_env(rows, reward)
    for wrong in ((1.0, 0.0), (0.0, float("nan")), (1.0,), "ab", 1.0, (0.0, float("inf"))):
        with pytest.raises(ConfigError, match=r"E163(.|\n)*reward_range"):
            make_env(rows, lambda completion, answer: True, wrong)
    with pytest.raises(ConfigError, match=r"E151(.|\n)*train row 8 = test row 0"):
        make_env({"train": rows, "test": rows[8:]}, lambda completion, answer: True)


def by_number(completion, answer):
    return completion.isdigit() and float(completion) == float(answer)


def by_level(completion, level):
    return completion == str(10 // (35 - level))


def slow(completion, answer):
    time.sleep(0.06)
    with open(os.environ["CALLS"], "a") as file:
        file.write("call\n")
    return completion == str(float(answer))


def test_a_reward_is_called_with_the_answer_of_every_row_before_a_run(monkeypatch):
    monkeypatch.setattr(trial, "BUDGET", 60.0)  # A busy machine does not decide what is found.
    rows = [{**row, "level": place} for place, row in enumerate(ROWS)]
    rows[33]["answer"] = rows[37]["answer"] = "٣³"
    with pytest.raises(VerifierError) as caught:
        weigh(make_env(rows, by_number))
    error = caught.value
    assert error.code == "E107" and "2 rows have no verdict" in error.why and "'٣³'" in error.why
    assert {name for name in ("row 33", "row 37", "row 34") if name in error.why} == {"row 33", "row 37"}
    assert "by_number" in error.where and error.fix.startswith("correct or remove row 3")
    with pytest.raises(VerifierError, match=r"ZeroDivisionError.*\n.*\n.* to row 35, whose"):
        weigh(make_env(rows, by_level))
    split = {"train": rows[:30], "test": rows[30:]}
    with pytest.raises(VerifierError, match="test row 3"):
        weigh(make_env(split, by_number))


def test_a_slow_reward_judges_the_few_rows_that_fit(tmp_path, monkeypatch):
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    weigh(make_env([{"prompt": f"{n}?", "answer": str(n)} for n in range(10_000)], slow))
    assert len((tmp_path / "calls").read_text().splitlines()) < 120  # 2 s of 0.06 s, twice, and the first four tasks.
