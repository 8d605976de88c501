"""A run folder of somebody else names code; none of it runs unless the user says so."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import command
from gnomon.run.trust import signature

ENV = """
import os
open({mark!r}, "a").write("ran ")
from dataclasses import dataclass
from gnomon.envs import CharCount

@dataclass(frozen=True, kw_only=True)
class Mine(CharCount):
    pass
"""
SMALL = ["threads=1", "steps=1", "prompts=2", "group=2", "max_tokens=4", "eval.tasks=1"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, str]]:
    """A run of an environment in a file, the mark that its import leaves, and who trained."""
    home = tmp_path_factory.mktemp("trust")
    mark, mine = home / "mark", {"XDG_STATE_HOME": str(home / "state")}
    (home / "mine.py").write_text(ENV.format(mark=str(mark)))
    done = command("train", f"{home / 'mine.py'}:Mine", f"run={home / 'run'}", *SMALL, env=mine)
    assert done.returncode == 0, done.stderr
    return home / "run", mark, mine


def ran(mark: Path) -> bool:
    found = mark.exists() and bool(mark.read_text())
    mark.unlink(missing_ok=True)
    return found


@pytest.mark.parametrize("what", ["alarms", "replay"])
def test_ones_own_run_is_read_without_a_question_wherever_it_lies(made, tmp_path, what):
    folder, mark, mine = made
    shutil.copytree(folder, tmp_path / "moved")
    for place in (folder, tmp_path / "moved"):
        ran(mark)
        done = command(what, str(place), env=mine)
        assert done.returncode == 0 and ran(mark), done.stderr


@pytest.mark.parametrize("what", ["alarms", "replay"])
@pytest.mark.parametrize("how", ["another user", "another recipe", "no signature", "a damaged manifest"])
def test_somebody_elses_code_is_not_imported(made, tmp_path, what, how):
    folder, mark, mine = made
    shutil.copytree(folder, tmp_path / "run")
    manifest = tmp_path / "run" / "manifest.json"
    if how == "another user":
        mine = {"XDG_STATE_HOME": str(tmp_path / "state")}
    elif how == "another recipe":
        recipe = tmp_path / "run" / "recipe.toml"
        recipe.write_text(recipe.read_text() + "\n# changed\n")
    elif how == "no signature":
        manifest.write_text(json.dumps({k: v for k, v in json.loads(manifest.read_text()).items() if k != "signed"}))
    else:
        manifest.write_text("{")
    ran(mark)
    done = command(what, str(tmp_path / "run"), env=mine)
    assert done.returncode == 2 and "E052" in done.stderr and "--trust" in done.stderr and "mine.py:Mine" in done.stderr
    assert not ran(mark)
    assert command(what, str(tmp_path / "run"), "--trust", env=mine).returncode == 0 and ran(mark)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2), ("", 2)])
def test_a_person_at_a_terminal_is_asked(made, tmp_path, answer, code):
    folder, mark, _ = made
    ran(mark)
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gnomon", "alarms", str(folder)],
        stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    )  # fmt: skip
    os.close(theirs)
    heard = b""
    while b"[y/N]" not in heard:
        heard += os.read(mine, 1000)
    assert b"mine.py:Mine" in heard and not ran(mark)
    os.write(mine, f"{answer}\n".encode())
    assert process.wait(120) == code
    os.close(mine)
    assert ran(mark) is (code == 0)


def test_a_run_of_a_shipped_environment_needs_no_signature(tmp_path):
    assert (
        command("train", "char_count", f"run={tmp_path / 'r'}", *SMALL, env={"XDG_STATE_HOME": "/proc/no"}).returncode
        == 0
    )
    for what in ("alarms", "replay"):
        assert command(what, str(tmp_path / "r"), env={"XDG_STATE_HOME": str(tmp_path / "new")}).returncode == 0


@pytest.mark.parametrize(
    ("env", "code"),
    [
        ({"type": "char_count"}, 0),
        ({"type": "x.py:Env"}, 1),
        ({"type": "gym:module:Class"}, 1),
        ({"type": "dataset", "path": "questions"}, 0),
        ({"type": "dataset", "verifier": "evil.module:Class"}, 1),
        ({"type": "dataset", "options": {"deep": ["evil.module:Class"]}}, 1),
        ({"type": "char_count", "tool": sys.executable}, 1),
    ],
)
def test_what_counts_as_code(env, code):
    from gnomon.config import RunConfig
    from gnomon.run.trust import code_of

    assert len(code_of(RunConfig.model_validate({"env": env}))) == code


def test_the_key_is_the_users_alone_and_made_once(tmp_path, monkeypatch):
    from gnomon.run.trust import key, signature

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert key() == key() and len(key()) == 32 and signature("a") == signature("a") != signature("b")
    (path,) = (tmp_path / "gnomon").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"short")
    assert signature("a") == ""


def test_a_user_without_a_home_folder_trains_unsigned(monkeypatch):
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", none)
    assert signature("a recipe") == ""
