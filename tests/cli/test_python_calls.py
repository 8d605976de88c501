"""What a user of Python expects of `gnomon.train` and of the run that it returns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gnomon
from gnomon.api import configure
from gnomon.config.calls import arguments
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


@pytest.mark.parametrize(
    ("fix", "wanted"),
    [
        ("policy.path=tiny, or policy.device=cuda", "policy={'path': 'tiny'}, or policy={'device': 'cuda'}"),
        ("rollout.prompts=8 rollout.group=4, or lr=0.1", "rollout={'prompts': 8, 'group': 4}, or lr=0.1"),
        ("prompts=2 max_tokens=8", "prompts=2, max_tokens=8"),
        ("policy=tiny, the built-in policy, or policy=FOLDER", "policy='tiny', the built-in policy, or policy=FOLDER"),
        ("gnomon export a b --merged   (then policy=b)", "gnomon export a b --merged   (then policy='b')"),
        ("gnomon audit x env.a=1 shows it; 'audit.acknowledge=[\"r\"]'", "gnomon audit x env.a=1 shows it; "
         "audit={'acknowledge': ['r']}"),
        ("engine.probe=true", "engine={'probe': True}"),
        ("gnomon.resume(RUN, objective=f)", "gnomon.resume(RUN, objective=f)"),
        ("leave it out", "leave it out"),
    ],
)  # fmt: skip
def test_a_fix_speaks_the_language_of_the_caller(fix, wanted):
    assert arguments(fix) == wanted


@pytest.mark.parametrize(
    ("settings", "fix"),
    [
        ({"policy": {"device": "cuda", "path": "nowhere"}}, "policy='tiny'"),
        ({"objective": "maxrl"}, "env={'format': 0}"),
        ({"optim": {"minibatches": 8}, "prompts": 4, "group": 4}, "optim={'minibatches': "),
    ],
)
def test_no_setting_of_the_command_line_is_in_a_fix_of_a_call(settings, fix, tmp_path):
    for call in (lambda: configure("countdown", settings), lambda: gnomon.train("countdown", run=tmp_path, **settings)):
        with pytest.raises(ConfigErrors) as caught:
            call()
        fixes = [error.fix for error in caught.value.errors]
        assert any(each.startswith(fix) for each in fixes), fixes
        assert not [each for each in fixes if re.search(r"\b[a-z_]+\.[a-z_]+=", each)]
        assert all(each in str(caught.value) for each in fixes)


def test_a_policy_is_measured_by_one_call_and_a_run_opened_by_another(tmp_path):
    small = {"prompts": 2, "group": 4, "max_tokens": 8, "eval": {"tasks": 4}}
    gnomon.train("char_count", run=tmp_path / "run", steps=1, quiet=True, **small).close()
    with gnomon.open(tmp_path / "run") as run:
        recorded = [each.body["pass_at"]["1"]["value"] for each in run.records("evaluation")]
    trained = gnomon.evaluate(tmp_path / "run", "char_count", max_tokens=8, eval={"tasks": 4})
    assert trained.pass_at[1].value == recorded[-1]
    rows = [{"prompt": f"Say {n}.", "answer": str(n)} for n in range(4)]
    found = gnomon.evaluate("tiny", rows, reward=lambda completion, answer: answer in completion, max_tokens=4)
    assert sum(found.statuses.values()) > 0
    with pytest.raises(ConfigErrors, match="without policy="):
        gnomon.evaluate("tiny", "char_count", policy="smollm2")
