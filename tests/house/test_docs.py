"""Every code block of the documentation runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from commands import python, shell

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
BLOCKS = [
    pytest.param(page, language, text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, (language, text) in enumerate(re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.S | re.M))
]


@pytest.mark.parametrize(("page", "language", "text"), BLOCKS)
def test_a_code_block_runs(page, language, text, tmp_path):
    """Shell blocks line by line; `make` lines are only planned (`make -n`), since CI runs them itself."""
    assert language in ("sh", "python", "text"), f"a block of {page.name} has no language that a test can run"
    if language == "python":
        done = python("-c", text, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for line in text.splitlines() if language == "sh" else ():
        words = line.partition("#")[0].strip()
        if not words:
            continue
        planned = words.replace("make ", f"make -n -C {ROOT} ", 1) if words.startswith("make ") else words
        done = shell(planned, cwd=tmp_path)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_local_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} points to {target}"
