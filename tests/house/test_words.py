"""Pages and messages avoid words that only this project would use in that sense."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
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
NAMES = {*AVOIDED, "given", "hear", "look", "experience", "manager", "processor", "utils", "misc"}
"""Not used in names of functions, classes, parameters and variables either."""
EXTERNAL = {"RubricReward", "rubric", "post_processor", "image_processor"}
"""Names of other libraries: `Rubric` of verifiers, a key of tokenizer.json, a part of transformers' processors."""
FORMS = {word: rf"{word[:-1]}(?:y|ies)" if word.endswith("y") else rf"{word}(?:s|ed)?" for word in AVOIDED}
WORDS = re.compile(rf"\b({'|'.join(FORMS.values())})\b", re.IGNORECASE)
STYLE = ROOT / "docs" / "style.md"
"""It quotes the avoided words."""
PAGES = sorted({ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")} - {STYLE})
MODULES = sorted((ROOT / "src").rglob("*.py"))


def sentences(path: Path) -> str:
    """Prose of a page, or docstrings and messages of a module, without their code."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    else:
        constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
        text = "\n".join(value for value in constants if isinstance(value, str) and " " in value.strip())
    return re.sub(r"`[^`\n]*`", "", text)


def names(source: str) -> Iterator[str]:
    """The names that a module defines: functions, classes, parameters, variables, attributes and aliases."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.alias(asname=str(name)):
                yield name


def words_of(name: str) -> set[str]:
    """The words of a name in snake case or camel case, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.every
@pytest.mark.parametrize("name", [*map(name_of, PAGES), *map(name_of, MODULES)])
def test_a_file_uses_the_words_of_the_field(name: str) -> None:
    found = sorted({word.lower() for word in WORDS.findall(sentences(ROOT / name))})
    assert not found, f"{name}: {found}; instead: {AVOIDED}"


@pytest.mark.every
@pytest.mark.parametrize("name", [*map(name_of, MODULES)])
def test_a_module_names_things_in_the_words_of_the_field(name: str) -> None:
    source = (ROOT / name).read_text("utf-8")
    found = sorted({each for each in names(source) if words_of(each) & NAMES} - EXTERNAL)
    assert not found, f"{name}: {found}"


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


def test_words_are_found_in_names_alone() -> None:
    source = "def told(a, given=1):\n    self.said_twice = a.heard\n    for voice in y: pass\nclass BigLedger: pass\n"
    found = [name for name in names(source) if words_of(name) & NAMES]
    assert sorted(found) == ["BigLedger", "given", "said_twice", "told", "voice"]


def test_a_docstring_describes_parameters_that_exist() -> None:
    wrong = []
    for file in (*MODULES, *(ROOT / "lab" / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                parameters = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
                described = re.search(
                    r"Args:(.*?)(?=\b(Returns|Raises|Equation|Source|Differs):|\Z)",
                    ast.get_docstring(node) or "",
                    re.DOTALL,
                )
                names = re.findall(r"(?:^|\n|;)\s*(\w+(?:, \w+)*):\s", described[1] if described else "")
                wrong += [(file.name, node.name, n) for n in ", ".join(names).split(", ") if n and n not in parameters]
    assert not wrong
