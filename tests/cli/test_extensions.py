"""What other packages add: commands, checks before a run, panels."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import interpreter

POINTS = {
    "gnomon.commands": "hello = plugin:add",
    "gnomon.checks": "hello = plugin:check",
    "gnomon.panels": "hello = plugin:panel",
}
PLUGIN = """
from gnomon.errors import ConfigError
from gnomon.extensions import Panel

def add(app):
    @app.command()
    def hello():
        print("hello from a plugin")

def check(folder, config, env):
    if config.seed == 13:
        raise ConfigError("E001", "unlucky", where="seed", fix="seed=14")

def panel(run):
    return Panel(name="greeting", facts={"steps": run.steps}, text=f"greeting   {run.steps} steps")
"""


def installed(folder: Path, code: str) -> dict[str, str]:
    """A package with entry points. Returns: the environment in which it is found."""
    info = folder / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n", "utf-8")
    text = "\n".join(f"[{group}]\n{line}" for group, line in POINTS.items())
    (info / "entry_points.txt").write_text(text, "utf-8")
    (folder / "plugin.py").write_text(code, "utf-8")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.long
def test_a_package_adds_a_command_a_check_and_a_panel(tmp_path: Path) -> None:
    env = installed(tmp_path, PLUGIN)
    assert interpreter("-m", "gnomon", "hello", env=env).stdout == "hello from a plugin\n"
    words = ("-m", "gnomon", "train", "char_count", f"run={tmp_path / 'r'}", "steps=1", "prompts=2", "group=2")
    small = ("max_tokens=4", "eval.tasks=2")
    refused = interpreter(*words, *small, "seed=13", env=env)
    assert refused.returncode == 2 and "unlucky" in refused.stderr and not (tmp_path / "r").exists()
    done = interpreter(*words, *small, env=env)
    assert done.returncode == 0 and "greeting   1 steps" in done.stdout, done.stderr
    assert '"greeting": {' in interpreter("-m", "gnomon", "show", str(tmp_path / "r"), "--json", env=env).stdout


@pytest.mark.parametrize("code", ["raise RuntimeError('half installed')", "import a_module_that_is_not_there"])
def test_a_package_that_cannot_be_loaded_is_left_out_and_named(tmp_path: Path, code: str) -> None:
    done = interpreter("-m", "gnomon", "env", "list", env=installed(tmp_path, code))
    assert done.returncode == 0 and "countdown" in done.stdout and "Traceback" not in done.stderr
    assert "the extension plugin:add cannot be loaded" in done.stderr
