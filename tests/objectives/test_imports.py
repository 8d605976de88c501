"""Every module of the objectives can be the first that a program imports."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import gnomon.objectives as package

FIRST = """
import importlib, sys, torch
for name in sys.argv[1:]:
    for known in [known for known in sys.modules if known.startswith("gnomon")]:
        del sys.modules[known]
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error)
"""
"""Imports each module with none of ours loaded. One process does: torch, which takes seconds, stays."""


def test_every_module_can_be_imported_first() -> None:
    names = [f"gnomon.objectives.{found.name}" for found in pkgutil.iter_modules(package.__path__)]
    assert "gnomon.objectives.row" in names
    done = subprocess.run([sys.executable, "-c", FIRST, *names], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_a_module_and_a_name_of_the_package_are_told_apart() -> None:
    """In a fresh interpreter, in either order."""
    code = "from gnomon.objectives import row, grpo, penalties; print(row.__name__, grpo().name, penalties.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["gnomon.objectives.row", "grpo", "gnomon.objectives.penalties"], done.stderr
