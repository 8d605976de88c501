"""Every code block of the documentation runs."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer

from commands import command, python, shell
from fixes import SOON, brief
from gnomon.cli import app
from gnomon.config import resolve
from gnomon.config.sources import recipes
from gnomon.models.folder import SHIPPED
from gnomon.run.subject import layers

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITTEN = [page for folder in (DOCS, DOCS / "lab", DOCS / "results") for page in sorted(folder.glob("*.md"))]
PAGES = [ROOT / "README.md", *WRITTEN, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
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


IN_TEXT = [
    pytest.param(shlex.split(line, comments=True), id=f"{page.name}-{line[:60]}")
    for page in PAGES
    if page.name != "mistakes.md"  # Its commands are wrong, and a test of its own runs them.
    for language, text in blocks(page)
    if language == "text"
    for line in text.replace("\\\n", " ").splitlines()
    if line.startswith("gnomon ")
]
"""Commands in blocks of `text`. They are run with fewer steps, on runs made for them, unless they are in `NOT_RUN`."""
NOT_RUN = {
    "Qwen|gsm8k-qwen3-0.6b": "reads a model of the hub",
    "launch=ray": "starts a cluster; tests/run runs such runs",
    "engine=vllm|env.python=|rg:": "needs another library in an environment of its own",
    "agent=|my_agent.py|examples/(calculator|shapes|sums)": "needs a program or its clients; tests/endpoint run such",
    "^gnomon serve ": "serves until it is interrupted; tests/endpoint/test_serve.py asks it",
    "states=8bit": "needs bitsandbytes; tests/learners run it",
    "CodeRows|ChoiceRows|import out/|gsm.jsonl|env.image=": "needs data or logs of the reader's",
    "runs/sight": "needs a small policy that sees; tests/end_to_end/test_sight.py trains one",
    "^gnomon play repair": "asks a person; tests/endpoint/test_repair.py replies",
    "^gnomon conform ": "needs another trainer; tests/conformance has one",
    "^gnomon diverge runs/here runs/there": "needs two runs; tests/comparison has them",
    "^gnomon check-weights ": "needs a server beside it; tests/engines/test_served.py has one",
    "serve-learner|learner=http|resume runs/a learner=local": "needs a server; tests/learners/test_served.py has one",
    "^gnomon (study|ablate|scaling) ": "starts dozens of runs",
    "^gnomon gain ": "samples for minutes; tests/comparison/test_gain.py runs it",
    "^gnomon eval suite ": "needs data sets of the hub; tests/run/test_suite.py serves some",
    "gnomon simulate": "simulates a cluster for minutes",
    "SMALL": "needs the weights of Gemma",
}
"""Patterns of commands that are not run, and why. Their options and settings are still resolved."""
MADE = {
    "RUN": "char_count",
    "runs/base": "char_count",
    "runs/letters": "char_count",
    "runs/sums": "arithmetic",
    "runs/a0": "char_count",
    "runs/a1": "char_count seed=1",
    "runs/b0": "char_count lr=1e-4",
    "runs/b1": "char_count lr=1e-4 seed=1",
}
"""Runs of the reader's in these commands, and how they are trained."""
TRAINING = {"train", "simulate", "plan", "serve-learner"}


def reason(words: list[str]) -> str:
    """Why a command is not run; empty for one that is."""
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, " ".join(words))), "")


@pytest.mark.parametrize("words", [each for each in IN_TEXT if not reason(each.values[0])])  # type: ignore[arg-type]
def test_a_command_in_text_runs(words, tmp_path):
    shutil.copytree(SHIPPED["tiny"], tmp_path / "teacher-model")
    named = {word.partition("=")[2] if "=" in word and not word.startswith("run=") else word for word in words}
    for name in named & MADE.keys():
        made = command(*brief(["train", *MADE[name].split(), f"run={name}"]), cwd=tmp_path)
        assert made.returncode == 0, made.stderr
    ends = list(SOON) if words[1] == "train" else []
    done = command(*words[1:], *ends, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_reason_is_of_a_command():
    lines = [" ".join(each.values[0]) for each in IN_TEXT]  # type: ignore[arg-type]
    assert not [pattern for pattern in NOT_RUN if not any(re.search(pattern, line) for line in lines)]


@pytest.mark.parametrize("words", IN_TEXT)
def test_a_command_in_text_has_known_options_and_settings(words):
    parsed: Any = typer.main.get_command(app)
    context = parsed.make_context("gnomon", words[1:])
    while hasattr(parsed, "resolve_command"):
        name, parsed, rest = parsed.resolve_command(context, [*context._protected_args, *context.args])
        context = parsed.make_context(name, rest, parent=context)
    what, settings = context.params.get("what"), context.params.get("settings")
    if words[1] in TRAINING and (not what.endswith(".toml") or what in recipes()):
        resolve(layers(what, [re.sub("=[NP]$", "=64", word) for word in settings or ()]))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_local_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} points to {target}"
