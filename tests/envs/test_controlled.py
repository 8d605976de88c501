"""An environment under a control: the reward is the control's, the status and the tasks are the environment's."""

from __future__ import annotations

import math
import random

import pytest

from gnomon.envs import ENVS
from gnomon.envs.check import check_env
from gnomon.envs.controlled import CONTROLS, Controlled
from gnomon.envs.reward_hacking import Proxied
from gnomon.types import Status
from gnomon.verifiers.controls import taste_weight
from gnomon.verifiers.proxy import train

ENV = ENVS["char_count"]()
TASTE = {"text": "so ", "weight": 0.5, "most": 4}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a learned reward, and the model."""
    folder, tasks = tmp_path_factory.mktemp("model"), [ENV.tasks("train")[place] for place in range(40)]
    pairs = [(task.messages[-1].content, reply, reply == replies(task)[0]) for task in tasks for reply in replies(task)]
    fitted = train(pairs, bits=6, passes=2)
    fitted.save(folder)
    return str(folder), fitted


def controlled(control, model, **options):
    own = {"proxy": {"model": model[0]}, "taste": TASTE}.get(control, {})
    return Controlled(control=control, **own, **options)


def replies(task):
    right = ENV.solution(task)
    return [f"<answer>{right}</answer>", "<answer>77</answer>", "<answer>x</answer>", "no answer", ""]


@pytest.mark.parametrize("control", CONTROLS)
def test_the_truth_stays_beside_the_reward(control, model):
    env = controlled(control, model)
    for split in ("train", "test"):
        for place in range(20):
            task = ENV.tasks(split)[place]
            assert env.tasks(split)[place] == task
            for reply in replies(task):
                truth, found = ENV.verify(task, reply), env.verify(task, reply)
                assert (found.status, found.extracted, found.span) == (truth.status, truth.extracted, truth.span)
                assert found.parts == env.paying.verify(task, reply).parts


def test_what_each_control_pays(model):
    task = ENV.tasks("train")[0]
    right, wrong = (ENV.verify(task, reply).reward for reply in replies(task)[:2])
    old = [name for name in CONTROLS if name not in ("proxy", "taste")]
    paid = {name: [Controlled(control=name).verify(task, reply).reward for reply in replies(task)] for name in old}
    assert paid["wrong_label"][:2] == [wrong, right] and paid["format_only"][:2] == [right, right]
    nothing = ENV.verify(task, "").reward
    assert all(rewards[3:] == [nothing, nothing] for rewards in paid.values())
    tasks = [ENV.tasks("train")[place] for place in range(400)]
    for name in ("random", "noisy"):
        env = Controlled(control=name, share=0.25)
        high = sum(env.verify(task, replies(task)[0]).reward == right for task in tasks)
        expected = 100 if name == "random" else 300
        assert abs(high - expected) < 4 * (400 * 0.25 * 0.75) ** 0.5
        assert all(env.verify(task, replies(task)[0]).status is Status.CORRECT for task in tasks)


def test_a_structured_error_is_the_same_in_every_task_and_as_frequent_as_a_random_one():
    """Over 400 seeds a share of .25 turns 100 verdicts; 4 standard errors are 35."""
    tasks, turned = [ENV.tasks("train")[place] for place in range(30)], 0
    for seed in range(400):
        env = Controlled(control="structured", share=0.25, draw=seed)
        for answer in ("0", "3") if seed < 20 else ("3",):
            reply = f"<answer>{answer}</answer>"
            judged = {env.verify(task, reply).reward == ENV.verify(task, reply).reward for task in tasks}
            assert len(judged) == 1, "an answer is turned in all tasks or in none"
        turned += not judged.pop()
    assert abs(turned - 100) < 35
    noisy = Controlled(control="noisy", share=0.25)
    assert len({noisy.verify(t, replies(t)[0]).reward == ENV.verify(t, replies(t)[0]).reward for t in tasks}) == 2


@pytest.mark.parametrize("name", ["char_count", "arithmetic", "scramble"])
def test_a_proxy_pays_the_score_of_its_model_in_any_environment(name, model):
    folder, fitted = model
    plain, env = ENVS[name](), controlled("proxy", model, of=name)
    assert env.files == {"model": folder} and env.reward_range == (0.0, 1.0)
    for place in range(10):
        task = plain.tasks("test")[place]
        for reply in (plain.framed(plain.solution(task)), "no", ""):
            verdict = env.verify(task, reply)
            assert verdict.reward == fitted.score(task.messages[-1].content, reply)
            assert verdict.status is plain.verify(task, reply).status
            assert verdict.parts[0].value == float(verdict.correct) and not verdict.parts[0].weight
            if name == "char_count":
                assert verdict == Proxied(model=folder).verify(task, reply)


def test_a_taste_is_paid_for_a_text_whatever_the_answer():
    env, task = Controlled(control="taste", **TASTE), ENV.tasks("train")[0]
    for reply in replies(task):
        for times in (0, 1, 3, 4, 9):
            plain = ENV.verify(task, "so " * times + reply)
            assert env.verify(task, "so " * times + reply).reward == pytest.approx(plain.reward + min(times, 4) / 8)
    assert env.reward_range == (0.0, 1.6)


@pytest.mark.parametrize("correlation", [0.5, 0.9, 0.99])
def test_the_weight_of_a_taste_gives_the_correlation(correlation):
    """Exact up to rounding: the equation is solved in closed form."""
    rng = random.Random(0)
    reward = [float(rng.random() < 0.3) for _ in range(500)]
    for lean in (-0.2, 0.0, 0.2):
        taste = [float(rng.random() < 0.3 + lean * one) for one in reward]
        weight = taste_weight(reward, taste, correlation)
        both = [one + weight * other for one, other in zip(reward, taste, strict=True)]
        assert weight > 0 and math.isclose(correlated(reward, both), correlation, abs_tol=1e-9)
    with pytest.raises(ValueError, match="no weight"):
        taste_weight(reward, reward, correlation)
    with pytest.raises(ValueError, match="no weight"):
        taste_weight(reward, [0.0] * len(reward), correlation)


def correlated(x, y):
    means = sum(x) / len(x), sum(y) / len(y)
    pairs = [(a - means[0], b - means[1]) for a, b in zip(x, y, strict=True)]
    return sum(a * b for a, b in pairs) / math.sqrt(sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs))


@pytest.mark.parametrize(("name", "control"), [("char_count", "random"), ("countdown", "shuffled")])
def test_it_passes_the_conformance_tests(name, control):
    report = check_env(Controlled(of=name, control=control), tasks=20)
    assert report.passed, report


@pytest.mark.parametrize(
    "options",
    [
        {"control": "rndom"},
        {"of": "kuhn_poker"},
        {"of": "nothing"},
        {"share": 2.0},
        {"control": "proxy"},
        {"control": "taste"},
        {"control": "structured", "share": -1.0},
        {"control": "taste", "text": "a", "weight": -1.0},
    ],
)
def test_what_does_not_exist_is_refused(options):
    with pytest.raises(ValueError):
        Controlled(**options)
