"""Files of the working folder named after the standard library disturb no command, and its other modules are found."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gnomon.import_path import LIBRARY, library_first

SMALL = ("steps=1", "prompts=2", "group=2", "max_tokens=4", "eval.tasks=2")
OWN = """
from gnomon.envs.char_count import CharCount
from sibling import NAME

class Mine(CharCount):
    name = NAME
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    """A module of every name of the standard library, a class of an environment, and a module that its file imports."""
    for name in sys.stdlib_module_names:
        if name != "__main__" and find_spec(name) is not None:
            (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} is not the library')")
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "sibling.py").write_text("NAME = 'mine'")
    return tmp_path


COMMANDS = [("check", "own.py:Mine"), ("audit", "own:Mine", "--tasks", "4"), ("audit", "char_count", "--tasks", "4")]
RUNS = [("char_count",), ("own.py:Mine", "ranks=2"), ("own:Mine", "launch=ray")]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_imports_the_standard_library(folder, words):
    gnomon = Path(sys.executable).with_name("gnomon")
    done = subprocess.run([gnomon, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("ray")
@pytest.mark.long
@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_a_run_imports_the_standard_library(folder, words):
    test_a_command_imports_the_standard_library(folder, ("train", *words, *SMALL))


@pytest.mark.parametrize("name", ["random", "token"])
def test_the_module_gnomon_imports_the_standard_library(tmp_path, name):
    (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} is not the library')")
    done = subprocess.run(
        [sys.executable, "-m", "gnomon", "objective", "grpo"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_these_folders_move():
    here, (library, extensions) = os.getcwd(), LIBRARY
    before = ["/bin", "", here, "/set/by/user", library, extensions, "/site-packages", here, library]
    after = ["/bin", "/set/by/user", library, extensions, "", here, "/site-packages", here, library]
    assert library_first(before, [here]) == after
    assert library_first(after, [here]) == after
    assert library_first(["", "/a"], [here]) == ["", "/a"]
