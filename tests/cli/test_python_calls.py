"""What a user of Python expects of `gnomon.train` and of the run that it returns."""

from __future__ import annotations

from pathlib import Path

import pytest

import gnomon
from gnomon.api import configure
from gnomon.envs import CharCount
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.models.folder import model_folder

SMALL = {"prompts": 2, "group": 2, "max_tokens": 8, "steps": 1, "eval": {"tasks": 2}, "threads": 1, "quiet": True}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> gnomon.RunReader:
    return gnomon.train("char_count", run=tmp_path_factory.mktemp("runs") / "r", **SMALL)


def test_a_printed_run_is_its_summary(run):
    lines = str(run).splitlines()
    assert lines[0] == f"run {run.folder}"
    facts = {line.split()[0]: line.split(maxsplit=1)[1].strip() for line in lines[1:]}
    assert facts["status"] == "finished" and facts["steps"] == "1" and facts["fingerprint"] == run.fingerprint
    assert facts["held-out"].startswith("pass@1 ")


def test_a_run_exports_its_policy(run, tmp_path):
    files = run.export(tmp_path / "model")
    assert (tmp_path / "model" / "config.json").is_file()
    assert files == {path.name: path.stat().st_size for path in (tmp_path / "model").iterdir()}
    with pytest.raises(ConfigError, match="E050"):
        run.export(tmp_path / "model")
    assert "model.safetensors" in gnomon.RunReader(run.folder).export(tmp_path / "again", step=1)


def test_a_run_without_a_folder_takes_the_next_free_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (Path("runs") / "char_count-1").mkdir(parents=True)
    with gnomon.train("char_count", **SMALL) as found:
        assert found.folder == Path("runs/char_count-2") and found.complete
    with gnomon.train(CharCount(), **SMALL) as found:
        assert found.folder == Path("runs/CharCount-1")


def test_one_table_of_short_names_serves_python_and_the_command_line():
    config = configure("char_count", {"model": model_folder("tiny"), "lora": 8, "temperature": 0.5, "lr": 1e-4})[0]
    assert config.policy.path == str(model_folder("tiny")) and config.policy.lora.rank == 8
    assert config.rollout.temperature == 0.5 and config.optim.lr == 1e-4
    assert configure("char_count", {"policy": "tiny"})[0].policy.path == "tiny"
    with pytest.raises(ConfigErrors, match=r"policy\.lora\.rank"):
        configure("char_count", {"lora": {"rank": 8}})
