"""A model of the hub by its name: from the cache, or fetched from a hub on this machine, and refused otherwise."""

from __future__ import annotations

from pathlib import Path

import huggingface_hub.constants
import pytest

from gnomon.errors import ModelError
from gnomon.models.folder import config_folder, model_folder, present_folder
from gnomon.models.hub import at_commits, hub_name
from gnomon.models.policy import Policy
from gnomon.models.tokenizer import Tokenizer
from models.hub_cache import ONE, REPO, TWO, Stored, contents, put, serving

NAMES = {
    "Qwen/Qwen3-0.6B": ("Qwen/Qwen3-0.6B", ""),
    "Qwen/Qwen3-0.6B@main": ("Qwen/Qwen3-0.6B", "main"),
    "Qwen/Qwen3-0.6B@refs/pr/1": ("Qwen/Qwen3-0.6B", "refs/pr/1"),
    "owner/a@../../secrets": None,
    "/owner/a": None,
    "./owner/a": None,
    "../a": None,
    "owner/a/b": None,
    "tiny": None,
    "owner/": None,
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no hub."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


@pytest.mark.parametrize("text", NAMES)
def test_a_name_of_the_hub_has_one_slash(text: str) -> None:
    found = hub_name(text)
    assert (found and (found.repo, found.revision)) == NAMES[text]


def test_a_local_folder_comes_before_the_hub(cache: Path) -> None:
    put(cache, ONE, contents(), "main")
    folder = Path(REPO)
    folder.mkdir(parents=True)
    with pytest.raises(ModelError, match="E301"):
        model_folder(REPO)
    for name, body in contents().items():
        (folder / name).write_bytes(body)
    assert model_folder(REPO) == folder


def test_a_cached_model_is_loaded_by_branch_tag_and_commit_without_a_hub(cache: Path) -> None:
    put(cache, ONE, contents(), "main", "v1")
    other = put(cache, TWO, contents(generation_config=b"{}"))
    assert [model_folder(f"{REPO}{at}").name for at in ("", "@v1", f"@{ONE}", f"@{TWO}")] == [ONE, ONE, ONE, TWO]
    assert Policy.load(model_folder(f"{REPO}@{TWO}")).folder == other


def test_a_name_is_one_commit_while_the_process_lives(cache: Path) -> None:
    put(cache, ONE, contents(), "main")
    assert model_folder(REPO).name == ONE
    put(cache, TWO, contents(generation_config=b"{}"), "main")
    assert model_folder(REPO).name == ONE


@pytest.mark.parametrize("missing", ["model.safetensors", "tokenizer.json", "config.json"])
def test_an_incomplete_model_is_not_taken_for_the_model(cache: Path, missing: str) -> None:
    put(cache, ONE, {name: body for name, body in contents().items() if name != missing}, "main")
    wanted = "*.safetensors" if missing == "model.safetensors" else missing
    with pytest.raises(ModelError) as caught:
        model_folder(REPO)
    assert caught.value.code == "E335" and wanted in caught.value.why
    if missing == "model.safetensors":
        assert Tokenizer(config_folder(REPO)).encode("1") and present_folder(REPO).name == ONE


def test_a_shard_that_the_index_names_is_missing(cache: Path) -> None:
    index = b'{"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}'
    put(cache, ONE, contents() | {"model.safetensors.index.json": index}, "main")
    with pytest.raises(ModelError, match=r"E335(.|\n)*model-2\.safetensors"):
        model_folder(REPO)


def test_without_a_hub_the_fix_can_be_pasted(cache: Path) -> None:
    with pytest.raises(ModelError) as caught:
        model_folder(f"{REPO}@v1")
    assert caught.value.code == "E335" and "HF_HUB_OFFLINE" in caught.value.why
    assert f"hf download {REPO} --revision v1" in caught.value.fix
    with pytest.raises(ModelError, match="E335"):
        present_folder(REPO)


def test_a_hub_that_does_not_answer_is_no_hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({}) as (url, _):
        pass  # Its port is closed now.
    hub_at(url, monkeypatch)
    put(cache, ONE, {"config.json": contents()["config.json"]}, "main")
    with pytest.raises(ModelError, match="E335"):
        model_folder(REPO)


def hub_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def test_a_model_is_fetched_once_and_neither_pickles_nor_code_are(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = contents() | {"pytorch_model.bin": b"pickle", "mine.py": b"code", "onnx/model.json": b"{}", "LICENSE": b"x"}
    with serving({f"models/{REPO}": Stored({ONE: files}, {"main": ONE})}) as (url, asked):
        hub_at(url, monkeypatch)
        light = config_folder(REPO)
        assert not list(light.glob("*.safetensors")) and Tokenizer(light).encode("1")
        folder = model_folder(REPO)
        assert folder == light and {path.name for path in folder.iterdir()} == {*contents(), "LICENSE"}
        assert Policy.load(folder).folder == folder
        count = len(asked)
        assert model_folder(REPO) == model_folder(f"{REPO}@{ONE}") == folder and len(asked) == count


def test_what_the_hub_does_not_have_is_refused_by_name(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({f"models/{REPO}": Stored({ONE: contents()}, {"main": ONE})}) as (url, _):
        hub_at(url, monkeypatch)
        for name in ("owner/nothing", f"{REPO}@v9"):
            with pytest.raises(ModelError, match="E336") as caught:
                model_folder(name)
            assert name in caught.value.what


def test_recorded_commits_replace_revisions_and_nothing_else() -> None:
    values = {"policy.path": "a/b@main", "policy.reference": "/folder", "players.opponent": "", "seed": 1}
    commits = {"policy.path": ONE, "policy.reference": ONE, "players.opponent": ONE, "seed": ONE, "x": ONE}
    assert at_commits(values, commits) == values | {"policy.path": f"a/b@{ONE}"}
    for damaged in (None, [], "x", {"policy.path": "../../etc"}, {"policy.path": None}):
        assert at_commits(values, damaged) == values
