"""Rows of a code data set: which tests are read, what is shown of them, and what a reply gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gnomon.envs.base import check_isolation
from gnomon.envs.code_rows import CodeRows
from gnomon.envs.code_tests import cases, unreadable
from gnomon.envs.rows import content_hash
from gnomon.errors import ConfigError, ResourceError
from gnomon.types import Status

READ = {
    "numbers": (["assert f(1, -2.5) == 3", "assert f(2) == 'a'"], "f", [[[1, -2.5], 3], [[2], "a"]]),
    "a tuple as value": (["assert pair([1]) == (1, 2)"], "pair", [[[[1]], [1, 2]]]),
    "a script": ({"inputs": ["1 2\n"], "outputs": ["3\n"]}, "", [["1 2\n", "3\n"]]),
    "a script as lines and as JSON": ('{"inputs": [["1", "2"]], "outputs": [["3"]]}', "", [["1\n2", "3"]]),
}
UNREAD: dict[str, Any] = {
    "no tests": [],
    "nothing": None,
    "another comparison": ["assert f(1) > 2"],
    "two functions": ["assert f(1) == 2", "assert g(1) == 2"],
    "a call around it": ["assert set(f(1)) == {1}"],
    "an argument that is computed": ["assert f(range(3)) == 3"],
    "a tuple as argument": ["assert f((1, 2)) == 3"],
    "a set as value": ["assert f(1) == {1}"],
    "numbers as keys": ["assert f(1) == {1: 2}"],
    "no Python": ["assert f(1) =="],
    "a method": {"inputs": [[1]], "outputs": [2], "fn_name": "solve"},
    "unequal counts": {"inputs": ["1", "2"], "outputs": ["3"]},
    "no JSON": "{",
}


@pytest.mark.parametrize("name", READ)
def test_tests_are_read_as_inputs_and_outputs(name: str) -> None:
    tests, call, pairs = READ[name]
    assert cases(tests) == {"call": call, "cases": pairs}


@pytest.mark.parametrize("name", UNREAD)
def test_other_tests_are_not_read(name: str) -> None:
    assert unreadable(UNREAD[name])


def rows(count: int) -> list[dict[str, Any]]:
    """In the columns of MBPP."""
    return [
        {
            "task_id": n,
            "text": f"Write a function to add {n} to a number.",
            "code": f"def add{n}(x):\n    return x + {n}",
            "test_list": [f"assert add{n}({x}) == {x + n}" for x in (0, 1, 5)],
        }
        for n in range(count)
    ]


def env_of(folder: Path, found: list[dict[str, Any]], **options: Any) -> CodeRows:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return CodeRows(path=str(path), solved="code", id="task_id", **options)


def test_a_reply_is_right_if_it_passes_every_test(tmp_path: Path) -> None:
    env = env_of(tmp_path, rows(24), format=0.1)
    try:
        check_isolation(env)
    except ResourceError:
        pytest.skip("this host confines no code")
    task = next(task for task in env.tasks("train") if task.id == "7")
    asked = "Write a function to add 7 to a number.\nassert add7(0) == 7\nPython, one ```python block."
    assert task.messages[0].content == asked, "one test of three is shown"
    assert env.verify(task, env.framed(env.solution(task))).reward == 1.1
    for source, status in (
        ("def add7(x):\n    return 7", Status.WRONG),  # It passes the test that is shown.
        ("def add(x):\n    return x + 7", Status.WRONG),
        ("while True: pass", Status.EXCEEDED),
    ):
        assert env.verify(task, env.framed(source)).status is status
    assert env.verify(task, "x + 7").status is Status.NO_ANSWER
    third = env_of(tmp_path, rows(24), partial=True).verify(task, env.framed("def add7(x):\n    return 7"))
    assert third.reward == pytest.approx(1 / 3)


def test_a_script_is_judged_by_its_output(tmp_path: Path) -> None:
    tests = json.dumps({"inputs": ["1 2\n", "5 6\n"], "outputs": ["3\n", "11\n"]})
    found = [{"question": f"Add two numbers ({n}).", "input_output": tests} for n in range(12)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    env = CodeRows(path=str(path), prompt="question", answer="input_output", template="{prompt}")
    try:
        check_isolation(env)
    except ResourceError:
        pytest.skip("this host confines no code")
    task = env.tasks("train")[0]
    assert env.verify(task, env.framed("print(sum(map(int, input().split())))")).correct
    assert not env.verify(task, env.framed("print(3)")).correct


def test_rows_whose_tests_cannot_be_read_are_left_out_and_named(tmp_path: Path) -> None:
    found = rows(24)
    for n in (3, 11):
        found[n]["test_list"] = ["assert set(f(1)) == {1}"]
    env = env_of(tmp_path, found)
    ids = {task.id for split in ("train", "test") for task in env.tasks(split)}
    assert ids == {str(n) for n in range(24)} - {"3", "11"}
    assert env.remarks[0] == "The train rows leave out 2 whose tests cannot be read: rows 3, 11."
    kept = [row for row in found if row["task_id"] not in (3, 11)]
    assert len(env_of(tmp_path, found, sha256={"path": content_hash(kept)}).tasks("test"))
    with pytest.raises(ConfigError, match="E164"):
        env_of(tmp_path, found, sha256={"path": content_hash(found)}).tasks("test")


def test_offline_the_fix_is_a_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises((ConfigError, ResourceError), match=r"(?s)mbpp.*(hf download|datasets)"):
        CodeRows(test="test").tasks("train")
