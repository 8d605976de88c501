"""Reference answers that no reply could earn, or that a verifier cannot read, are found before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import command
from gnomon.envs import Dataset
from gnomon.envs.countdown_rows import CountdownRows
from gnomon.errors import ConfigError
from gnomon.integrations.rewarded import make_env

GOLDS: dict[str, tuple[str, Any, str]] = {
    "commas": ("number", "1,000", "env.options.thousands=,"),
    "currency": ("number", "$18", "env.options.units=optional"),
    "percent": ("number", "50%", "env.options.percent=share"),
    "a formula": ("number", "x + 1", "env.verifier=math"),
    "several": ("number", ["1", "2"], "env.verifier=text"),
    "several for math": ("math", ["1", "2"], "env.verifier=text"),
    "an open bracket": ("sets", "{1, 2", "env.verifier=math"),
    "not a pattern": ("pattern", "(", "env.verifier=math"),
}
MISSING: dict[str, Any] = {
    "empty": "", "blank": " ", "not a number": float("nan"), "list with None": [None, "1"],
    "list with an empty text": ["1", ""], "a mapping": {"value": "1"}, "the end of the slot": "a</answer>b",
    "too long for a slot": "7" * 5000,
}  # fmt: skip


def written(path: Path, gold: Any) -> str:
    rows = [{"prompt": f"{n} + 1 = ?", "answer": gold if n in (9, 17) else str(n + 1)} for n in range(40)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


@pytest.mark.parametrize("name", GOLDS)
def test_a_gold_that_its_verifier_cannot_read_is_named_with_a_fix_that_works(name: str, tmp_path: Path) -> None:
    verifier, gold, fix = GOLDS[name]
    path = written(tmp_path / "a.jsonl", gold)
    with pytest.raises(ConfigError, match="E153") as caught:
        Dataset(path=path, verifier=verifier).tasks("train")
    assert "2 of 40 reference answers" in caught.value.what and "row 9" in caught.value.why
    assert caught.value.where == f"{path}, column 'answer', rows 9, 17" and caught.value.fix == fix
    options = [word.removeprefix("env.").partition("=") for word in fix.split()]
    own = {key.removeprefix("options."): value for key, _, value in options if key.startswith("options.")}
    other = next((value for key, _, value in options if key == "verifier"), verifier)
    env = Dataset(path=path, verifier=other, options=own)
    tasks = [task for split in ("train", "test") for task in env.tasks(split)]
    assert all(env.verify(task, env.framed(env.solution(task))).correct for task in tasks)


@pytest.mark.parametrize("verifier", ["text", "number", "math"])
@pytest.mark.parametrize("name", MISSING)
def test_a_missing_value_is_no_right_answer(name: str, verifier: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", MISSING[name])
    with pytest.raises(ConfigError, match="E153") as caught:
        Dataset(path=path, verifier=verifier).tasks("test")
    assert caught.value.where.endswith("column 'answer', rows 9, 17") and "row 9" in caught.value.why


@pytest.mark.parametrize("verifier", ["math", "number", "pattern", "polynomial", "schema", "sets", "text"])
def test_a_gold_that_is_nested_too_deep_is_named(verifier: str, tmp_path: Path) -> None:
    pytest.importorskip({"math": "mpmath", "schema": "jsonschema"}.get(verifier, "json"))
    gold = json.dumps({} if verifier == "schema" else "1")
    rows = [f'{{"prompt": "{n} + 1 = ?", "answer": {gold}}}' for n in range(20)]
    for place, (opening, closing) in {3: "[]", 7: ('{"not":', "}")}.items():
        rows[place] = f'{{"prompt": "deep {place}", "answer": {opening * 600}1{closing * 600}}}'
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    with pytest.raises(ConfigError, match="E153") as caught:
        Dataset(path=str(tmp_path / "a.jsonl"), verifier=verifier).tasks("train")
    assert caught.value.where.endswith("column 'answer', rows 3, 7")
    assert caught.value.why == "row 3: the task's own answer is nested over 128 deep"


def test_a_schema_is_checked_before_a_run(tmp_path: Path) -> None:
    pytest.importorskip("jsonschema")
    for gold, words in (
        ({"type": "nonsense"}, "is not a JSON schema: 'nonsense'"), ({"$ref": "#"}, "recurses without end"),
        ({"$ref": "#/nope"}, "is not a JSON schema: PointerToNowhere"), ({"pattern": "("}, "is not a 'regex'"),
    ):  # fmt: skip
        rows = [{"prompt": f"object {n}", "answer": gold} for n in range(2)]
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
        with pytest.raises(ConfigError, match="E153") as caught:
            Dataset(path=str(tmp_path / "a.jsonl"), verifier="schema").tasks("train")
        assert words in caught.value.why


def test_an_error_names_the_kind_of_a_gold_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="E153") as caught:
        Dataset(path=written(tmp_path / "a.jsonl", "x"), verifier="number").tasks("train")
    assert caught.value.why == "row 9: the task's own answer 'x' cannot be read: not a number"


def test_the_items_of_a_set_are_one_answer(tmp_path: Path) -> None:
    env = Dataset(path=written(tmp_path / "a.jsonl", ["a", "b"]), verifier="sets")
    task = next(task for split in ("train", "test") for task in env.tasks(split) if task.info["row"] == 9)
    assert env.solution(task) == "a, b" and env.verify(task, "<answer>b, a</answer>").correct
    assert not env.verify(task, "<answer>a</answer>").correct
    with pytest.raises(ConfigError, match="contains the separator ','"):
        Dataset(path=written(tmp_path / "b.jsonl", ["a, b", "c"]), verifier="sets").tasks("train")


def test_white_space_around_a_gold_is_not_part_of_it(tmp_path: Path) -> None:
    env = Dataset(path=written(tmp_path / "a.jsonl", " four\n"))
    task = next(task for split in ("train", "test") for task in env.tasks(split) if task.info["row"] == 9)
    assert env.verify(task, "<answer>four</answer>").correct and env.verify(task, "<answer> four </answer>").correct


def test_rows_that_are_not_trained_on_may_have_any_gold(tmp_path: Path) -> None:
    path, held_out = written(tmp_path / "a.jsonl", ""), tmp_path / "t.jsonl"
    held_out.write_text('{"prompt": "x", "answer": "4"}')
    env = Dataset(path=path, test=str(held_out), rows=(1, 2, 3))
    assert len(env.tasks("train")) == 3
    held_out.write_text('{"prompt": "x", "answer": ""}')
    with pytest.raises(ConfigError) as caught:
        env.tasks("train")
    assert caught.value.where == f"{held_out}, column 'answer', row 0", "the file is named that has the row"


def test_a_verifier_of_the_users_reads_every_gold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "halves_of_golds.py").write_text(
        "from gnomon.verifiers import Answered\n\n\nclass Halves(Answered):\n"
        "    def accepts(self, answer, gold):\n        return float(answer) == 2 * float(gold)\n"
    )
    with pytest.raises(ConfigError, match="could not convert string to float: 'many'") as caught:
        Dataset(path=written(tmp_path / "a.jsonl", "many"), verifier="halves_of_golds:Halves").tasks("train")
    assert "rows 9, 17" in caught.value.where


def test_targets_of_countdown_are_numbers(tmp_path: Path) -> None:
    rows = [{"nums": [n, n + 1, 2], "target": "many" if n == 5 else n} for n in range(1, 40)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(ConfigError, match="E153") as caught:
        CountdownRows(path=str(tmp_path / "a.jsonl")).tasks("train")
    assert caught.value.where.endswith("column 'target', row 4")


@pytest.mark.parametrize("key", ["env", "eval.sets.other.env"])
def test_a_run_and_its_evaluation_sets_are_refused_before_anything_starts(key: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "1,000")
    words = [f"{key}=dataset", f"{key}.path={path}", f"{key}.verifier=number", f"run={tmp_path / 'r'}", "steps=1"]
    done = command("train", *(["dataset"] if key == "env" else ["char_count"]), *words[key == "env" :])
    assert "Nothing was started" in done.stdout + done.stderr and not (tmp_path / "r").exists()
    assert f"fix: {key}.options.thousands=," in done.stdout + done.stderr


@pytest.mark.parametrize("gold", ["", " ", float("nan")])
def test_rows_of_a_reward_are_refused_too(gold: Any) -> None:
    rows = [{"prompt": f"{n}+1?", "answer": gold if n in (2, 5) else str(n)} for n in range(20)]
    with pytest.raises(ConfigError, match="E162") as caught:
        make_env(rows, lambda completion, answer: completion == answer)
    assert caught.value.where == "train, rows 2, 5, column 'answer'"
    assert len(make_env(rows, lambda completion: 1.0).train) > 10, "a reward that does not read it may have any"
