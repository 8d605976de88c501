"""A log that is followed while it is written: every row once, whatever the moment at which the reader looks."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gnomon.errors import ConfigError
from gnomon.integrations.imports import importing as module
from gnomon.integrations.imports import trl
from gnomon.integrations.imports.files import Options
from gnomon.integrations.verl import record
from gnomon.reading.importing import follow_log, import_log
from gnomon.store import RunReader, verify
from gnomon.store.columns import rollout_table

COLUMNS = {"prompt": "q", "reply": "out", "reward": "score", "step": "it"}


def row(step: int, n: int, **more: Any) -> dict[str, Any]:
    return {"q": f"{n // 2}+1?", "out": f"répons\u2028e {n}", "score": float(n % 2), "it": step, **more}


def verl_row(step: int, n: int) -> dict[str, Any]:
    return {"input": f"{n // 2}+1?", "output": str(n), "gts": "1", "score": float(n % 2), "step": step}


def waited(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def steps_of(folder: Path) -> int:
    if not (folder / "journal.db").exists():
        return 0
    with RunReader(folder) as reader:
        return reader.steps


def table(folder: Path) -> list[tuple[Any, ...]]:
    with RunReader(folder) as reader:
        names = ("split", "step", "task_id", "sample", "reply", "reward", "status", "source", "token_ids")
        return [tuple(each[name] for name in names) for each in rollout_table(reader.records(), tokens=True)]


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.01)


@contextmanager
def following(source: Path, folder: Path, format: str, options: Options, facts: list[Any]) -> Iterator[None]:
    """In a thread, until the block ends. Args: facts: gets the result, or the error."""
    stop = threading.Event()

    def run() -> None:
        try:
            facts.append(follow_log(source, folder, format, "reward >= 1", options, stop.is_set))
        except ConfigError as error:
            facts.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("seed", range(3))
def test_lines_written_in_pieces_are_each_read_once(seed, tmp_path):
    """The file grows by random pieces of bytes, which cut lines and characters; an empty line is between two."""
    draw, log, facts = random.Random(seed), tmp_path / "log.jsonl", []
    lines = [json.dumps(row(step, n), ensure_ascii=False) + "\n" for step in range(6) for n in range(8)]
    data = "\n".join([*lines[:20], *lines[20:]]).encode()[:-1]  # The last line has no end.
    options = Options(columns=COLUMNS)
    with following(log, tmp_path / "live", "jsonl", options, facts), log.open("wb", buffering=0) as file:
        while data:
            size = draw.choice((1, 7, 40, 300, 2000))
            file.write(data[:size])
            data = data[size:]
            if draw.random() < 0.3:
                time.sleep(0.01)
    assert facts[0]["rollouts"] == 48 and facts[0]["steps"] == 6
    import_log(log, tmp_path / "after", "jsonl", "reward >= 1", options)
    assert table(tmp_path / "live") == table(tmp_path / "after")
    with RunReader(tmp_path / "live") as live, RunReader(tmp_path / "after") as after:
        assert live.metrics() == after.metrics() and live.status == "finished" and live.manifest["imported"]["followed"]
        (noted,) = live.events("followed")
        assert noted["files"] == after.manifest["imported"]["files"]
    assert verify(tmp_path / "live")


def test_a_step_is_stored_when_the_next_begins_and_can_be_read_at_once(tmp_path):
    """The folder of the dumps does not exist at first, and its files appear one by one, the tenth after the ninth."""
    dump, live, facts = tmp_path / "dump", tmp_path / "live", []
    with following(dump, live, "verl", Options(), facts):
        time.sleep(0.05)
        dump.mkdir()
        for step in (9, 10, 11):
            text = "".join(json.dumps(verl_row(step, n)) + "\n" for n in range(4))
            (dump / f"{step}.jsonl").write_text(text[:-9])
            with (dump / f"{step}.jsonl").open("a") as file:
                time.sleep(0.03)
                file.write(text[-9:])
            waited(lambda before=step - 9: steps_of(live) == before)
        assert [each[1] for each in table(live)] == [9] * 4 + [10] * 4  # The newest step is not complete yet.
        with RunReader(live) as reader:
            assert reader.status == "running"
    assert facts[0]["rollouts"] == 12
    import_log(dump, tmp_path / "after", "verl", "reward >= 1", Options())
    assert table(live) == table(tmp_path / "after")


def test_a_parquet_file_of_trl_that_is_written_again_adds_only_what_is_new(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, options = tmp_path / "completions_00001.parquet", Options(positions={})

    def read_after(*replies: str) -> list[str]:
        rows = [{"step": 1, "prompt": "q", "completion": reply, "right": 1.0, "advantage": 0.0} for reply in replies]
        pq.write_table(pa.Table.from_pylist(rows), path)
        return [each.turns[0].completion.text for each in trl.read(tmp_path, options)]

    path.write_bytes(b"PAR1 half")
    assert list(trl.read(tmp_path, options)) == []
    assert read_after("a", "b") == ["a", "b"]
    assert list(trl.read(tmp_path, options)) == []
    assert read_after("b", "c") == ["c"]  # The first row was pushed out.


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (json.dumps(row(1, 0)) + "\n" + json.dumps(row(0, 0)) + "\n", "E067"),
        ('{"q": 1}\n', "E062"),
        ("no json\n", "E064"),
        ("", "E065"),
        ('{"half": "a line', "E065"),
    ],
)
def test_an_error_ends_it_and_leaves_no_empty_run(text, code, tmp_path):
    log, facts = tmp_path / "log.jsonl", []
    log.write_text(text)
    with following(log, tmp_path / "live", "jsonl", Options(columns=COLUMNS), facts):
        if code != "E065":
            waited(lambda: bool(facts))
    assert facts[0].code == code and not (tmp_path / "live").exists()


def test_an_error_keeps_what_was_stored(tmp_path):
    log, live, facts = tmp_path / "log.jsonl", tmp_path / "live", []
    log.write_text("".join(json.dumps(row(step, n)) + "\n" for step in (0, 1) for n in range(4)))
    with following(log, live, "jsonl", Options(columns=COLUMNS), facts):
        waited(lambda: steps_of(live) == 1)
        log.write_text("shorter\n")
        waited(lambda: bool(facts))
    assert facts[0].code == "E064" and "shorter now" in str(facts[0]) and len(table(live)) == 4
    with RunReader(live) as reader:
        assert reader.status == "failed"
    assert verify(live)


def test_logs_that_are_complete_only_at_their_end_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="E072"):
        follow_log(tmp_path, tmp_path / "live", "inspect", "", Options(), lambda: True)
    assert list(tmp_path.iterdir()) == []


def test_the_command_ends_by_ctrl_c(tmp_path):
    log, live = tmp_path / "log.jsonl", tmp_path / "live"
    log.write_text("".join(json.dumps(row(step, n)) + "\n" for step in (0, 1) for n in range(4)))
    fields = [f"{name}={column}" for name, column in COLUMNS.items()]
    words = ["import", str(log), str(live), *fields, "--format", "jsonl", "--correct", "reward >= 1", "--follow"]
    process = subprocess.Popen([sys.executable, "-m", "gnomon", *words], stdout=subprocess.PIPE, text=True)
    waited(lambda: steps_of(live) == 1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "step 0 is stored" in out and "8 rollouts of jsonl in 2 steps" in out
    assert len(table(live)) == 8 and verify(live)


def test_the_recorder_of_verl_follows_its_dump(tmp_path):
    """The dump of a step is one file of lines, written by a thread of the trainer; the trainer knows nothing of it."""
    dump = tmp_path / "out/rollouts"
    with record(dump, tmp_path / "run", correct="score > 0"):
        dump.mkdir(parents=True)
        for step in (1, 2, 3):
            text = "".join(json.dumps({**verl_row(step, n), "acc": n % 2 == 1}) + "\n" for n in range(4))
            (dump / f"{step}.jsonl").write_text(text)
    rows = table(tmp_path / "run")
    assert [each[1] for each in rows] == [1] * 4 + [2] * 4 + [3] * 4
    assert [each[6] for each in rows] == ["wrong", "correct"] * 6
    with RunReader(tmp_path / "run") as reader:
        assert reader.status == "finished" and reader.import_format == "verl"
    assert verify(tmp_path / "run")


def test_a_recording_that_fails_does_not_stop_the_trainer(tmp_path):
    dump, after = tmp_path / "rollouts", False
    dump.mkdir()
    (dump / "1.jsonl").write_text(json.dumps({"input": "q", "output": "a", "step": 1}) + "\n")
    with pytest.warns(UserWarning, match=r"E062.*'score'"), record(dump, tmp_path / "run"):
        after = True
    assert after and not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match="E060"), record(dump, tmp_path / "run", correct="score is high"):
        raise AssertionError("the trainer must not begin")


def test_an_error_of_the_trainer_is_its_own_and_the_steps_are_kept(tmp_path):
    dump = tmp_path / "rollouts"
    with pytest.raises(ZeroDivisionError), record(dump, tmp_path / "run"):
        lines = "".join(json.dumps(verl_row(1, n)) + "\n" for n in range(4))
        dump.mkdir()
        (dump / "1.jsonl").write_text(lines)
        raise ZeroDivisionError
    assert len(table(tmp_path / "run")) == 4
