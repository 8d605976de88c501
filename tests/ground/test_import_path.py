"""Files of the working folder named after the standard library disturb no command, and its other modules are found."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import packages_distributions
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


@pytest.fixture
def packages(tmp_path) -> Path:
    """A module of the name of every installed package, beside a class of an environment and what it imports."""
    for name, distributions in packages_distributions().items():
        found = find_spec(name) if name.isidentifier() and "gnomon" not in distributions else None
        if found is not None and found.origin is not None:  # A namespace package comes after every module of its name.
            (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} is not the package')")
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


@pytest.mark.parametrize("words", [("check", "own.py:Mine"), ("check", "char_count")], ids=" ".join)
def test_a_command_imports_the_installed_packages(packages, words):
    test_a_command_imports_the_standard_library(packages, words)


@pytest.mark.long
@pytest.mark.parametrize("words", RUNS[:2], ids=" ".join)
def test_a_run_imports_the_installed_packages(packages, words):
    test_a_command_imports_the_standard_library(packages, ("train", *words, *SMALL))


def test_the_module_gnomon_imports_the_installed_packages(packages):
    words = [sys.executable, "-m", "gnomon", "check", "char_count"]
    done = subprocess.run(words, cwd=packages, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("words", [("-m", "gnomon"), ("-m", "gnomon.cli"), ("script.py",)], ids=" ".join)
def test_python_imports_the_standard_library_for_gnomon(tmp_path, words):
    """All of it but what Python itself imports before a module that `-m` names."""
    (tmp_path / "script.py").write_text("import gnomon\ngnomon.objective('grpo')\nfrom gnomon.cli import main\nmain()")
    own = set() if words == ("script.py",) else set(loaded(tmp_path, "-m", "calendar", "2000"))
    for name in filter(find_spec, sys.stdlib_module_names - own - {"__main__", *loaded(tmp_path, "-c", "pass")}):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} is not the library')")
    command = [sys.executable, *words, "objective", "grpo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def loaded(folder, *words) -> list[str]:
    """The modules that Python imports for a command, by name."""
    done = subprocess.run([sys.executable, "-X", "importtime", *words], cwd=folder, capture_output=True, text=True)
    return [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]


def test_a_module_that_an_installed_package_hides_is_named(tmp_path):
    (tmp_path / "own.py").write_text("import numpy\nclass Mine:\n    name = numpy.of_mine\n")
    (tmp_path / "numpy.py").write_text("of_mine = 'mine'")
    words = [Path(sys.executable).with_name("gnomon"), "check", "own.py:Mine"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and "E023" in done.stderr, done.stdout + done.stderr
    assert "mv numpy.py my_numpy.py" in done.stderr


def test_a_reward_in_a_file_finds_its_siblings(tmp_path):
    (tmp_path / "own.py").write_text("from sibling import right\n")
    (tmp_path / "sibling.py").write_text("def right(completions, **columns): return [1.0 for _ in completions]")
    code = "from gnomon.integrations.rewards.load import load; print(load('own.py:right').__module__)"
    words = ["-P", "-c", code]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "sibling\n", done.stderr


def test_only_these_folders_move():
    here, (library, extensions) = os.getcwd(), LIBRARY
    before = ["/bin", "", here, "/set/by/user", library, extensions, "/site-packages", here, library]
    after = ["/bin", "/set/by/user", library, extensions, "", here, "/site-packages", here, library]
    assert library_first(before, [here]) == after
    assert library_first(after, [here]) == after
    assert library_first(["", "/a"], [here]) == ["", "/a"]
