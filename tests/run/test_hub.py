"""A run of a model of the hub: the recipe keeps its name, and the run stays at the commit that it began with."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

import gnomon
from commands import interpreter
from gnomon import envs
from gnomon.api import configure
from gnomon.config import RunConfig, recorded_recipe, resolve
from gnomon.errors import GnomonError, RunError
from gnomon.export.model import export
from gnomon.models.folder import TINY
from gnomon.models.hub import _fetch
from gnomon.run.hub_models import commits, pin_models
from gnomon.run.paths import anchor
from gnomon.run.session import measure
from gnomon.store import RunReader
from gnomon.viewer.tokens import tokenizer_of
from models.hub_cache import ONE, REPO, TWO, contents, forget, put

SMALL: dict[str, Any] = {
    "threads": 1, "steps": 2, "prompts": 2, "group": 2, "max_tokens": 8,
    "eval": {"tasks": 2, "every": 9}, "save": {"every": 1}, "lr": 1e-3, "critic": {"lr": 1e-3}, "quiet": True,
}  # fmt: skip


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache whose branch main is at commit ONE, and no hub."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    put(tmp_path / "hub", ONE, contents(), "main")
    yield tmp_path / "hub"


def moved(cache: Path) -> None:
    """Somebody has fetched a newer commit of the branch, with other weights; and another process reads the cache."""
    _fetch.cache_clear()
    weights = bytearray(contents()["model.safetensors"])
    weights[-64:] = bytes(64)
    put(cache, TWO, contents(model=bytes(weights)), "main")


def begun(folder: Path) -> Path:
    """A run that ended after its first step, at its limit of time."""
    with gnomon.train("char_count", run=folder, policy={"path": REPO}, seconds=1e-6, **SMALL) as reader:
        assert reader.status == "interrupted" and reader.steps == 1
    return folder


def test_a_run_stays_at_its_commit_and_ends_as_with_a_folder(cache: Path, tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    moved(cache)
    with RunReader(run) as reader:
        assert tomllib.loads(reader.recipe)["policy"]["path"] == REPO
        assert reader.manifest["hub"] == {"policy.path": ONE}
        assert tokenizer_of(reader) is not None
    assert resolve([recorded_recipe(run / "recipe.toml")])[0].policy.path == f"{REPO}@{ONE}"
    with gnomon.resume(run, quiet=True) as resumed:
        assert resumed.status == "finished"
        ended = resumed.fingerprint
    with gnomon.train("char_count", run=tmp_path / "same", policy={"path": str(TINY)}, **SMALL) as local:
        assert "hub" not in local.manifest
        assert local.fingerprint == ended


def test_a_commit_that_is_gone_is_asked_for_by_its_number(cache: Path, tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    forget(cache)
    moved(cache)
    with pytest.raises(GnomonError) as caught:
        gnomon.resume(run, quiet=True)
    assert caught.value.code == "E335" and f"hf download {REPO} --revision {ONE}" in caught.value.fix


def test_other_files_at_the_commit_are_refused(cache: Path, tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    put(cache, ONE, contents(generation_config=b'{"eos_token_id": 2}'))
    with pytest.raises(RunError, match="E403"):
        gnomon.resume(run, quiet=True)


def test_every_setting_that_names_a_model_has_a_commit(cache: Path, tmp_path: Path) -> None:
    put(cache, TWO, contents(), "v2")
    settings = {
        "env": {"type": "kuhn_poker"}, "objective": "opd",
        "policy": {"path": REPO, "reference": f"{REPO}@v2"}, "players": {"opponent": REPO},
    }  # fmt: skip
    config, _ = configure(None, settings)
    assert anchor(config, envs.KuhnPoker()) == config, "a name of the hub is no path"
    assert commits(config) == {"policy.path": ONE, "policy.reference": TWO, "players.opponent": ONE}
    fixed = pin_models(config)
    assert (fixed.policy.path, fixed.policy.reference) == (f"{REPO}@{ONE}", f"{REPO}@{TWO}")
    assert fixed.players.opponent == f"{REPO}@{ONE}"
    assert pin_models(RunConfig()) == RunConfig()


def test_an_adapter_names_its_base_model_as_the_hub_does(cache: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    lora = {"path": REPO, "lora": {"rank": 1}}
    gnomon.train("char_count", run=tmp_path / "run", **{**SMALL, "steps": 1, "policy": lora}).close()
    moved(cache)
    done = export(str(tmp_path / "run"), tmp_path / "adapter")
    facts = json.loads((done.folder / "adapter_config.json").read_text())
    assert (facts["base_model_name_or_path"], facts["revision"]) == (REPO, ONE)
    assert f"base_model: {REPO}" in (done.folder / "README.md").read_text()
    merged = export(str(tmp_path / "run"), tmp_path / "merged", merged=True)
    config, _ = configure("char_count", {**SMALL_EVAL, "policy": {"path": str(merged.folder)}})
    assert measure(config)[""].body()["pass_at"]["1"]["n"] == 2


SMALL_EVAL = {"threads": 1, "max_tokens": 8, "eval": {"tasks": 2}}


def test_the_environment_variables_of_the_hub_are_read(cache: Path, tmp_path: Path) -> None:
    cache.rename(tmp_path / "home_hub")
    (tmp_path / "home").mkdir()
    (tmp_path / "home_hub").rename(tmp_path / "home" / "hub")
    env = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    code = f"from gnomon.models.folder import model_folder; print(model_folder({REPO!r}).name)"
    assert interpreter("-c", code, env=env).stdout.strip() == ONE
    words = ("-m", "gnomon", "eval", "char_count", f"policy={REPO}")
    refused = interpreter(*words, env=env | {"HF_HOME": str(tmp_path / "empty")}, cwd=tmp_path)
    assert refused.returncode == 2
    for word in ("E335", "HF_HUB_OFFLINE is set", f"hf download {REPO}", "argument"):
        assert word in refused.stderr
