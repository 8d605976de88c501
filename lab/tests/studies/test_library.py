"""The studies that ship: short files, results that are theirs, exact numbers that come out again, pages up to date."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gnomon.models import smollm2
from gnomon_lab.studies import load
from gnomon_lab.studies.design import numbers_of, sha256
from gnomon_lab.studies.listing import NOT_RUN, RESULTS, by_chance, entry, library, list_studies, listed_text, publish
from gnomon_lab.studies.moves import is_registered
from gnomon_lab.studies.outcome import outcome, verdict_of
from gnomon_lab.studies.page import page_text

DOCS = Path(__file__).parents[3] / "docs/lab"
NOWHERE = Path("/nonexistent")
SLOW = {"batch-mates", "bombs", "changed-verifier", "kill-and-resume", "light-start", "locked-predictions"}
SLOW |= {"fresh-install", "minimal-recipe", "one-file-task", "one-script", "one-task-through-time"}
"""Their subjects have tests of their own: they start interpreters, load models, or train."""
EXACT = [row.name for row in list_studies(NOWHERE) if row.study.exact and not row.pretrained and row.name not in SLOW]


def test_a_study_is_a_file_of_at_most_40_lines() -> None:
    assert {name: lines for name, path in library().items() if (lines := len(path.read_text().splitlines())) > 40} == {}


def test_a_result_that_ships_is_of_the_file_that_ships() -> None:
    registered = {path.stem: json.loads(path.read_text())["sha256"] for path in RESULTS.glob("*.json")}
    assert [name for name, sha in registered.items() if not is_registered(library()[name], sha)] == []


def test_a_registered_file_may_have_moved_imports_and_no_other_change(tmp_path: Path) -> None:
    path = tmp_path / "study.py"
    path.write_text("from gnomon.launch.find import make_env\n")
    registered = sha256(path)
    path.write_text("from gnomon.run.find import make_env\n")
    assert sha256(path) != registered and is_registered(path, registered)
    path.write_text("from gnomon.run.find import make_env  # Another file.\n")
    assert not is_registered(path, registered)


@pytest.mark.parametrize("name", EXACT)
def test_exact_numbers_come_out_again(name: str) -> None:
    study = load(library()[name])
    functions = {arm: numbers_of(study, arm) for arm in study.arms}
    measured = {arm: {seed: dict(of(seed)) for seed in study.seeds} for arm, of in functions.items() if of}
    result = entry(name, library()[name], NOWHERE).result
    assert result and outcome(study, measured, study.seeds).verdict == result["verdict"]
    for arm, values in measured.items():
        for seed, numbers in values.items():
            assert numbers == pytest.approx(result["measured"][arm][str(seed)], rel=1e-9, abs=1e-12)


def test_the_list_has_verdict_date_seeds_and_command(tmp_path: Path) -> None:
    rows = {row.name: row for row in list_studies(tmp_path)}
    assert set(rows) == set(library()) and all(row.study.question.endswith("?") for row in rows.values())
    assert rows["difficulty-bias"].verdict == "FAIL" and rows["difficulty-bias"].seeds == "exact"
    assert all((row.date == "") == (row.verdict == NOT_RUN) == (row.result is None) for row in rows.values())
    text = listed_text()
    assert all(row.command in text and row.study.question in text for row in rows.values())
    assert by_chance([]).startswith("Of 0 studies") and "2.5 of fifty" in text.replace("\n", " ")


@pytest.mark.needs("gguf")
def test_every_arm_of_a_study_has_settings_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of pretrained models are read from their folders; SmolLM2 stands in for a folder that the reader makes."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "gemma").symlink_to(smollm2.folder())
    monkeypatch.chdir(tmp_path)
    assert [load(path).question for path in library().values()]


def test_the_list_reads_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is there without a package of weights, too."""
    monkeypatch.setattr("gnomon.models.smollm2.folder", lambda *_: pytest.fail("a model was read"))
    assert "gnomon study smollm2-temperature" in listed_text()


def result_that_measured(name: str, number: float) -> dict[str, Any]:
    """The shipped result of a study, with the same number for every measure."""
    result = json.loads((RESULTS / f"{name}.json").read_text())
    for seeds in result["measured"].values():
        for numbers in seeds.values():
            numbers.update(dict.fromkeys(numbers, number))
    return dict(result)


def test_a_verdict_is_withdrawn_where_no_arm_was_ever_rewarded(tmp_path: Path) -> None:
    """And counts nowhere. One number that is not 0, a run that crashed, or exact numbers keep the verdict."""
    name, path = "char-count-rises", library()["char-count-rises"]
    study, nothing = load(path), result_that_measured(name, 0.0)
    assert verdict_of(study, nothing) == "withdrawn: no arm was ever rewarded"
    assert verdict_of(study, result_that_measured(name, 0.01)) == "PASS"
    assert verdict_of(replace(study, exact=True), nothing) == "PASS"
    arm, seeds = next(iter(nothing["measured"].items()))
    crashed = {**nothing, "measured": {**nothing["measured"], arm: {**seeds, next(iter(seeds)): None}}}
    assert verdict_of(study, crashed) == "PASS"
    (tmp_path / "result.json").write_text(json.dumps(nothing))
    row = entry(name, path, tmp_path)
    assert row.verdict.startswith("withdrawn") and not row.counts and by_chance([row]).startswith("Of 0 studies")
    assert "**withdrawn: no arm was ever rewarded** with" in page_text(study, nothing)


def test_the_studies_without_a_reward_are_named_in_the_list() -> None:
    rows = {row.name for row in list_studies(NOWHERE) if row.verdict.startswith("withdrawn")}
    assert rows == {"likelihood-trained", "mutated-tasks", "zero-start"}
    text = listed_text()
    assert text.count("(no arm was ever rewarded)") == 3 and text.count("\nwithdrawn    20") == 3


def test_a_changed_file_has_no_result_and_is_not_published(tmp_path: Path) -> None:
    changed = tmp_path / "studies" / "update-scale" / "study.py"
    changed.parent.mkdir(parents=True)
    changed.write_text(library()["update-scale"].read_text() + "\n")
    row = entry("update-scale", changed, changed.parent)
    assert row.verdict == NOT_RUN and row.command == f"gnomon study {changed} --folder {changed.parent}"
    shipped = json.loads((RESULTS / "update-scale.json").read_text())
    (changed.parent / "result.json").write_text(json.dumps({**shipped, "sha256": sha256(changed)}))
    assert entry("update-scale", changed, changed.parent).verdict == "PASS"
    assert publish(tmp_path / "studies") == []


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("study_pages", DOCS / "study_pages.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_pages_are_what_the_results_say(writer: ModuleType) -> None:
    written = writer.pages()
    there = {f"studies/{page.name}" for page in (DOCS / "studies").glob("*.md")}
    assert there | {"study-results.md", "claims.md", "questions.md"} == set(written), (
        "run python docs/lab/study_pages.py"
    )
    old = [path for path, text in written.items() if (DOCS / path).read_text() != text]
    assert not old, f"out of date, run python docs/lab/study_pages.py: {old}"


def test_every_open_question_has_a_study_and_says_what_it_cannot_show(writer: ModuleType) -> None:
    questions = tomllib.loads((DOCS / "questions.toml").read_text())["question"]
    assert len(questions) == 20
    for asked in questions:
        assert asked["asks"].endswith("?") and asked["limits"] and set(asked["studies"]) <= set(library())
        assert asked["studies"], asked["asks"]
    page = writer.questions_text(questions[:2], list_studies(NOWHERE))
    assert "1 of 2 questions" in page and f"| {questions[0]['asks']} | withdrawn: no arm was ever rewarded: [" in page


def test_a_claim_shows_the_verdict_of_its_studies_and_a_study_that_does_not_ship_is_found(writer: ModuleType) -> None:
    rows = list_studies(NOWHERE)
    said = {"says": "It grows.", "source": "A paper"}
    page = writer.claims_text([{**said, "studies": ["difficulty-bias"]}, {**said, "studies": []}], rows)
    assert "1 of 2 claims" in page and "| It grows. | A paper | FAIL: [" in page and "| A paper | no study |" in page
    with pytest.raises(KeyError, match="nonexistent"):
        writer.claims_text([{**said, "studies": ["nonexistent"]}], rows)
