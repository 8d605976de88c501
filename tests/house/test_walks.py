"""The walks through the code name files that exist, and what stands in them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import gnomon

ROOT = Path(gnomon.__file__).parent
WALKS = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text().partition("## Three walks")[2]
STEPS = re.findall(r"`(\w+/\w+\.py)`, `([\w.]+)`", WALKS)


def test_every_file_exists():
    named = re.findall(r"`(\w+/(?:\w+\.py)?)`", WALKS)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.every
@pytest.mark.parametrize(("file", "name"), STEPS)
def test_every_name_is_in_its_file(file, name):
    found: list[ast.AST] = [ast.parse((ROOT / file).read_text())]
    for part in name.split("."):
        found = [node for parent in found for node in ast.iter_child_nodes(parent) if part in names(node)]
    assert found


def names(node: ast.AST) -> list[str]:
    """What a statement defines."""
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return [node.name]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []
