"""Logs of other trainers as run folders: what was logged is there, what was not is absent, and nothing is guessed."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from commands import command
from gnomon.errors import ConfigError
from gnomon.integrations.imports.files import Options, natural
from gnomon.integrations.imports.rule import rule
from gnomon.reading.importing import import_log
from gnomon.store import RunReader, verify
from gnomon.store.columns import rollout_table

LOGS = Path(__file__).parent / "logs"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    with RunReader(folder) as reader:
        return list(rollout_table(reader.records(), tokens=True))


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def question(n: int, **more: Any) -> dict[str, Any]:
    return {"q": f"{n}+1?", "out": str(n + 1), "gold": str(n + 1), "score": 1.0, "it": 0, **more}


COLUMNS = {"prompt": "q", "reply": "out", "answer": "gold", "reward": "score", "step": "it"}
WORDS = [f"{name}={column}" for name, column in COLUMNS.items()]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps of two tasks, out of order, one rollout without a reward, one with tokens."""
    above = tmp_path_factory.mktemp("plain")
    log = lines(
        above / "log.jsonl",
        question(1, it=1, out="3", score=0.0),
        question(1),
        question(2, score=None),
        question(1, out="no", score=0.25, token_ids=[4, 5], logprobs=[-0.5, -1.5], prompt_ids=[9], finish="length"),
        question(2, it=1),
    )
    done = command("import", str(log), str(above / "r"), *WORDS, "--format", "jsonl", "--correct", "reward >= 1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{above}/r: 5 rollouts of jsonl in 2 steps", f"next: gnomon show {above}/r"]
    return above / "r"


def test_lines_of_json_become_a_run(plain):
    rows = rows_of(plain)
    assert [(row["step"], row["task"], row["sample"], row["source"]) for row in rows] == [
        (0, 0, 0, "log.jsonl:2"), (0, 0, 1, "log.jsonl:4"), (0, 1, 0, "log.jsonl:3"),
        (1, 0, 0, "log.jsonl:1"), (1, 1, 0, "log.jsonl:5"),
    ]  # fmt: skip
    assert [row["reward"] for row in rows] == [1.0, 0.25, None, 0.0, 1.0]
    assert [row["correct"] for row in rows] == [True, False, None, False, True]
    assert [row["status"] for row in rows] == ["correct", "wrong", "unjudged", "wrong", "correct"]
    assert [row["tokens"] for row in rows] == [None, 2, None, None, None]
    assert rows[1]["token_ids"] == [4, 5] and rows[1]["logprobs"] == [-0.5, -1.5] and rows[1]["prompt_ids"] == [9]
    assert [row["finish"] for row in rows] == [None, "length", None, None, None]
    assert {row["version"] for row in rows} == {None} and rows[2]["prompt"] == "2+1?" and rows[2]["answer"] == "3"
    with RunReader(plain) as reader:
        first, second = (body["metrics"] for body in reader.metrics())
        assert first == {
            "all_right": 0.0, "all_wrong": 0.0, "correct": 0.5, "failed": 0.0, "length": 2.0, "part/reward": 0.625,
            "reward": 0.625, "tokens": 2, "truncated": 1.0,
        }  # fmt: skip
        assert second["reward"] == 0.5 and second["all_right"] == second["all_wrong"] == 0.5
        assert "length" not in second and "truncated" not in second
        assert reader.import_format == "jsonl" and reader.status == "finished" and reader.complete
        facts = reader.manifest["imported"]
        assert facts["correct"] == "reward >= 1" and list(facts["files"]) == ["log.jsonl"]
        assert [len(group.rollouts) for group in reader.groups()] == [2, 1, 1, 1]
    assert verify(plain)


def test_the_same_log_gives_the_same_fingerprint(plain, tmp_path):
    shutil.copy(plain.parent / "log.jsonl", tmp_path / "log.jsonl")
    import_log(tmp_path / "log.jsonl", tmp_path / "r", "jsonl", "reward >= 1", Options(columns=COLUMNS))
    with RunReader(plain) as one, RunReader(tmp_path / "r") as two:
        assert one.fingerprint == two.fingerprint


def test_all_readers_take_it(plain, tmp_path):
    for words in (["show"], ["show", "0"], ["show", "0", "--brief"], ["show", "0:1:0"], ["show", "0:0:1"], ["tail"],
                  ["show", "task:0"], ["verify"], ["rank"], ["ls"]):  # fmt: skip
        place = plain.parent if words == ["ls"] else plain
        done = command(words[0], str(place), *words[1:])
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert "None" not in done.stdout.replace("extracted None", ""), (words, done.stdout)
    assert "imported from jsonl" in command("ls", str(plain.parent)).stdout
    assert command("alarms", str(plain)).returncode == 0 and command("doctor", str(plain)).returncode in (0, 1)
    assert command("report", str(plain), str(tmp_path / "r.html")).returncode == 0
    page = (tmp_path / "r.html").read_text()
    assert "2+1?" in page and "unjudged" in page
    assert command("diff", str(plain), str(plain)).returncode == 0
    assert command("export-rollouts", str(plain), str(tmp_path / "r.jsonl")).returncode == 0


@pytest.mark.parametrize("words", [["resume"], ["replay"], ["alarms", "--sentinel", "no_such"]])
def test_what_an_imported_run_cannot_do(plain, words):
    done = command(words[0], str(plain), *words[1:])
    code = {"resume": "E068", "replay": "E070", "alarms": "E021"}[words[0]]
    assert done.returncode == 2 and f"error[{code}]" in done.stderr, done.stderr


JUDGE = """
from gnomon.types import Part, Status, Verdict


class Sums:
    reward_range = (0.0, 1.0)

    def verify(self, task, reply):
        right = reply.strip() == task.answer
        parts = (Part(name="correct", value=float(right)),)
        return Verdict(status=Status.CORRECT if right else Status.WRONG, parts=parts)
"""


def test_another_verifier_judges_the_stored_tasks(plain, tmp_path):
    (tmp_path / "sums.py").write_text(JUDGE)
    done = command("replay", str(plain), "--verifier", f"{tmp_path}/sums.py:Sums", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["judged"] == 5 and facts["skipped"] == 0
    assert {flip["address"]: (flip["was"], flip["now"]) for flip in facts["flips"]} == {
        "0:0:1": ({"status": "wrong", "reward": 0.25}, {"status": "wrong", "reward": 0.0}),
        "0:1:0": ({"status": "unjudged", "reward": None}, {"status": "correct", "reward": 1.0}),
    }
    text = command("replay", str(plain), "--verifier", f"{tmp_path}/sums.py:Sums").stdout
    assert "unjudged" in text and "2 verdicts changed" in text


def test_without_a_rule_nothing_is_judged(tmp_path):
    log = lines(tmp_path / "log.jsonl", question(1), question(2, score=0.0))
    done = command("import", str(log), str(tmp_path / "r"), *WORDS, "--format", "jsonl")
    assert "--correct" in done.stdout
    assert {row["status"] for row in rows_of(tmp_path / "r")} == {"unjudged"}
    with RunReader(tmp_path / "r") as reader:
        assert not {"correct", "all_right", "all_wrong"} & set(reader.metrics()[0]["metrics"])


def test_an_evaluation_has_a_pass_rate_where_there_is_a_rule(tmp_path):
    rows = [question(n, score=float(n + s > 2)) for n in range(3) for s in range(2)]
    log, options = lines(tmp_path / "log.jsonl", *rows), Options(columns=COLUMNS, held_out=True)
    import_log(log, tmp_path / "a", "jsonl", "reward == 1", options)
    import_log(log, tmp_path / "b", "jsonl", "", options)
    with RunReader(tmp_path / "a") as judged, RunReader(tmp_path / "b") as unjudged:
        # Task 0 is never right, task 1 never (1 + 1 is not above 2), task 2 once in two.
        assert {k: i["value"] for k, i in judged.held_out["pass_at"].items()} == {"1": 0.5 / 3, "2": 1 / 3}
        assert unjudged.held_out["pass_at"] == {} and unjudged.held_out["reward"] == pytest.approx(1 / 6)
        assert judged.held_out["length"] is None and judged.steps == 0
    for name in "ab":
        for words in (["show"], ["tail"], ["show", "held-out:0"]):
            assert command(words[0], str(tmp_path / name), *words[1:]).returncode == 0
        assert command("report", str(tmp_path / name), str(tmp_path / f"{name}.html")).returncode == 0


@pytest.mark.parametrize(
    ("text", "values", "right"),
    [
        ("reward >= 1", {"reward": 1.0}, True),
        ("reward > 1", {"reward": 1.0}, False),
        ("reward>=0.5 and format == 1", {"reward": 0.5, "format": 1.0}, True),
        ("reward >= 0.5 and format != 1", {"reward": 0.5, "format": 1.0}, False),
        ("loss < -1e-3", {"loss": -1.0}, True),
        ("a.b/c <= 2", {"a.b/c": 2.0}, True),
        ("reward >= 1", {"reward": None}, None),
    ],
)
def test_a_rule_compares(text, values, right):
    found = rule(text)
    assert found is not None and found(values, "here") is right


@pytest.mark.parametrize("text", ["reward", "reward = 1", "reward >= one", "reward >= 1 or x > 2", "1 <= reward"])
def test_a_rule_that_cannot_be_read_is_refused(text):
    with pytest.raises(ConfigError, match="E060"):
        rule(text)


@pytest.mark.parametrize(
    ("rows", "options", "code", "named"),
    [
        ([{"text": "x"}], {}, "E062", "no field 'prompt'"),
        ([question(1)], {"prompt": "q", "reply": "absent"}, "E062", "no field 'absent' for the reply"),
        ([question(1)], {**COLUMNS, "answer": "absent"}, "E062", "reply=FIELD|answer=FIELD"),
        ([], COLUMNS, "E065", "no rollouts"),
        (["no json"], COLUMNS, "E064", "line 1"),
        ([[1]], COLUMNS, "E064", "not a list"),
    ],
)
def test_an_unknown_shape_names_the_field(tmp_path, rows, options, code, named):
    path = tmp_path / "log.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    with pytest.raises(ConfigError, match=rf"(?s){code}.*({named})"):
        import_log(path, tmp_path / "r", "jsonl", "", Options(columns=options))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log.jsonl"]


def test_a_rule_may_name_only_what_the_log_has(tmp_path):
    log = lines(tmp_path / "log.jsonl", question(1))
    with pytest.raises(ConfigError, match=r"E061.*'acc'(?s:.*)it has reward, score"):
        import_log(log, tmp_path / "r", "jsonl", "acc >= 1", Options(columns=COLUMNS))


def test_formats_that_cannot_be_read_say_what_to_do(tmp_path):
    words = ("import", str(tmp_path), str(tmp_path / "r"))
    assert "lines of JSON in the reward function" in command(*words, "--format", "openrlhf").stderr
    assert "--format trl or --format verl" in command(*words, "--format", "unheard").stderr
    assert "error[E066]" in command(*words).stderr
    assert "the path does not exist" in command("import", str(tmp_path / "absent"), str(tmp_path / "r")).stderr
    assert "error[E063]" in command(*words, "--format", "verl").stderr
    assert "error[E069]" in command(*words, "--format", "verl", "--weight", "a=b").stderr
    assert not (tmp_path / "r").exists()


def test_files_are_read_in_the_order_of_their_numbers():
    names = ["step_10/a.jsonl", "step_2/a.jsonl", "b", "step_2/a10", "step_2/a9"]
    assert [str(path) for path in sorted(map(Path, names), key=natural)] == [
        "b", "step_2/a9", "step_2/a10", "step_2/a.jsonl", "step_10/a.jsonl"
    ]  # fmt: skip


def test_verl_dumps(tmp_path):
    """The trainer of today writes `uid`; the former one all numbers of the reward function."""
    row = {"input": "user\n2+2?\nassistant\n", "output": "4", "gts": "4", "score": 1.0, "step": 10}
    lines(
        tmp_path / "dump" / "10.jsonl", {**row, "uid": "ab_0_0"}, {**row, "output": "5", "score": -1.0, "uid": "ab_0_1"}
    )
    old = {**row, "step": 9, "acc": True, "pred": "4", "request_id": "r"}
    lines(tmp_path / "dump" / "9.jsonl", old)
    done = command("import", str(tmp_path / "dump"), str(tmp_path / "r"), "--correct", "score > 0")
    assert done.returncode == 0 and "3 rollouts of verl in 2 steps" in done.stdout, done.stderr
    rows = rows_of(tmp_path / "r")
    assert [(row["step"], row["reward"], row["status"]) for row in rows] == [
        (9, 1.0, "correct"), (10, 1.0, "correct"), (10, -1.0, "wrong")
    ]  # fmt: skip
    assert rows[0]["parts"] == [
        {"name": "score", "value": 1.0, "weight": 1.0}, {"name": "acc", "value": 1.0, "weight": 0.0}
    ]  # fmt: skip
    assert {row["task_id"] for row in rows} == {rows[0]["task_id"]} and rows[2]["answer"] == "4"
    lines(tmp_path / "dump" / "11.jsonl", {"input": "x", "output": "y", "step": 11})
    with pytest.raises(ConfigError, match=r"E062.*'score'.*reward"):
        import_log(tmp_path / "dump", tmp_path / "s", "verl", "", Options())


def test_steps_of_two_runs_are_not_mixed(tmp_path):
    row = {"input": "q", "output": "4", "gts": "4", "score": 1.0}
    lines(tmp_path / "a" / "5.jsonl", {**row, "step": 5})
    lines(tmp_path / "b" / "1.jsonl", {**row, "step": 1})
    with pytest.raises(ConfigError, match=r"E067.*step 1 follows step 5"):
        import_log(tmp_path, tmp_path / "r", "verl", "", Options())


def test_no_number_of_a_log_breaks_a_run(tmp_path):
    rows = [question(n, score=value, extra=value) for n, value in enumerate((math.nan, math.inf, True, "1", 10**400))]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    import_log(log, tmp_path / "r", "jsonl", "reward >= 1", Options(columns=COLUMNS))
    assert [row["reward"] for row in rows_of(tmp_path / "r")] == [None, None, 1.0, None, None]
