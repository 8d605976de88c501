"""A data set as an environment: columns, splits, order, one-shot, ranked subsets, and every mistake with its place."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from commands import command
from gnomon.envs import Dataset
from gnomon.envs.base import SLOT, split_of
from gnomon.envs.check import check_env
from gnomon.envs.rows import hub
from gnomon.errors import ConfigError, ResourceError, RunError
from gnomon.types import Message, Status
from gnomon.verifiers import LLMJudge
from models.hub_cache import ONE, TWO, Stored, serving


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def sums(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"q": f"{n} + 1 = ?", "a": f"so it is #### {n + 1}", "n": f"row-{n}"} for n in range(start, start + count)]


COLUMNS: dict[str, Any] = {"prompt": "q", "answer": "a", "after": "####"}


def prompts(env: Dataset, split: str) -> list[str]:
    tasks = env.tasks(split)
    return [tasks[index].messages[-1].content for index in range(len(tasks))]


def test_columns_are_mapped_and_the_verifier_judges(tmp_path: Path) -> None:
    env = Dataset(path=written(tmp_path / "a.jsonl", sums(80)), verifier="number", id="n", **COLUMNS)
    task = next(task for task in env.tasks("train") if task.info["row"] == 7)
    assert task.id == "row-7" and task.answer == "8" and task.messages[0].content == f"7 + 1 = ? {SLOT}"
    assert env.verify(task, "<answer>8.0</answer>").correct, "a number, not a text"
    assert env.verify(task, "<answer>9</answer>").status is Status.WRONG
    assert env.solution(task) == "8" and env.reward_range == (0.0, 1.0)
    assert not Dataset(path=env.path, **COLUMNS).verify(task, "<answer>8.0</answer>").correct, "by the default, a text"
    paid = Dataset(path=env.path, format=0.1, **COLUMNS)
    assert paid.verify(task, "<answer>9</answer>").reward == 0.1 and paid.reward_range == (0.0, 1.1)
    tolerant = Dataset(path=env.path, verifier="text", options={"rules": ["case"]}, **COLUMNS)
    assert tolerant.verify(task, "<answer>8</answer>").correct


def test_without_a_split_an_eighth_is_held_out_by_the_question(tmp_path: Path) -> None:
    """Of 400 rows 50 are expected to be held out, with a standard deviation of 6.6; the bound is four of them."""
    env = Dataset(path=written(tmp_path / "a.jsonl", sums(400)), **COLUMNS)
    train, test = prompts(env, "train"), prompts(env, "test")
    assert len(train) + len(test) == 400 and not set(train) & set(test) and abs(len(test) - 50) < 27
    assert {split_of(task.id) for task in env.tasks("test")} == {"train", "test"}, "the id has no say in it"
    grown = Dataset(path=written(tmp_path / "b.jsonl", sums(500)), **COLUMNS)
    assert set(test) <= set(prompts(grown, "test")), "more rows move none to the other side"


@pytest.mark.parametrize("first", range(6))
def test_of_two_questions_one_is_held_out(first: int, tmp_path: Path) -> None:
    """By their hash alone, both would be train rows in 49 of 64 such files, and test rows in one."""
    env = Dataset(path=written(tmp_path / "a.jsonl", 3 * sums(2, first)), **COLUMNS)
    assert [len(env.tasks(split)) for split in ("train", "test")] == [3, 3]
    assert not set(prompts(env, "train")) & set(prompts(env, "test"))


def test_a_column_or_a_second_file_says_what_is_held_out(tmp_path: Path) -> None:
    rows = [{**row, "side": "test" if place % 4 == 0 else "train"} for place, row in enumerate(sums(40))]
    by_column = Dataset(path=written(tmp_path / "a.jsonl", rows), split="side", **COLUMNS)
    assert len(by_column.tasks("test")) == 10 and {t.info["row"] % 4 for t in by_column.tasks("test")} == {0}
    by_file = Dataset(path=by_column.path, test=written(tmp_path / "t.jsonl", sums(5, 100)), **COLUMNS)
    assert len(by_file.tasks("train")) == 40
    assert sorted(prompts(by_file, "test")) == sorted(f"{n} + 1 = ? {SLOT}" for n in range(100, 105))


def test_the_order_is_drawn_by_the_seed_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", sums(100))
    orders = [prompts(Dataset(path=path, seed=seed, **COLUMNS), "train") for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2] and sorted(orders[0]) == sorted(orders[2])
    assert orders[0] != sorted(orders[0], key=lambda text: int(text.split()[0]))


def test_a_file_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", sums(40))
    before = set(prompts(Dataset(path=path, **COLUMNS), "train"))
    written(tmp_path / "a.jsonl", sums(41, 1000))
    assert not before & set(prompts(Dataset(path=path, **COLUMNS), "train"))


def test_one_row_many_times_is_one_shot_training(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", sums(80))
    whole = Dataset(path=path, **COLUMNS)
    row = whole.tasks("train")[0].info["row"]
    env = Dataset(path=path, rows=(row,), repeat=64, **COLUMNS)
    tasks = env.tasks("train")
    assert len(tasks) == 64 and {task.info["row"] for task in tasks} == {row}
    assert prompts(env, "test") == prompts(whole, "test"), "the held-out rows stay as they were"
    with pytest.raises(IndexError):
        tasks[64]


def test_rows_are_kept_by_the_values_of_a_column(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [{**row, "level": place % 5 + 1} for place, row in enumerate(sums(80))])
    env = Dataset(path=path, where={"level": (3, 5)}, **COLUMNS)
    whole = Dataset(path=path, **COLUMNS)
    rows = [task.info["row"] for task in env.tasks("train")]
    assert {row % 5 + 1 for row in rows} == {3, 5} and set(rows) <= {task.info["row"] for task in whole.tasks("train")}
    assert prompts(env, "test") == prompts(whole, "test"), "the held-out rows stay as they were"
    for wrong, code in (({"level": (9,)}, "E155(.|\n)*9"), ({"grade": (3,)}, "E153")):
        with pytest.raises(ConfigError, match=code):
            Dataset(path=path, where=wrong, **COLUMNS).tasks("train")


def test_a_ranking_keeps_the_first_rows_in_its_order(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", sums(80))
    ids = [task.id for task in Dataset(path=path, **COLUMNS).tasks("train")]
    order = [ids[9], "of another data set", ids[4], ids[30], ids[2]]
    ranked = tmp_path / "ranked.json"
    ranked.write_text(json.dumps({"tasks": [{"id": name} for name in order]}))
    env = Dataset(path=path, ranked=str(ranked), first=3, repeat=2, **COLUMNS)
    assert [task.id for task in env.tasks("train")] == [ids[9], ids[4], ids[30]] * 2
    assert len(env.tasks("test")) == 80 - len(ids)


def test_conversations_and_several_right_answers(tmp_path: Path) -> None:
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "A primary colour?"}]
    rows = [{"prompt": said, "answer": ["red", "blue"]}, {"prompt": "And {prompt}?", "answer": 4}]
    path = written(tmp_path / "a.jsonl", rows)
    env = Dataset(path=path, test=written(tmp_path / "t.jsonl", [{"prompt": "x", "answer": "y"}]))
    by_row = {task.info["row"]: task for task in env.tasks("train")}
    asked = Message(role="user", content=f"A primary colour? {SLOT}")
    assert by_row[0].messages == (Message(role="system", content="Be brief."), asked)
    assert [env.verify(by_row[0], f"<answer>{a}</answer>").correct for a in ("red", "blue", "green")] == [
        True,
        True,
        False,
    ]
    assert env.solution(by_row[0]) == "red"
    assert by_row[1].messages[0].content == f"And {{prompt}}? {SLOT}" and by_row[1].answer == "4"


RULES = "Answer with a number in <answer>...</answer>."


def conversations(path: Path, system: str, asked: str = "{n}+0?") -> Path:
    rows = [
        {"prompt": [{"role": "system", "content": system.format(n=n)}, {"role": "user", "content": asked.format(n=n)}],
         "answer": str(n)} for n in range(40)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("split", ["train", "test"])
def test_examples_share_one_system_message(split: str, tmp_path: Path) -> None:
    env = Dataset(path=str(conversations(tmp_path / "rows.jsonl", "Add.")), shots=3)
    roles = [message.role for message in env.tasks(split)[0].messages]
    assert roles == ["system", *["user", "assistant"] * 3, "user"]
    assert len({message.content for message in env.tasks(split)[0].messages[1::2]}) == 4


def test_system_messages_that_differ_stay_with_their_questions(tmp_path: Path) -> None:
    env = Dataset(path=str(conversations(tmp_path / "rows.jsonl", "You add to {n}.")), shots=2)
    messages = env.tasks("train")[0].messages
    assert [message.role for message in messages] == ["system", "user", "assistant"] * 2 + ["system", "user"]
    for system, asked in zip(messages[::3], messages[1::3], strict=True):
        assert system.content.split()[-1].strip(".") == asked.content.partition("+")[0]


@pytest.mark.parametrize(
    ("system", "asked", "times"),
    [
        (RULES, "{n}+0?", 1),
        ("Write <answer>7</answer> for seven.", "{n}+0?", 1),
        ("Add.", "{n}+0? " + RULES, 1),
        ("Add.", "{n}+0?", 1),
        ("Write ANSWER.", "{n}+0?", 1),
    ],
)
@pytest.mark.parametrize("shots", [0, 2])
def test_a_row_that_shows_the_slot_gets_no_second_one(
    system: str, asked: str, times: int, shots: int, tmp_path: Path
) -> None:
    """As `gnomon check` demands it of every prompt."""
    env = Dataset(path=str(conversations(tmp_path / "rows.jsonl", system, asked)), shots=shots)
    messages = env.tasks("train")[0].messages
    prompt = "".join(message.content for message in (messages[0], messages[-1]))
    assert prompt.count("<answer>") == times
    assert {finding.name: finding.passed for finding in check_env(env, tasks=4).findings}["prompt"]
    assert env.remarks == []


def test_a_format_that_the_rows_show_twice_is_told(tmp_path: Path) -> None:
    env = Dataset(path=str(conversations(tmp_path / "rows.jsonl", RULES, "{n}+0? " + RULES)))
    (sentence,) = env.remarks
    assert "2 times" in sentence


def test_a_preview_is_the_prompt_as_text() -> None:
    env = Dataset(shots=1)
    text = env.preview("test", 2)
    task = env.tasks("test")[2]
    assert text == "".join(message.content + "\n" for message in task.messages) and text.count("\n") == 3
    assert "<answer>" in task.messages[1].content and Dataset().tasks("test")[2].messages == task.messages[2:]


# Other formats


def test_parquet_gives_what_json_lines_give(tmp_path: Path) -> None:
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    pq.write_table(pa.Table.from_pylist(sums(60)), tmp_path / "a.parquet")
    lines = Dataset(path=written(tmp_path / "a.jsonl", sums(60)), **COLUMNS)
    table = Dataset(path=str(tmp_path / "a.parquet"), **COLUMNS)
    for split in ("train", "test"):
        assert list(table.tasks(split)) == list(lines.tasks(split))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(ConfigError, match="E150") as caught:
        Dataset(path=str(tmp_path / "b.parquet")).tasks("train")
    assert "b.parquet" in str(caught.value)


def test_a_folder_in_the_hubs_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    import datasets.config

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "own" / "data"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(sums(30)), folder / "train-00000-of-00001.parquet")
    pq.write_table(pa.Table.from_pylist(sums(6, 500)), folder / "test-00000-of-00001.parquet")
    (tmp_path / "own" / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    env = Dataset(path=str(tmp_path / "own"), test="test", **COLUMNS)
    assert len(env.tasks("train")) == 30
    assert sorted(prompts(env, "test")) == sorted(f"{n} + 1 = ? {SLOT}" for n in range(500, 506))
    with pytest.raises(ConfigError, match="no split 'validation'") as caught:
        Dataset(path=env.path, test="validation", **COLUMNS).tasks("test")
    assert "one of train, test" in caught.value.fix
    with pytest.raises(ConfigError, match="E150"):
        Dataset(path=str(tmp_path / "nowhere")).tasks("train")


@pytest.mark.parametrize(("path", "package"), [("a.parquet", "pyarrow"), ("someone/something", "datasets")])
def test_a_missing_package_is_named_with_its_extra(
    path: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gnomon.envs.rows.find_spec", lambda name: None)
    with pytest.raises(ResourceError, match="E505") as caught:
        Dataset(path=path).tasks("train")
    assert package in caught.value.what and 'pip install "gnomon[' in caught.value.fix


# Mistakes


def test_an_overlap_is_refused_with_its_rows(tmp_path: Path) -> None:
    rows = sums(20)
    held_out = [{"q": "unseen", "a": "1"}, {"q": "  3 +  1 = ?", "a": "other"}, rows[11]]
    with pytest.raises(ConfigError, match="E151") as caught:
        path, test = written(tmp_path / "a.jsonl", rows), written(tmp_path / "t.jsonl", held_out)
        Dataset(path=path, test=test, **COLUMNS).tasks("train")
    assert caught.value.what.startswith("2 held-out questions")
    assert caught.value.why == "train row 3 = test row 1, train row 11 = test row 2"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"prompt": "a", "answer": "b"}\n{"prompt": ', "line 2"),
        ('{"prompt": "a", "answer": "b"}\n[1, 2]\n', "line 2"),
        ("[1, 2]\n", "row 0"),
        ('\n\n{"prompt": "\xff"}', "line 3"),
    ],
)
def test_a_line_that_is_none_is_named(text: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="E150") as caught:
        Dataset(path=str(tmp_path / "a.jsonl")).tasks("train")
    assert caught.value.where.endswith(f"a.jsonl, {line}")


def test_line_ends_inside_a_text_are_no_line_ends(tmp_path: Path) -> None:
    """U+2028 is a line end to `str.splitlines`, and may stand unescaped in JSON."""
    (tmp_path / "a.jsonl").write_text('{"prompt": "one\u2028two", "answer": "2"}\n', "utf-8")
    env = Dataset(path=str(tmp_path / "a.jsonl"), test=written(tmp_path / "t.jsonl", sums(1)), answer="answer")
    assert [row["prompt"] for _, row in Dataset(path=env.path).tasks("train").rows] == ["one\u2028two"]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"path": "none.jsonl"}, "E150", "No such file"),
        ({"prompt": "question"}, "E153", "the columns of the data set are q, a, n"),
        ({"split": "n"}, "E154", "'row-0' but must be train or test"),
        ({"rows": (999,)}, "E155", "train row 999 does not exist"),
        ({"ranked": "none.json"}, "E150", "No such file"),
        ({"ranked": "a.jsonl"}, "E152", "JSONDecodeError"),
        ({"verifier": "nonsense"}, "E156", "there is no verifier 'nonsense'"),
        ({"verifier": "numbr"}, "E156", "fix: env.verifier=number"),
        ({"verifier": "choice"}, "E156", "math, number, pattern, polynomial, schema, sets, text and package.module"),
        ({"verifier": "gnomon.verifiers:Choice"}, "E156", "does not compare"),
        ({"verifier": "gnomon.verifiers:LLMJudge"}, "E156", "does not compare"),
        ({"verifier": LLMJudge(ask=str)}, "E156", "'LLMJudge' cannot judge a data set"),
        ({"verifier": "gnomon.workers.pool:Pool"}, "E156", "does not compare"),
        ({"options": {"answer": {"unit": "cm"}}}, "E156", "unexpected keyword argument 'answer'"),
        ({"options": {"ruless": 1}}, "E156", "ruless"),
    ],
)
def test_a_mistake_is_told_with_its_code(
    options: dict[str, Any], code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.jsonl", sums(40))
    with pytest.raises(ConfigError) as caught:
        Dataset(**{"path": "a.jsonl", **COLUMNS, **options}).tasks("train")
    assert caught.value.code == code and said in str(caught.value)


def test_a_data_set_without_a_held_out_row_says_so(tmp_path: Path) -> None:
    rows = [{**row, "side": "train"} for row in sums(4)]
    env = Dataset(path=written(tmp_path / "a.jsonl", rows), split="side", **COLUMNS)
    assert len(env.tasks("train")) == 4
    with pytest.raises(ConfigError, match="no test row"):
        env.tasks("test")
    with pytest.raises(ValueError, match="split"):
        env.tasks("validation")


# What is told before a run


@pytest.mark.parametrize("column", ["q", "a", "n"])
@pytest.mark.parametrize("side", ["path", "test"])
def test_rows_without_a_column_are_told_at_once_with_their_numbers(side: str, column: str, tmp_path: Path) -> None:
    rows, other = sums(40), sums(10, 500)
    broken = rows if side == "path" else other
    del broken[3][column]
    broken[7][column], broken[9][column] = None, []
    env = Dataset(
        path=written(tmp_path / "a.jsonl", rows), test=written(tmp_path / "t.jsonl", other), id="n", **COLUMNS
    )
    for split in ("train", "test"):
        with pytest.raises(ConfigError, match="E153") as caught:
            env.tasks(split)
        assert caught.value.what == f"the column {column!r} is empty in rows 3, 7, 9 of {len(broken)}"


@pytest.mark.parametrize(("column", "fix"), [("answer", "correct or remove these rows"), ("gold", "env.answer=answer")])
def test_the_fix_of_an_empty_column_is_another_column_or_its_rows(column: str, fix: str, tmp_path: Path) -> None:
    rows = [{"prompt": "2+2?", "answer": "4"}, {"prompt": "2+3?", "answer": None}]
    with pytest.raises(ConfigError, match="E153") as caught:
        Dataset(path=written(tmp_path / "a.jsonl", rows), prompt="prompt", answer=column).tasks("train")
    assert caught.value.fix == fix


@pytest.mark.parametrize(
    ("row", "options", "what", "fix"),
    [
        ({"question": "2+2?", "label": "4"}, {}, "'prompt'", "env.prompt=question env.answer=label"),
        ({"prompt": "2+2?", "gold": "4"}, {}, "'answer'", "env.answer=gold"),
        ({"prompt": "2+2?", "left": "4"}, {}, "'answer'", "env.answer=COLUMN"),
        ({"prompt": "2+2?", "answer": "4"}, {"split": "part"}, "'part'", "name one of these columns, .*"),
        ({"prompt": "2+2?", "answer": "4"}, {"where": {"level": (3,)}}, "'level'", "name one of these columns, .*"),
    ],
)
def test_a_column_that_is_not_there_is_named_with_every_setting_that_mends_it(
    row: dict[str, str], options: dict[str, Any], what: str, fix: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.jsonl", [dict(row, n=str(n)) for n in range(30)])
    with pytest.raises(ConfigError, match="E153") as caught:
        Dataset(path=path, **options).tasks("train")
    assert caught.value.what == f"the data set has no column {what}"
    assert re.fullmatch(fix, caught.value.fix)


@pytest.mark.parametrize(
    ("count", "why"),
    [
        (0, "the file has no rows"),
        (1, "rows: 1, different questions: 1; each split needs a question"),
        (50, "rows: 50, different questions: 1; each split needs a question"),
    ],
)
def test_a_split_without_rows_says_why(count: int, why: str, tmp_path: Path) -> None:
    # The hash holds out this question.
    rows = count * [{"prompt": "What is 1 + 3?", "answer": "4"}]
    with pytest.raises(ConfigError, match="E155") as caught:
        Dataset(path=written(tmp_path / "a.jsonl", rows)).tasks("train")
    assert caught.value.why.startswith(why)


@pytest.mark.parametrize(
    ("answers", "settings"),
    [
        ([0.5, 5.0, 2], "env.verifier=number"),
        (["$5.00", "3 m", "-2"], "env.verifier=number env.options.units=optional"),
        (["1", "-20", "0"], None),
        (["1.0", "three"], None),
    ],
)
def test_numbers_that_are_compared_as_text_are_remarked_on(
    answers: list[object], settings: str | None, tmp_path: Path
) -> None:
    rows = [{"prompt": f"Question {n}?", "answer": answers[n % len(answers)]} for n in range(60)]
    path = written(tmp_path / "a.jsonl", rows)
    remarks = [remark for remark in Dataset(path=path).remarks if "compares texts" in remark]
    assert [settings in remark for remark in remarks] == ([True] if settings else [])
    if settings:
        options = {"options": {"units": "optional"}} if "units" in settings else {}
        other = Dataset(path=path, verifier="number", **options)
        assert not [remark for remark in other.remarks if "compares texts" in remark]
        task = other.tasks("train")[0]
        assert other.verify(task, f"<answer>{task.answer}</answer>").reward == 1


def test_rows_without_the_mark_are_told_at_once_with_their_numbers(tmp_path: Path) -> None:
    rows = sums(40)
    rows[5]["a"] = "it is 6"
    with pytest.raises(ConfigError, match=r"row 5 of the \w+ split have no '####' in 'a'"):
        Dataset(path=written(tmp_path / "a.jsonl", rows), **COLUMNS).tasks("train")
    rows[5]["a"] = "it is #### "
    with pytest.raises(ConfigError, match=r"row 5 of the \w+ split have nothing after '####'"):
        Dataset(path=written(tmp_path / "b.jsonl", rows), **COLUMNS).tasks("train")


def test_many_rows_are_counted_and_the_first_named(tmp_path: Path) -> None:
    rows = [{**row, "a": None} for row in sums(40)]
    with pytest.raises(ConfigError, match=r"'a' is empty in rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 30 more of 40"):
        Dataset(path=written(tmp_path / "a.jsonl", rows), **COLUMNS).tasks("train")


def test_questions_that_stand_twice_are_told_with_their_numbers(tmp_path: Path) -> None:
    rows = sums(20)
    rows[4] = dict(rows[3], q=" 3 +  1 = ?")
    rows[9] = {"q": rows[8]["q"], "a": "#### other", "n": "x"}
    env = Dataset(path=written(tmp_path / "a.jsonl", rows), test=written(tmp_path / "t.jsonl", sums(4, 500)), **COLUMNS)
    assert env.remarks == [
        "The train split repeats 1 question with different answers: rows 8 = 9.",
        "The train split repeats 1 question with the same answer: rows 3 = 4.",
    ]
    assert not Dataset().remarks


def test_a_run_tells_them_before_it_starts(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n % 30} + 1 = ?", "answer": str(n % 30 + 1)} for n in range(60)]
    path = written(tmp_path / "a.jsonl", rows)
    small = ("prompts=2", "group=2", "max_tokens=8", "eval.tasks=2", "steps=1", "threads=1")
    told = command("train", "dataset", f"env.path={path}", f"run={tmp_path / 'r'}", *small).stdout
    assert "Data: " in told and "with the same answer: rows" in told
    assert told.index("Data: ") < told.index("baseline")


# Hub data sets


def practice(start: int = 0) -> dict[str, bytes]:
    """The files of a data set with two configurations, each with two splits. Args: start: number of the first row."""
    pyarrow = pytest.importorskip("pyarrow")
    from envs.hub_rows import TEXT, files

    schema = pyarrow.schema({name: TEXT for name in ("q", "a", "n")})
    parts = {
        f"{name}/{split}.parquet": (sums(count, start + 1000 * place + first), schema)
        for place, name in enumerate(("easy", "hard"))
        for split, count, first in (("practice", 30, 0), ("exam", 6, 500))
    }
    splits = ("practice", "exam")
    return files(parts, {name: {split: f"{name}/{split}.parquet" for split in splits} for name in ("easy", "hard")})


class DataHub(NamedTuple):
    """A hub on this machine that has `someone/sums`."""

    commits: dict[str, dict[str, bytes]]
    refs: dict[str, str]
    asked: list[str]
    """Requests."""


@pytest.fixture
def data_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataHub]:
    pytest.importorskip("datasets")
    import datasets.config
    import huggingface_hub.constants
    from huggingface_hub import HfFileSystem

    commits, refs = {ONE: practice()}, {"main": ONE, "v1": ONE}
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    with serving({"datasets/someone/sums": Stored(commits, refs)}) as (url, asked):
        monkeypatch.setattr(datasets.config, "HF_ENDPOINT", url)
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
        template = url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        HfFileSystem.clear_instance_cache()
        hub.cache_clear()
        yield DataHub(commits, refs, asked)


def test_a_hub_data_set_takes_configuration_split_and_revision(data_hub: DataHub) -> None:
    data_hub.commits[TWO] = practice(start=7)
    data_hub.refs["main"] = TWO
    env = Dataset(path="someone/sums", config="hard", train="practice", test="exam", revision="v1", **COLUMNS)
    assert len(env.tasks("train")) == 30 and len(env.tasks("test")) == 6
    assert all(1000 <= int(text.split()[0]) < 1030 for text in prompts(env, "train"))
    newest = Dataset(path="someone/sums", config="hard", train="practice", test="exam", **COLUMNS)
    assert all(1007 <= int(text.split()[0]) < 1037 for text in prompts(newest, "train"))
    with pytest.raises(ConfigError, match="E150") as caught:
        Dataset(path="someone/sums", config="hard", revision="v2", **COLUMNS).tasks("train")
    assert "--revision v2" in caught.value.fix
    assert not [request for request in data_hub.asked if "/easy/" in request], "other configurations are not fetched"


def test_a_hub_data_set_is_known_by_the_hash_of_its_rows(data_hub: DataHub) -> None:
    def contents(config: str) -> dict[str, str]:
        options = {"config": config, "train": "practice", "test": "exam", **COLUMNS}
        found = Dataset(path="someone/sums", **options).contents
        assert set(found) == {"path", "test"} and all(len(known) == 64 for known in found.values())
        return found

    easy, hard = contents("easy"), contents("hard")
    assert easy == contents("easy") and easy["path"] != hard["path"] and easy["test"] != hard["test"]
    assert Dataset().contents == {}, "files are known by their own hashes"


def test_a_run_on_a_hub_data_set_that_changed_is_not_resumed(data_hub: DataHub, tmp_path: Path) -> None:
    from gnomon.config import Env, RunConfig
    from gnomon.run.data import data_hashes, require_same_data

    options = {"path": "someone/sums", "config": "easy", "train": "practice", "test": "exam", **COLUMNS}
    env, config = Dataset(**options), RunConfig(env=Env(type="dataset", **options))
    before = data_hashes(config, env)
    assert set(before) == {"env.path", "env.test"}
    require_same_data(config, env, before, tmp_path)
    data_hub.commits[TWO] = practice(start=7)
    data_hub.refs["main"] = TWO
    hub.cache_clear()
    with pytest.raises(RunError, match="E190") as caught:
        require_same_data(config, env, before, tmp_path)
    assert "env.path = someone/sums" in caught.value.where
