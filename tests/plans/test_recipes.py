"""The recipes that ship: valid settings, described models, and what to do where there is no hub."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch

from gnomon.config import load, overrides, resolve
from gnomon.envs import Dataset
from gnomon.envs.countdown_rows import CountdownRows
from gnomon.envs.rows import content_hash, other_source
from gnomon.errors import ConfigError, ModelError
from gnomon.models.folder import TINY
from gnomon.models.precision import Precision
from gnomon.plans.lengths import description_folder, supposed_lengths
from gnomon.plans.passes import meta_policy
from gnomon.run.find import env_class
from gnomon.types import Status

RECIPES = sorted(path.name for path in Path(str(files("gnomon.recipes"))).glob("*.toml"))
SIZES = {"Qwen3-0.6B": 0.596e9, "Qwen2.5-1.5B": 1.544e9, "Qwen2.5-3B": 3.086e9, "Qwen3-30B-A3B": 30.53e9}
"""Parameters, as published."""


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_valid_and_its_model_is_described(name: str) -> None:
    config, _ = resolve([load(Path(name))])
    kind = env_class(config.env.type)
    assert kind(**config.env.options)
    assert (description_folder(config.policy.path) / "config.json").is_file()


@pytest.mark.parametrize("name", SIZES)
def test_a_described_model_has_its_parameters(name: str) -> None:
    model = meta_policy(description_folder(f"Qwen/{name}"), Precision.only(torch.bfloat16)).model
    assert sum(value.numel() for value in model.parameters()) == pytest.approx(SIZES[name], rel=1e-3)


def test_a_model_that_is_not_described_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    for name, code in (("owner/Unknown-1B", "E335"), ("/models/Unknown-1B", "E301")):
        with pytest.raises(ModelError, match=code):
            description_folder(name)


def test_the_cache_of_the_hub_comes_before_a_described_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    config, _ = resolve([load(Path("gsm8k-qwen3-0.6b.toml"))])
    with pytest.raises(ConfigError, match=r"E074(.|\n)*--prompt"):
        supposed_lengths(config)
    place = tmp_path / "models--Qwen--Qwen3-0.6B"
    folder = place / "snapshots" / ("1" * 40)
    shutil.copytree(TINY, folder)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("1" * 40)
    assert description_folder(config.policy.path) == folder
    replaced = resolve([load(Path("gsm8k-qwen3-0.6b.toml")), overrides(["env=char_count", "eval.tasks=1"])])[0]
    assert supposed_lengths(replaced).prompts[0] > 1


def test_without_a_hub_the_fix_is_a_download() -> None:
    fix = "hf download --repo-type dataset openai/gsm8k --local-dir data/gsm8k; then env.path=data/gsm8k"
    assert fix in other_source("openai/gsm8k")
    assert "hf download" not in other_source("no/such/folder")


def test_other_rows_than_those_that_were_recorded_are_refused(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n} + 1", "answer": str(n + 1)} for n in range(40)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = content_hash(rows)
    assert len(Dataset(path=str(path), sha256={"path": known}).tasks("train"))
    with pytest.raises(ConfigError, match=f"E164(.|\n)*{known}"):
        Dataset(path=str(path), sha256={"path": "0" * 64}).tasks("train")


def test_countdown_rows_are_judged_by_any_expression(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"nums": [n, 3, 2], "target": n + 6} for n in range(5, 60)]
    again = [{"nums": [2, n, 3], "target": n + 6} for n in range(5, 60)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows + again))
    env = CountdownRows(path=str(path))
    train, test = ({task.id for task in env.tasks(split)} for split in ("train", "test"))
    assert len(train) + len(test) == 55 and not train & test, "the order of the numbers makes no other task"
    task = env.tasks("test")[0]
    last = task.answer - 6
    assert env.verify(task, f"<answer>{last} + 2 * 3</answer>").correct
    assert env.verify(task, f"<answer>(3 * 2) + {last}</answer>").correct
    for task in env.tasks("train"):
        assert env.verify(task, env.framed(env.solution(task))).correct, "an audit needs a correct reply"
    with pytest.raises(ValueError, match=r"no expression of \[1, 2\] has the value 99"):
        env.solution(replace(task, answer=99, info={"numbers": [1, 2]}))
    for wrong in (f"{last} + 6", f"{last} + 2 + 3", "2 * 3"):
        assert env.verify(task, f"<answer>{wrong}</answer>").status is Status.WRONG
