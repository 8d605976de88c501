"""Settings that are paths or of another kind, and recipes that are broken: an error with a code and a fix."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch

from commands import command, python
from gnomon.cli import below_home
from gnomon.commands.training import run_folder
from gnomon.config import RunConfig, Source, load, overrides, resolve
from gnomon.errors import ConfigErrors, ResourceError, is_full
from gnomon.store import Run, require_free


def test_home_is_a_path_in_every_source_of_settings(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    recipe = tmp_path / "r.toml"
    recipe.write_text('env = {type = "dataset", path = "~/rows.jsonl"}\npolicy = "~/model"\nrollout.stop = ["~/"]')
    words = overrides(["env.split=a~", "players.opponent=~nobody-here/x"])
    call = Source({"rollout": {"recorded": Path("~/run")}}, {})
    config, _ = resolve([load(recipe), words, call])
    assert config.policy.path == f"{tmp_path}/model" and config.rollout.recorded == f"{tmp_path}/run"
    assert config.env.options == {"path": f"{tmp_path}/rows.jsonl", "split": "a~"} and config.rollout.stop == ["~/"]
    assert config.players.opponent == "~nobody-here/x"


def test_home_is_a_path_where_no_shell_writes_it_in_full(tmp_path):
    home = {"HOME": str(tmp_path)}
    with Run.create(tmp_path / "run", recipe="seed = 1\n", manifest={}, genesis={}):
        pass
    for words in (["verify", "~/run"], ["ls", "~"], ["export-rollouts", "~/run", "~/out.jsonl"]):
        done = command(*words, env=home, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.jsonl").is_file()
    call = "import gnomon; r = gnomon.RunReader('~/run'); print(r.folder); gnomon.train('countdown', run='~/run')"
    done = python("-c", call, env=home, cwd=tmp_path)
    assert done.stdout.strip() == str(tmp_path / "run") and "error[E401]" in done.stderr
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize(
    ("folder", "why"), [("a" * 300, "File name too long"), ("/proc/x", "/proc (takes no files|is not writable)")]
)
def test_a_folder_that_cannot_be_is_refused_before_a_run(folder, why):
    with pytest.raises(ResourceError, match=f"error.E502.*\n.*\n   {why}"):
        require_free(folder)


def test_a_file_system_that_is_full_is_known_by_any_of_its_errors(tmp_path):
    script = (
        "import resource, torch, safetensors.torch\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        f"safetensors.torch.save_file({{'a': torch.ones(10_000)}}, {str(tmp_path / 'x')!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    error = done.stderr.strip().splitlines()[-1]
    assert error.startswith(safetensors.torch.__name__.partition(".")[0]) and is_full(RuntimeError(error))
    assert not is_full(RuntimeError("no file")) and is_full(OSError(28, os.strerror(28)))


@pytest.mark.parametrize("text", ["env = countdown\n", 'env = "a"\nenv = "b"\n', "steps = [1\n", "x"])
def test_a_recipe_that_is_not_toml_shows_its_line(tmp_path, text):
    file = tmp_path / "r.toml"
    file.write_text(text)
    with pytest.raises(ConfigErrors, match=r"error.E002.*\n   at .*r.toml, line \d: ") as caught:
        load(file)
    assert caught.value.errors[0].fix
    file.write_text(f"seed = 1\nsteps = {'9' * 5_000}\nlr = 1e-3")
    with pytest.raises(ConfigErrors, match=r"error.E002.*\n   at .*r.toml, line 2: steps = 999[9…]*\n.*4300 digits"):
        load(file)
    file.write_bytes(b"env = '\xff'")
    with pytest.raises(ConfigErrors, match="save it as UTF-8"):
        load(file)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("rollout.group=2.5", "it must be a whole number\n"),
        ("steps=abc", "it must be a whole number\n"),
        (f"steps={'9' * 5_000}", "it must be a whole number\n"),
        ("policy.path=3", "it must be text\n"),
        ("policy.dtype=x", "it must be '"),
        ("optim.lr=-1", "it must be greater than"),
        ("learner.device=cuda", "unknown key learner.device"),
    ],
)
def test_a_value_of_another_kind_says_what_is_allowed(word, said):
    with pytest.raises(ConfigErrors, match=said) as caught:
        resolve([overrides(["env=countdown", word])])
    assert "input should" not in str(caught.value) and "parse" not in str(caught.value)


def test_the_folder_of_a_run_may_be_below_home():
    for word, folder in (("run=~/x", Path.home() / "x"), ("run=~nobody-here/x", Path("~nobody-here/x"))):
        assert run_folder("countdown", [below_home(word)], RunConfig()) == folder


def test_a_setting_with_two_values_is_noted(capsys):
    config, _ = resolve([overrides(["env=char_count", "lr=1e-3", "optim.lr=2e-3", "steps=2", "steps=2"])])
    assert config.optim.lr == 2e-3
    assert capsys.readouterr().err == "optim.lr is set twice. The last value counts: optim.lr=2e-3\n"
