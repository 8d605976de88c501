"""Pages and messages avoid words that only this project would use in that sense."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AVOIDED = {
    "nursery": "fork server",
    "cradle": "fork server",
    "jail": "sandbox",
    "referee": "environment workers",
    "court": "verifier",
    "ruling": "verdict",
    "told": "observation",
    "heard": "observation",
    "said": "completion",
    "ledger": "reward breakdown",
    "lookout": "monitoring",
    "voice": "sampler",
    "mind": "learner",
    "climb": "maximise",
    "pull": "penalty, or what the sentence means",
    "bought": "hacked",
    "trajectory": "rollout",
    "datum": "sequence",
    "rubric": "verifier",
}
"""What to write instead. Words with a plain use beside the one that is avoided are left to the reader of a change:
given, look, memory, experience, builder, manager, handler, processor, common.
"""
FORMS = {word: rf"{word[:-1]}(?:y|ies)" if word.endswith("y") else rf"{word}(?:s|ed)?" for word in AVOIDED}
WORDS = re.compile(rf"\b({'|'.join(FORMS.values())})\b", re.IGNORECASE)
NOT_YET = frozenset((Path(__file__).parent / "words_not_yet.txt").read_text().split())
"""Files that are still to be rewritten. Take a file off when it is; put none on."""
STYLE = ROOT / "docs" / "style.md"
"""It quotes the avoided words."""
PAGES = sorted({ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")} - {STYLE})
MODULES = sorted((ROOT / "src").rglob("*.py"))


def sentences(path: Path) -> str:
    """Prose of a page without its code; docstrings and messages of a module."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return "\n".join(value for value in constants if isinstance(value, str) and " " in value.strip())


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def left(name: str) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.xfail(reason="not yet rewritten"),) if name in NOT_YET else ()


@pytest.mark.parametrize("name", [pytest.param(name, marks=left(name)) for name in map(name_of, [*PAGES, *MODULES])])
def test_a_file_uses_the_words_of_the_field(name: str) -> None:
    found = sorted({word.lower() for word in WORDS.findall(sentences(ROOT / name))})
    assert not found, f"{name}: {found}; instead: {AVOIDED}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Two nurseries of one cradle.", ["nurseries", "cradle"]),
        ("It climbs; `climbs` in code does not count.", ["climbs"]),
        ("```text\nreferee\n```\nmindful courtesy", []),
    ],
)
def test_words_are_found_in_prose_alone(text: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(text)
    assert WORDS.findall(sentences(tmp_path / "page.md")) == found
