"""The policy that ships is what its papers say."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import pytest

from gnomon.config import Env, Eval, RunConfig
from gnomon.launch.find import env_class
from gnomon.launch.local import measure
from gnomon.models.folder import TINY, model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.tiny_policy.build import TASKS, Recipe, build, keep, trial

FOLDER = model_folder("tiny")
SCORES = json.loads((FOLDER / "scores.json").read_text())


def test_the_recipe_beside_the_weights_is_the_one_that_ships():
    assert json.loads((FOLDER / "recipe.json").read_text()) == json.loads(json.dumps(asdict(Recipe())))


def test_the_scores_are_of_these_weights_and_of_the_environments_as_they_are():
    assert SCORES["weights_sha256"] == weights(FOLDER)
    assert SCORES["envs"].keys() == TASKS.keys()
    for name in TASKS:
        assert SCORES["envs"][name]["options"] == json.loads(json.dumps(asdict(env_class(name)())))


@pytest.mark.parametrize("name", sorted(TASKS))
def test_there_is_something_to_learn_and_to_learn_from(name):
    rates = SCORES["envs"][name]["pass_at"]
    assert 0.05 <= rates["1"]["value"] <= 0.4
    assert rates["16"]["low"] > rates["1"]["high"] + 0.2


def test_the_scores_can_be_measured_again():
    """Fewer tasks; the draws are keyed, so on one machine only the choice of tasks differs from the record."""
    told = SCORES["envs"]["arithmetic"]["pass_at"]["1"]
    found = measure(RunConfig(env=Env(type="arithmetic"), eval=Eval(tasks=64, samples=16)))[""].pass_at[1]
    # Over tasks, one standard error of a mean of 64 is about 0.02; the allowance is the two intervals' overlap.
    assert found.low <= told["high"] and told["low"] <= found.high


def test_a_build_that_is_stopped_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    course = trial(6).courses[0]
    recipe = Recipe(courses=(course, course), tasks=2, replies=2)
    build(tmp_path / "whole", recipe, report=100)

    def stopped(*args: object) -> None:
        keep(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr("gnomon.tiny_policy.build.keep", stopped)
    for _ in range(2):  # Once in each course.
        with pytest.raises(KeyboardInterrupt):
            build(tmp_path / "stopped", recipe, report=4)
    monkeypatch.undo()
    build(tmp_path / "stopped", recipe, report=100)
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")
    assert not (tmp_path / "stopped" / "unfinished.pt").exists()


def weights(folder: Path) -> str:
    return sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_a_tokenizer_is_read_once_and_again_when_its_file_has_changed(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(TINY / name, tmp_path)
    first = Tokenizer(tmp_path)
    assert Tokenizer(tmp_path)._encoder is first._encoder
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text() + "\n")
    assert Tokenizer(tmp_path)._encoder is not first._encoder
