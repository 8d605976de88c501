"""An environment under a control: the reward is the control's, the status and the tasks are the environment's."""

from __future__ import annotations

import pytest

from gnomon.envs import ENVS
from gnomon.envs.check import check_env
from gnomon.envs.controlled import CONTROLS, Controlled
from gnomon.types import Status

ENV = ENVS["char_count"]()


def replies(task):
    right = ENV.solution(task)
    return [f"<answer>{right}</answer>", "<answer>77</answer>", "<answer>x</answer>", "no answer", ""]


@pytest.mark.parametrize("control", CONTROLS)
def test_the_truth_stays_beside_the_reward(control):
    env = Controlled(control=control)
    for split in ("train", "test"):
        for place in range(20):
            task = ENV.tasks(split)[place]
            assert env.tasks(split)[place] == task
            for reply in replies(task):
                truth, found = ENV.verify(task, reply), env.verify(task, reply)
                assert (found.status, found.extracted, found.span) == (truth.status, truth.extracted, truth.span)
                assert found.parts == env.paying.verify(task, reply).parts


def test_what_each_control_pays():
    task = ENV.tasks("train")[0]
    right, wrong = (ENV.verify(task, reply).reward for reply in replies(task)[:2])
    paid = {name: [Controlled(control=name).verify(task, reply).reward for reply in replies(task)] for name in CONTROLS}
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


@pytest.mark.parametrize(("name", "control"), [("char_count", "random"), ("countdown", "shuffled")])
def test_it_passes_the_conformance_tests(name, control):
    report = check_env(Controlled(of=name, control=control), tasks=20)
    assert report.passed, report


@pytest.mark.parametrize("options", [{"control": "rndom"}, {"of": "kuhn_poker"}, {"of": "nothing"}, {"share": 2.0}])
def test_what_does_not_exist_is_refused(options):
    with pytest.raises(ValueError):
        Controlled(**options)
