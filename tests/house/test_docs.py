"""Every code block of the documentation runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from commands import python, shell
from gnomon.cli import app
from gnomon.config import resolve
from gnomon.config.sources import recipes
from gnomon.launch.subject import layers

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
CHORES = ROOT / "docs/chores.md"
"""Its blocks build on each other."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of every code block."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.S | re.M)


BLOCKS = [
    pytest.param(page, language, text, id=f"{page.name}-{number}")
    for page in PAGES
    if page != CHORES
    for number, (language, text) in enumerate(blocks(page))
]


@pytest.mark.parametrize(("page", "language", "text"), BLOCKS)
def test_a_code_block_runs(page, language, text, tmp_path):
    run_block(page, language, text, tmp_path)


@pytest.mark.long
def test_the_chores_run_in_order_in_one_folder(tmp_path):
    for language, text in blocks(CHORES):
        run_block(CHORES, language, text, tmp_path)
    assert len(re.findall("^## [1-5]", CHORES.read_text(), re.M)) == 5


def run_block(page: Path, language: str, text: str, tmp_path: Path) -> None:
    """Shell blocks line by line; `make` lines are only planned (`make -n`), since CI runs them itself.

    A line may state in its comment that it ends with `exit code 1`.
    """
    assert language in ("sh", "python", "text"), f"a block of {page.name} has no language that a test can run"
    if language == "python":
        done = python("-c", text, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for line in text.splitlines() if language == "sh" else ():
        words, _, comment = map(str.strip, line.partition("#"))
        if not words:
            continue
        planned = words.replace("make ", f"make -n -C {ROOT} ", 1) if words.startswith("make ") else words
        done = shell(planned, cwd=tmp_path)
        assert done.returncode == ("exit code 1" in comment), f"{words}\n{done.stdout}{done.stderr}"


NOT_RUN = [
    pytest.param(shlex.split(line), id=f"{page.name}-{line[:60]}")
    for page in PAGES
    if page.name != "mistakes.md"  # Its commands are wrong, and a test of its own runs them.
    for language, text in blocks(page)
    if language == "text"
    for line in text.replace("\\\n", " ").splitlines()
    if line.startswith("gnomon ")
]
"""Commands in blocks of `text`: they need a GPU, a hub, another library, hours, or a file or run of the reader's."""
TRAINING = {"train", "simulate", "plan", "serve-learner"}


@pytest.mark.parametrize("words", NOT_RUN)
def test_a_command_that_is_not_run_has_known_options_and_settings(words):
    command: Any = typer.main.get_command(app)
    context = command.make_context("gnomon", words[1:])
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
    what, settings = context.params.get("what"), context.params.get("settings")
    if words[1] in TRAINING and (not what.endswith(".toml") or what in recipes()):
        resolve(layers(what, [re.sub("=[NP]$", "=64", word) for word in settings or ()]))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_local_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} points to {target}"
