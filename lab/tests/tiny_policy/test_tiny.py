"""The policies that ship are what their papers say."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

import pytest

from gnomon.config import Env, Eval, Policy, RunConfig
from gnomon.envs.base import split_of
from gnomon.errors import ConfigError
from gnomon.models.folder import SHIPPED, TINY, model_folder
from gnomon.models.tokenizer import Tokenizer
from gnomon.run.find import env_class
from gnomon.run.session import measure
from gnomon_lab.tiny_policy.build import TAUGHT, Recipe, blank, build, documents, keep, trial
from gnomon_lab.tiny_policy.recipes import RECIPES, recipe_of
from gnomon_lab.tiny_policy.scores import options_of, score

SCORES = {of: json.loads((folder / "scores.json").read_text()) for of, folder in SHIPPED.items()}
"""By the name of the policy."""


@pytest.mark.parametrize("of", SHIPPED)
def test_the_recipe_beside_the_weights_is_the_one_that_ships(of):
    assert model_folder(of) == SHIPPED[of]
    assert json.loads((SHIPPED[of] / "recipe.json").read_text()) == json.loads(json.dumps(asdict(RECIPES[of])))


@pytest.mark.parametrize("of", SHIPPED)
def test_the_scores_are_of_these_weights_and_of_the_environments_as_they_are(of):
    assert SCORES[of]["weights_sha256"] == weights(SHIPPED[of])
    assert SCORES[of]["envs"].keys() == TAUGHT.keys()
    for name in TAUGHT:
        env = env_class(name)(**options_of(RECIPES[of], name))
        assert SCORES[of]["envs"][name]["options"] == json.loads(json.dumps(asdict(env)))


@pytest.mark.parametrize("of", SHIPPED)
@pytest.mark.parametrize("name", sorted(TAUGHT))
def test_there_is_something_to_learn_and_to_learn_from(name, of):
    rates = SCORES[of]["envs"][name]["pass_at"]
    assert 0.05 <= rates["1"]["value"] <= 0.4
    assert rates["16"]["low"] > rates["1"]["high"] + 0.2


@pytest.mark.parametrize("of", SHIPPED)
def test_the_scores_can_be_measured_again(of):
    """Fewer tasks; the draws are keyed, so on one machine only the choice of tasks differs from the record."""
    told = SCORES[of]["envs"]["arithmetic"]["pass_at"]["1"]
    env = Env.model_validate({"type": "arithmetic", **options_of(RECIPES[of], "arithmetic")})
    config = RunConfig(env=env, policy=Policy(path=of), eval=Eval(tasks=64, samples=16))
    found = measure(config)[""].pass_at[1]
    # Over tasks, one standard error of a mean of 64 is about 0.02; the allowance is the two intervals' overlap.
    assert found.low <= told["high"] and told["low"] <= found.high


def test_a_build_that_is_stopped_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    course = trial(6).courses[0]
    recipe = Recipe(courses=(course, course), tasks=2, replies=2)
    build(tmp_path / "whole", recipe, report=100)

    def stopped(*args: object) -> None:
        keep(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr("gnomon_lab.tiny_policy.build.keep", stopped)
    for _ in range(2):  # Once in each course.
        with pytest.raises(KeyboardInterrupt):
            build(tmp_path / "stopped", recipe, report=4)
    monkeypatch.undo()
    build(tmp_path / "stopped", recipe, report=100)
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")
    assert not (tmp_path / "stopped" / "unfinished.pt").exists()


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_makes_a_policy_that_is_measured_on_its_own_tasks(name, tmp_path):
    short = trial(1, replace(recipe_of(name), tasks=2, replies=2))
    build(tmp_path, short)
    table = score(tmp_path, short, tasks=1, samples=1)["envs"]
    assert json.loads((tmp_path / "recipe.json").read_text())["layers"] == recipe_of(name).layers
    assert all(facts["pass_at"]["1"]["value"] in (0.0, 1.0) for facts in table.values())
    assert options_of(short, "scramble").items() <= table["scramble"]["options"].items()


def test_the_corpora_are_what_the_recipes_say():
    """Four steps of 96 documents each, from the end of the recipe, where the share of careful work is lowest."""
    texts = {
        name: [
            (prompt, reply)
            for step in range(1, 5)
            for prompt, replies in documents(recipe, len(recipe.courses) - 1, recipe.courses[-1].steps - step)
            for reply in replies
        ]
        for name, recipe in RECIPES.items()
    }
    assert all("<answer>" in prompt and reply.endswith("</answer>") for prompt, reply in texts["tiny"])
    assert texts["half"] == texts["double"] == texts["tiny"], "only the model differs"
    assert not any("answer>" in prompt + reply for prompt, reply in texts["no-slot"])
    assert {len(prompt.split('"')[1]) for prompt, _ in texts["long-words"]} == {5, 6, 7, 8}
    # Careful work spells every letter with a count. Of 384 documents, one standard error is .009.
    careful = sum(reply[1:2].isdigit() for _, reply in texts["nearly-solved"]) / len(texts["nearly-solved"])
    assert 0.93 < careful <= 1.0
    size = {
        name: sum(p.numel() for p in blank(recipe).gpt_neox.layers.parameters()) for name, recipe in RECIPES.items()
    }
    assert size["half"] * 2 == size["tiny"] == size["double"] / 2


def test_a_base_without_a_recipe_is_refused():
    with pytest.raises(ConfigError, match="E187"):
        recipe_of("huge")


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


@pytest.mark.parametrize("name", sorted(TAUGHT))
def test_no_task_of_the_corpus_of_fresh_is_in_a_split(name):
    """Of 2,000 draws of each; a task that both could draw would be in both with near certainty on countdown."""
    env = TAUGHT[name](fresh=True)
    corpus = {env.corpus()[i].id for i in range(2000)}
    splits = {split: {env.tasks(split)[i].id for i in range(2000)} for split in ("train", "test")}
    assert corpus.isdisjoint(splits["train"] | splits["test"]) and splits["train"].isdisjoint(splits["test"])
    whole = TAUGHT[name]()
    assert [whole.tasks("test")[i] for i in range(50)] == [env.tasks("test")[i] for i in range(50)]
    assert {split_of(identity) for identity in corpus} == {"train"}
    with pytest.raises(ValueError, match="corpus"):
        env.tasks("corpus")


@pytest.mark.parametrize("name", sorted(TAUGHT))
def test_mutations_and_examples_of_fresh_tasks_are_fresh(name):
    env = TAUGHT[name](fresh=True, mutations=3, shots=2)
    tasks = [env.tasks("train")[i] for i in range(80)]
    assert {env.split_of(task.id) for task in tasks} == {"train"}
    taught = {TAUGHT[name](fresh=True).corpus()[i].messages for i in range(2000)}
    assert not any((message,) in taught for task in tasks for message in task.messages)
