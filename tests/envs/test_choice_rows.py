"""Multiple choice from rows as data sets write them: the right option becomes a letter, or an error says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gnomon.envs.check import check_env
from gnomon.envs.choice_rows import ChoiceRows
from gnomon.envs.dataset import Dataset
from gnomon.errors import ConfigError

TEXTS = ["red", "green", "blue", "grey"]
LABELS = {"label": ["A", "B", "C", "D"], "text": TEXTS}
NUMBERS = ["1", "2", "4", "3"]

READ: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "ARC": (LABELS, "C", {}, "C"),
    "ARC with numbers": ({"label": ["1", "2", "3", "4"], "text": TEXTS}, "3", {}, "C"),
    "ARC with numbers, an integer": ({"label": ["1", "2", "3", "4"], "text": TEXTS}, 3, {}, "C"),
    "MMLU": (TEXTS, 2, {}, "C"),
    "MMLU, whose options are numbers": (NUMBERS, 2, {}, "C"),
    "a letter": (TEXTS, "c", {}, "C"),
    "an index as text": (TEXTS, "2", {}, "C"),
    "the text": (TEXTS, " Blue", {}, "C"),
    "the text of a number": (NUMBERS, "4", {"gold_is": "text"}, "C"),
    "an index as text beside numbers": (NUMBERS, "2", {"gold_is": "index"}, "C"),
    "counted from 1": (TEXTS, 3, {"gold_is": "number"}, "C"),
    "mappings": ([{"label": "p", "text": "red"}, {"label": "q", "text": "green"}], "q", {}, "B"),
    "JSON": (json.dumps(TEXTS), "C", {}, "C"),
    "JSON with labels": (json.dumps(LABELS), "C", {}, "C"),
}
REFUSED: dict[str, tuple[Any, Any, str, str]] = {
    "counted from 1": (TEXTS, 4, "is not the label, text or index from 0 of one of", "env.gold_is=number"),
    "a fifth": (TEXTS, "E", "is not the label, text or index", "correct or remove these rows"),
    "ambiguous": (NUMBERS, "2", "the index of '4' and the text of '2'", "env.gold_is="),
    "a letter beside letters": (["B", "A", "C"], "A", "the label of 'B' and the text of 'A'", "env.gold_is="),
    "two alike": (["red", "Red"], "A", "must be 2 to 26 different texts", ""),
    "one option": (["red"], "A", "must be 2 to 26 different texts", ""),
    "text": ("A) red B) green", "A", "must be a list of texts", ""),
    "other keys": ({"names": ["red"]}, "A", "must have label and text", ""),
}  # fmt: skip


def written(path: Path, options: Any, gold: Any, count: int = 60) -> str:
    rows = [{"question": f"Which colour has number {n}?", "choices": options, "answerKey": gold} for n in range(count)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


@pytest.mark.parametrize("name", READ)
def test_a_row_becomes_a_task(name: str, tmp_path: Path) -> None:
    options, gold, settings, letter = READ[name]
    env = ChoiceRows(path=written(tmp_path / "a.jsonl", options, gold), **settings)
    task = env.tasks("train")[0]
    texts, place = task.info["options"], "ABCD".index(letter)
    assert task.answer == letter and f"{letter}) {texts[place]}" in task.messages[-1].content
    wrong = texts[place - 1]
    for answer, right in ((letter, True), (f"({letter}) {texts[place]}", True), (texts[place], True), (wrong, False)):
        assert env.verify(task, f"<answer>{answer}</answer>").correct is right, answer
    assert all(env.verify(task, env.framed(env.solution(task))).correct for task in env.tasks("test"))


@pytest.mark.parametrize("name", REFUSED)
def test_a_row_that_names_no_option_or_two_is_refused(name: str, tmp_path: Path) -> None:
    options, gold, why, fix = REFUSED[name]
    with pytest.raises(ConfigError, match="E153") as caught:
        ChoiceRows(path=written(tmp_path / "a.jsonl", options, gold)).tasks("train")
    assert why in caught.value.why and caught.value.fix.startswith(fix), str(caught.value)
    if "=number" in fix:
        assert ChoiceRows(path=str(tmp_path / "a.jsonl"), gold_is="number").tasks("train")[0].answer == "D"  # type: ignore[arg-type]


def test_rows_without_options_name_their_columns(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "q", "options": ["a", "b"], "answerKey": "A"}\n' * 2)
    with pytest.raises(ConfigError, match="there is no column 'choices' of options; the columns are question, options"):
        ChoiceRows(path=str(tmp_path / "a.jsonl")).tasks("train")


def test_it_is_an_environment_and_the_error_of_a_data_set_names_it(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", TEXTS, 2)
    with pytest.raises(ConfigError, match=r"E156[\s\S]*env=gnomon.envs.choice_rows:ChoiceRows"):
        Dataset(path=path, prompt="question", answer="answerKey", verifier="choice").tasks("train")
    found = check_env(ChoiceRows(path=path)).findings
    # All rows have the same right letter.
    assert {each.name for each in found if each.passed is False} <= {"constant answer"}, found
