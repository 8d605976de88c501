"""A run as data frames and rollout files: every value is that of the record, and absent stays absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gnomon
from commands import command
from gnomon.errors import ConfigError, ResourceError
from gnomon.export.rollouts import export_rollouts
from gnomon.store import Record, Run, RunReader, encode
from gnomon.store.columns import COLUMNS, TOKENS, rollout_table
from gnomon.types import (
    Completion,
    Finish,
    Group,
    Message,
    Origin,
    Part,
    Rollout,
    Segment,
    Status,
    Stop,
    Task,
    Turn,
    Verdict,
)

NAMES = [column.name for column in COLUMNS]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frame") / "r"
    settings = {"rollout": {"prompts": 3, "group": 2, "max_tokens": 24}, "eval": {"tasks": 4, "every": 1}, "threads": 1}
    gnomon.train("char_count", run=folder, quiet=True, steps=2, **settings).close()
    return folder


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two turns of the second player, a lone surrogate, an unknown log-probability, an answer that is a list."""
    folder = tmp_path_factory.mktemp("odd") / "r"
    task = Task(id="t", messages=(Message(role="user", content="say \ud800"),), answer=[1, 2])
    first = Turn(
        prompt_ids=(5, 6),
        completion=Completion(token_ids=(1,), logprobs=(-0.5,), text="a", finish=Finish.STOP, version=3),
        messages=task.messages,
        segments=(Segment(origin=Origin.TASK, token_ids=(5, 6)),),
    )
    second = Turn(
        prompt_ids=(5, 6, 1, 7),
        completion=Completion(
            token_ids=(2, 3), logprobs=(float("nan"), -1.0), text="b", finish=Finish.LENGTH, version=3
        ),
        messages=(Message(role="user", content="and?"),),
        segments=(Segment(origin=Origin.ENVIRONMENT, token_ids=(7,)),),
    )
    verdict = Verdict(status=Status.FAILED, parts=(Part(name="correct", value=0.25, weight=2.0),), detail="it broke")
    rollout = Rollout(task=task, sample=0, turns=(first, second), verdict=verdict, stop=Stop.TRUNCATED, player=1)
    with Run.create(folder, recipe="", manifest={}, genesis={}) as store:
        store.append(list(encode(Group(task=task, index=4, rollouts=(rollout,)), kind="held_out", step=7)))
        store.append([Record(kind="step", step=0, body={"metrics": {"reward": 0.5}, "statuses": {}})])
    return folder


def test_a_row_holds_what_the_record_holds(run):
    with RunReader(run) as reader:
        rows = list(rollout_table(reader.records(), tokens=True))
        assert all(list(row) == NAMES + [column.name for column in TOKENS] for row in rows)
        # Three evaluations of four tasks, and two steps of three groups of two.
        assert [row["split"] for row in rows].count("test") == 12 and len(rows) == 12 + 12
        for row in rows:
            kind = "rollout" if row["split"] == "train" else "held_out"
            body = reader.rollout(row["step"], row["task"], row["sample"], kind).body
            assert [row[name] for name in ("reply", "reward", "status", "tokens", "token_ids")] == [
                body[name] for name in ("reply", "reward", "status", "tokens", "token_ids")
            ]
            assert row["correct"] == (body["status"] == "correct") and row["advantage"] == body.get("advantage")
            assert row["messages"][-1] == {"role": "assistant", "content": body["reply"]} and row["prompt"]
            assert len(row["logprobs"]) == row["tokens"]


def test_what_is_absent_stays_absent(odd):
    with RunReader(odd) as reader:
        (row,) = rollout_table(reader.records(), tokens=True)
    assert row["correct"] is None and row["advantage"] is None and row["source"] is None
    assert row["prompt"] == "say \\ud800" and row["answer"] == "[1, 2]" and row["reply"] == "ab"
    assert [each["content"] for each in row["messages"]] == ["say \\ud800", "a", "and?", "b"]
    assert row["logprobs"] == [-0.5, None, -1.0] and row["prompt_ids"] == [5, 6] and row["token_ids"] == [1, 2, 3]
    assert (row["split"], row["step"], row["task"], row["player"], row["turns"]) == ("test", 7, 4, 1, 2)
    assert row["parts"] == [{"name": "correct", "value": 0.25, "weight": 2.0}] and row["finish"] == "length"


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("which", ["run", "odd"])
def test_a_frame_has_the_rows(library, which, request):
    pytest.importorskip(library)
    with RunReader(request.getfixturevalue(which)) as reader:
        rows = list(rollout_table(reader.records(), tokens=True))
        found = reader.frame(library=library, tokens=True)
        records = found.to_dict("records") if library == "pandas" else found.to_dicts()
        assert len(records) == len(rows)
        for row, record in zip(rows, records, strict=True):
            parts = {f"part/{part['name']}": part["value"] for part in row.pop("parts")}
            for name, value in {**row, **parts}.items():
                there = record[name]
                absent = there is None or there != there or str(there) == "<NA>"
                assert absent if value is None else there == value, (name, value, there)
        metrics = reader.frame("metrics", library=library)
        assert list(metrics["reward"]) == [body["metrics"]["reward"] for body in reader.metrics()]
        evaluations = reader.frame("evaluations", library=library)
        bodies = [record.body for kind in ("baseline", "evaluation") for record in reader.records(kind)]
        if bodies:
            assert list(evaluations["step"]) == [0, 1, 2]
            assert list(evaluations["pass@1"]) == [body["pass_at"]["1"]["value"] for body in bodies]
        else:
            assert len(evaluations) == 0


def test_what_a_frame_cannot_be(run, monkeypatch):
    with RunReader(run) as reader:
        with pytest.raises(ConfigError, match="E007"):
            reader.frame("groups")
        with pytest.raises(ConfigError, match="E007"):
            reader.frame(library="arrow")
        monkeypatch.setattr("gnomon.store.frame.find_spec", lambda name: None)
        with pytest.raises(ResourceError, match=r"E505.*polars"):
            reader.frame(library="polars")


@pytest.mark.parametrize("which", ["run", "odd"])
@pytest.mark.parametrize("tokens", [False, True])
def test_lines_of_json_hold_the_rows(which, tokens, tmp_path, request):
    folder, seen = request.getfixturevalue(which), []
    files = export_rollouts(folder, tmp_path / "r.jsonl", tokens=tokens, progress=lambda *told: seen.append(told))
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text("utf-8").splitlines()]
    with RunReader(folder) as reader:
        assert rows == list(rollout_table(reader.records(), tokens))
    assert files == {"r.jsonl": len(rows)} and seen[-1] == (len(rows), len(rows))


@pytest.mark.parametrize("which", ["run", "odd"])
def test_parquet_holds_the_rows(which, tmp_path, request):
    pq = pytest.importorskip("pyarrow.parquet")
    folder = request.getfixturevalue(which)
    export_rollouts(folder, tmp_path / "r.parquet", tokens=True)
    with RunReader(folder) as reader:
        assert pq.read_table(tmp_path / "r.parquet").to_pylist() == list(rollout_table(reader.records(), tokens=True))


def test_a_folder_is_a_data_set_of_the_hub(run, tmp_path):
    datasets = pytest.importorskip("datasets")
    files = export_rollouts(run, tmp_path / "hub", tokens=True)
    assert sum(files.values()) == 24 and sorted(files) == [
        f"data/{s}-00000-of-00001.parquet" for s in ("test", "train")
    ]
    found = datasets.load_dataset(str(tmp_path / "hub"), cache_dir=str(tmp_path / "cache"))
    with RunReader(run) as reader:
        rows = list(rollout_table(reader.records(), tokens=True))
    for split in ("train", "test"):
        assert found[split].to_list() == [row for row in rows if row["split"] == split]
    card = datasets.DatasetInfo.from_directory  # The features that the card states are those of the files.
    assert card is not None
    from huggingface_hub import DatasetCard

    info = DatasetCard.load(tmp_path / "hub" / "README.md").data.to_dict()["dataset_info"]
    assert datasets.Features._from_yaml_list(info["features"]) == found["train"].features


def test_an_export_overwrites_nothing_and_leaves_nothing_half_done(run, tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text("mine")
    refused = command("export-rollouts", str(run), str(tmp_path / "a.jsonl"))
    assert refused.returncode == 2 and "error[E092]" in refused.stderr and "a-2.jsonl" in refused.stderr
    assert "error[E053]" in command("export-rollouts", str(run), str(tmp_path / "a.csv")).stderr
    monkeypatch.setattr("gnomon.export.rollouts.find_spec", lambda name: None)
    with pytest.raises(ResourceError, match="E505"):
        export_rollouts(run, tmp_path / "b.parquet")
    with pytest.raises(ZeroDivisionError):
        export_rollouts(run, tmp_path / "c.jsonl", progress=lambda done, total: 1 // 0)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    written = command("export-rollouts", str(run), str(tmp_path / "d.jsonl"), "--json")
    assert json.loads(written.stdout) == {"place": str(tmp_path / "d.jsonl"), "files": {"d.jsonl": 24}}
