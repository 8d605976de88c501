"""The table of reasoning-gym's scorers is whole, and what it says of some is so."""

from __future__ import annotations

import json
from importlib.metadata import version
from importlib.resources import files

import pytest

from gnomon.integrations.rewards import GymScore

TABLE = json.loads(files("gnomon").joinpath("envs/data/reasoning_gym_trust.json").read_text())


def test_every_row_says_whether_it_is_trusted_and_why_not():
    for name, row in TABLE["tasks"].items():
        assert row["trusted"] in ("yes", "exact", "no"), name
        assert row["findings"] or row["trusted"] == "yes", name
        assert not (row["executes"] and row["trusted"] != "no"), name


def test_it_has_every_data_set_of_its_version():
    pytest.importorskip("reasoning_gym")
    from reasoning_gym.factory import DATASETS

    assert version("reasoning-gym") == TABLE["version"]
    assert set(TABLE["tasks"]) == set(DATASETS) - {"composite"}


@pytest.mark.parametrize(
    ("name", "reply"),
    [("complex_arithmetic", "nan"), ("coin_flip", "0"), ("game_of_life_halting", "zzz")],
)
def test_a_reply_that_is_no_answer_earns_everything_there(name, reply):
    pytest.importorskip("reasoning_gym")
    judge = GymScore(dataset=name)
    tasks = judge.tasks("train")
    paid = [judge.verify(tasks[index], f"<answer>{reply}</answer>").reward for index in range(10)]
    assert sum(reward == 1.0 for reward in paid) >= 9
    assert TABLE["tasks"][name]["trusted"] == "no"
