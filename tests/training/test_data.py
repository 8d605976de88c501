"""A run knows the data that it reads by its hash: it goes on with the same from anywhere, and with no other."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from commands import command
from gnomon.config import Env as EnvConfig
from gnomon.config import RunConfig
from gnomon.envs import Arithmetic, Dataset
from gnomon.errors import RunError
from gnomon.run.data import anchored_data, data_hashes, digest, require_same_data
from gnomon.run.manifest import opening
from gnomon.store import RunReader

SMALL = ["threads=1", "steps=2", "rollout.prompts=2", "group=2", "max_tokens=16", "eval.every=2", "eval.tasks=2"]


def written(path: Path, start: int = 0) -> Path:
    rows = [{"prompt": f"{n} + 1?", "answer": n + 1 + start} for n in range(60)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and a run on it that was killed after its first step."""
    folder = tmp_path_factory.mktemp("data")
    written(folder / "sums.jsonl")
    done = command(
        "train", "dataset", "env.path=sums.jsonl", "run=r", "save.every=1", *SMALL,
        cwd=folder, env={"GNOMON_FAILPOINT": "checkpoint:before-note:2"},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    return folder


def test_other_data_is_refused_and_the_same_goes_on_from_anywhere(killed: Path, tmp_path: Path) -> None:
    file = killed / "sums.jsonl"
    with RunReader(killed / "r") as reader:
        assert reader.manifest["data"] == {"env.path": digest(file)}
        before = reader.fingerprint
    written(file, start=1)
    refused = command("resume", str(killed / "r"), cwd=tmp_path)
    assert refused.returncode != 0
    for word in ("E190", str(file), "SHA-256", f"gnomon train {killed / 'r'}/recipe.toml"):
        assert word in refused.stderr, refused.stderr
    with RunReader(killed / "r") as reader:
        assert reader.fingerprint == before, "nothing was written"
    written(file)
    resumed = command("resume", str(killed / "r"), cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    with RunReader(killed / "r") as reader:
        assert reader.status == "finished" and reader.steps == 2


def test_a_run_on_other_data_begins_otherwise_and_one_on_a_copy_the_same(tmp_path: Path) -> None:
    begun = []
    for name, start in (("one", 0), ("two", 0), ("three", 1)):
        (tmp_path / name).mkdir()
        path = str(written(tmp_path / name / "sums.jsonl", start))
        begun.append(opening(RunConfig(env=EnvConfig(type="dataset", path=path)), Dataset(path=path)))
    assert begun[0] == begun[1] != begun[2]


def test_a_folder_has_a_hash_and_what_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hub").mkdir()
    written(tmp_path / "hub" / "a.jsonl")
    whole = digest(tmp_path / "hub")
    monkeypatch.chdir(tmp_path)
    env, config = Dataset(path="hub"), RunConfig(env=EnvConfig(type="dataset", path="hub"))
    assert data_hashes(config, env) == {"env.path": whole}
    assert anchored_data(config, env).env.options == {"path": str(tmp_path / "hub")}
    (tmp_path / "hub" / "a.jsonl").rename(tmp_path / "hub" / "b.jsonl")
    with pytest.raises(RunError, match="E190"):
        require_same_data(config, env, {"env.path": whole}, tmp_path)
    gone = Dataset(path="nowhere.jsonl")
    with pytest.raises(RunError, match=r"E191(.|\n)*nowhere\.jsonl"):
        data_hashes(config, gone)


def test_what_reads_nothing_has_no_data_and_what_ships_keeps_its_name() -> None:
    assert data_hashes(RunConfig(), Arithmetic()) == {}
    config = RunConfig(env=EnvConfig(type="dataset", path="questions"))
    assert list(data_hashes(config, Dataset())) == ["env.path"]
    assert anchored_data(config, Dataset()).env.options == {"path": "questions"}
