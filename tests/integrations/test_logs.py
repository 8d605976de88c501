"""Traces of verifiers and prime-rl, and logs of Inspect, in the shape that their released versions write."""

from __future__ import annotations

import io
import json
import math
import struct
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from gnomon.errors import ConfigError, ResourceError
from gnomon.integrations.imports.files import Options
from gnomon.reading.importing import import_log
from gnomon.store import RunReader
from gnomon.store.columns import rollout_table

LOGS = Path(__file__).parent / "logs"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    with RunReader(folder) as reader:
        return list(rollout_table(reader.records(), tokens=True))


def node(role: str, content: str, parent: int | None, ids: list[int], **more: Any) -> dict[str, Any]:
    found = {"parent": parent, "message": {"role": role, "content": content}, "sampled": role == "assistant"}
    return found | {"token_ids": ids, "logprobs": [-0.25] * len([id for id in ids if id != 8]), **more}


def episode(n: int, score: float, **more: Any) -> dict[str, Any]:
    """Two turns, and an answer that was edited away: another branch. Token 8 is the template's."""
    nodes = [
        node("user", f"{n}+1?", None, [1, 2]),
        node("assistant", "edited", 0, [3]),
        node("assistant", "first", 0, [4], advantages=[0.5], entropies=[1.5]),
        node("tool", "again", 2, [5]),
        node("assistant", str(n + 1), 3, [8, 6, 7], mask=[False, True, True], advantages=[0.5, 0.5]),
    ]
    rewards = {"right": {"score": score, "weight": 1.0}, "form": {"score": 0.5, "weight": 0.2}}
    trace = {"nodes": nodes, "rewards": rewards, "metrics": {"turns": 2}}
    trace["calls"] = [{"finish_reason": "length"}, {"finish_reason": "stop", "error": {"message": "retried"}}]
    task = {"type": "sum", "data": {"answer": str(n + 1)}, "hash": f"h{n}"}
    return {"id": f"e{n}", "task": task, "ok": True, "errors": [], "traces": [trace], **more}


def lines(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def work(kind: str, step: int) -> dict[str, Any]:
    return {"work": {"type": kind, "step": step, "policy": {"start": step, "end": step}}}


def test_traces_become_turns_with_tokens(tmp_path):
    broken = episode(3, 0.0, ok=False, errors=[{"type": "SandboxError", "message": "the sandbox ended\nat once"}])
    late = [episode(1, score, run=work("train", 4)) for score in (1.0, 0.0)]
    early = episode(2, 1.0, run=work("train", 3))
    lines(tmp_path / "log" / "traces.jsonl", *late, early, {**broken, "run": work("eval", 4)})
    import_log(tmp_path / "log", tmp_path / "r", "", "right >= 1", Options())
    rows = rows_of(tmp_path / "r")
    assert [(row["split"], row["step"], row["task_id"], row["status"]) for row in rows] == [
        ("train", 3, "h2", "correct"), ("test", 4, "h3", "failed"), ("train", 4, "h1", "correct"),
        ("train", 4, "h1", "wrong"),
    ]  # fmt: skip
    first = rows[2]
    assert [each["content"] for each in first["messages"]] == ["1+1?", "first", "again", "2"]
    assert first["token_ids"] == [4, 6, 7] and first["logprobs"] == [-0.25] * 3 and first["turns"] == 2
    assert first["entropy"] == [1.5, None, None]
    assert first["prompt_ids"] == [1, 2] and first["tokens"] == 3 and first["answer"] == "2"
    assert first["finish"] == "length" and first["stop"] == "truncated"
    assert first["reward"] == pytest.approx(1.1) and first["advantage"] == 0.5
    assert rows[1]["detail"] == "the sandbox ended" and rows[1]["correct"] is None
    with RunReader(tmp_path / "r") as reader:
        (group,) = reader.groups(step=3)
        assert group.rollouts[0].turns[1].prompt_ids == (1, 2, 4, 5, 8)


def test_a_record_that_verifiers_0_4_0_wrote(tmp_path):
    import_log(LOGS / "verifiers-0.4.0-traces.jsonl", tmp_path / "r", "verifiers", "right >= 1", Options())
    rows = rows_of(tmp_path / "r")
    assert [(row["split"], row["task_id"], row["reply"], row["reward"], row["correct"]) for row in rows] == [
        ("test", "h1", "2", 1.1, True), ("test", "h1", "2", 0.1, False), ("test", "h2", "3", 1.1, True)
    ]  # fmt: skip
    assert rows[0]["prompt_ids"] == [1, 2, 8] and rows[0]["token_ids"] == [6, 7] and rows[0]["finish"] == "stop"
    assert rows[0]["logprobs"] == pytest.approx([-0.1235, -0.5], abs=1e-7) and rows[0]["answer"] == "2"


def test_prime_rl_keeps_all_rollouts_of_a_step_in_a_folder(tmp_path):
    for step in (2, 10):
        for part, rows in (("all", [episode(1, 1.0), episode(1, 0.0)]), ("effective", [episode(1, 1.0)])):
            lines(tmp_path / "rollouts" / f"step_{step}" / "train" / part / "traces.jsonl", *rows)
    lines(tmp_path / "rollouts" / "step_2" / "eval" / "all" / "traces.jsonl", episode(5, 1.0))
    import_log(tmp_path / "rollouts", tmp_path / "r", "prime-rl", "right >= 1", Options())
    rows = rows_of(tmp_path / "r")
    assert [(row["split"], row["step"], row["sample"]) for row in rows] == [
        ("test", 2, 0), ("train", 2, 0), ("train", 2, 1), ("train", 10, 0), ("train", 10, 1)
    ]  # fmt: skip


def test_an_evaluation_of_verifiers_has_no_steps(tmp_path):
    lines(tmp_path / "log" / "traces.jsonl", episode(1, 1.0), episode(2, 0.0))
    import_log(tmp_path / "log", tmp_path / "r", "verifiers", "right >= 1", Options())
    with RunReader(tmp_path / "r") as reader:
        assert reader.held_out["pass_at"]["1"]["value"] == 0.5 and reader.steps == 0


@pytest.mark.parametrize("field", ["traces", "nodes", "rewards"])
def test_a_trace_without_a_field_names_it(tmp_path, field):
    row = episode(1, 1.0)
    (row if field == "traces" else row["traces"][0]).pop(field)
    lines(tmp_path / "traces.jsonl", row)
    with pytest.raises(ConfigError, match=rf"E062.*no field '{field}'"):
        import_log(tmp_path / "traces.jsonl", tmp_path / "r", "", "", Options())


def sample(n: int, epoch: int, value: Any, **more: Any) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "Add."},
        {"role": "user", "content": "attachment://abc" if n == 1 else f"{n}+1?"},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm "}, {"type": "text", "text": str(n + 1)}]},
    ]
    return {
        "id": n, "epoch": epoch, "input": f"{n}+1?", "target": str(n + 1), "messages": messages,
        "output": {"model": "m", "choices": [{"stop_reason": "max_tokens"}]},
        "scores": {"match": {"value": value, "answer": str(n + 1)}, "length": {"value": 3}},
        "attachments": {"abc": "1+1?"}, **more,
    }  # fmt: skip


SAMPLES = [
    sample(1, 1, "C"),
    sample(1, 2, "I"),
    sample(2, 1, math.nan),
    sample(3, 1, "P", error={"message": "it broke\nat line 1"}),
]


def archive(path: Path, method: int) -> Path:
    with ZipFile(path, "w", method) as file:
        file.writestr("header.json", json.dumps({"version": 2, "status": "success"}))
        for each in SAMPLES:
            file.writestr(f"samples/{each['id']}_epoch_{each['epoch']}.json", json.dumps(each))
    return path


def zstandard_archive(path: Path, zstandard: Any) -> Path:
    """An archive as Inspect writes it: compressed in two frames, and said to be of method 93."""
    plain = archive(path.with_suffix(".zip"), ZIP_STORED)
    out, index = io.BytesIO(), io.BytesIO()
    with ZipFile(plain) as file:
        for member in file.infolist():
            data, at = file.read(member), out.tell()
            half = len(data) // 2
            packed = b"".join(zstandard.ZstdCompressor().compress(part) for part in (data[:half], data[half:]))
            name = member.filename.encode()
            both = struct.pack("<HHHHHLLLHH", 20, 0, 93, 0, 33, member.CRC, len(packed), len(data), len(name), 0)
            out.write(b"PK\3\4" + both + name + packed)
            index.write(b"PK\1\2" + struct.pack("<H", 20) + both + struct.pack("<HHHLL", 0, 0, 0, 0, at) + name)
        count, start = len(file.infolist()), out.tell()
    table = index.getvalue()
    out.write(table + b"PK\5\6" + struct.pack("<HHHHLLH", 0, 0, count, count, len(table), start, 0))
    plain.unlink()
    path.write_bytes(out.getvalue())
    return path


@pytest.mark.parametrize("packed", ["deflate", "zstandard"])
def test_logs_of_inspect(tmp_path, packed):
    if packed == "zstandard":
        zstandard_archive(tmp_path / "log.eval", pytest.importorskip("zstandard"))
    else:
        archive(tmp_path / "log.eval", ZIP_DEFLATED)
    import_log(tmp_path / "log.eval", tmp_path / "r", "", "match >= 1", Options())
    rows = rows_of(tmp_path / "r")
    assert [(row["task_id"], row["sample"], row["status"], row["reward"]) for row in rows] == [
        ("1", 0, "correct", 1.0), ("1", 1, "wrong", 0.0), ("2", 0, "unjudged", None), ("3", 0, "failed", 0.5),
    ]  # fmt: skip
    assert {row["split"] for row in rows} == {"test"} and rows[3]["detail"] == "it broke"
    assert rows[0]["prompt"] == "Add.\n1+1?" and rows[0]["reply"] == "hm 2" and rows[0]["finish"] == "length"
    assert rows[0]["answer"] == "2" and rows[0]["source"] == "log.eval:samples/1_epoch_1.json"
    assert {part["name"]: part["weight"] for part in rows[0]["parts"]} == {"match": 1.0, "length": 0.0}
    with RunReader(tmp_path / "r") as reader:
        # Of the three tasks one was judged whole; it was solved once in two epochs.
        assert reader.held_out["pass_at"]["1"]["value"] == 0.5 and reader.steps == 0


def test_samples_that_inspect_0_3_285_wrote(tmp_path):
    with ZipFile(tmp_path / "log.eval", "w", ZIP_DEFLATED) as file:
        for name, each in json.loads((LOGS / "inspect-0.3.285-samples.json").read_text()).items():
            file.writestr(name, json.dumps(each))
    import_log(tmp_path / "log.eval", tmp_path / "r", "inspect", "match >= 1", Options())
    assert [(row["task_id"], row["answer"], row["reply"], row["correct"]) for row in rows_of(tmp_path / "r")] == [
        ("one", "2", "2", True), ("one", "2", "3", False), ("two", "3", "2", False), ("two", "3", "5", False)
    ]  # fmt: skip
    with RunReader(tmp_path / "r") as reader:
        assert {k: found["value"] for k, found in reader.held_out["pass_at"].items()} == {"1": 0.25, "2": 0.5}


def test_rows_of_trl_1_16_0(tmp_path):
    """The same row twice counts once; NaN and null are a reward function that returned None."""
    options = Options(weights={"form": 0.1})
    import_log(LOGS / "trl-1.16.0-completions.jsonl", tmp_path / "r", "trl", "correct >= 1", options)
    rows = rows_of(tmp_path / "r")
    assert [(row["step"], row["prompt"], row["reward"], row["status"], row["advantage"]) for row in rows] == [
        (10, "2+2?", 1.1, "correct", 0.7), (10, "2+2?", 0.0, "unjudged", -0.7), (10, "3+3?", 1.0, "correct", 0.0),
        (11, "3+3?", None, "unjudged", 0.0),
    ]  # fmt: skip
    assert [each["role"] for each in rows[3]["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert '"add"' in rows[3]["messages"][1]["content"] and rows[3]["turns"] == 2 and rows[3]["parts"] == []
    assert rows[2]["task_id"] == rows[3]["task_id"] and {row["tokens"] for row in rows} == {None}
    named = Options(columns={"answer": "solution"})
    with pytest.raises(ConfigError, match=r"E062.*no field 'solution' for the answer"):
        import_log(LOGS / "trl-1.16.0-completions.jsonl", tmp_path / "s", "trl", "", named)


def test_several_logs_are_several_evaluations(tmp_path):
    for name in ("2025-01-01_a", "2025-01-02_b"):
        archive(tmp_path / f"{name}.eval", ZIP_DEFLATED)
    import_log(tmp_path, tmp_path / "r", "inspect", "match >= 1", Options())
    with RunReader(tmp_path / "r") as reader:
        assert [record.step for record in reader.records("evaluation")] == [0, 1]


def test_what_cannot_be_read_of_inspect(tmp_path, monkeypatch):
    (tmp_path / "a.eval").write_bytes(b"no archive")
    with pytest.raises(ConfigError, match="E064"):
        import_log(tmp_path / "a.eval", tmp_path / "r", "", "", Options())
    zstandard_archive(tmp_path / "b.eval", pytest.importorskip("zstandard"))
    monkeypatch.setattr("gnomon.integrations.imports.inspect_logs.find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"E505.*zstandard"):
        import_log(tmp_path / "b.eval", tmp_path / "r", "", "", Options())
    assert not (tmp_path / "r").exists()
