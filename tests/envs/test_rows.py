"""Files of rows as people have them: JSON, CSV, compressed, in any encoding, and every fault with its place."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gnomon.envs import Dataset
from gnomon.envs.base import SLOT
from gnomon.envs.rows import read_rows
from gnomon.errors import ConfigError
from gnomon.integrations.rewarded import make_env

ROWS = [
    {"prompt": 'Say "one,\ntwo"; ünï\u2028', "answer": "3"},
    *({"prompt": f"{n}+1?", "answer": str(n + 1)} for n in range(40)),
]
LINES = "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)


def table(separator: str, end: str = "\r\n") -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["prompt", "answer"], delimiter=separator, lineterminator=end)
    writer.writeheader()
    writer.writerows(ROWS)
    return text.getvalue()


FILES: dict[str, bytes] = {
    "a.jsonl": LINES.encode(),
    "a.JSONL": LINES.encode(),
    "mark.jsonl": LINES.encode("utf-8-sig"),
    "ends.jsonl": LINES.replace("\n", "\r\n").encode(),
    "old.jsonl": LINES.replace("\n", "\r").encode(),
    "wide.jsonl": LINES.encode("utf-16"),
    "wider.jsonl": LINES.encode("utf-16-be"),
    "a.jsonl.gz": gzip.compress(LINES.encode()),
    "a.ndjson.BZ2": bz2.compress(LINES.encode()),
    "a.jsonl.xz": lzma.compress(LINES.encode()),
    "lines.json": LINES.encode(),
    "array.json": json.dumps(ROWS, indent=1).encode(),
    "array.jsonl": json.dumps(ROWS).encode(),
    "held.json": json.dumps({"version": 2, "data": ROWS}).encode(),
    "held.json.gz": gzip.compress(json.dumps({"rows": ROWS}).encode("utf-16")),
    "a.csv": table(",").encode(),
    "mark.csv": table(",").encode("utf-8-sig"),
    "wide.CSV": table(";").encode("utf-16"),
    "semicolons.csv": table(";", "\n").encode(),
    "a.tsv": table("\t").encode(),
    "a.csv.gz": gzip.compress(table(",").encode()),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_any_form_has_the_same_rows(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    assert list(read_rows(str(path))) == ROWS
    env = Dataset(path=str(path), verifier="number")
    asked = {task.info["row"]: task.messages[0].content for split in ("train", "test") for task in env.tasks(split)}
    assert asked == {place: f"{row['prompt']} {SLOT}" for place, row in enumerate(ROWS)}
    assert env.files == {"path": str(path)}, "the run records the hash of the file"
    assert len(make_env(path, lambda completion, answer: completion == answer).train) > 30


def test_a_file_with_one_object_is_one_row(tmp_path: Path) -> None:
    row = {"prompt": [{"role": "user", "content": "2+2?"}], "answer": "4"}
    (tmp_path / "a.json").write_text(json.dumps(row, indent=1))
    assert read_rows(str(tmp_path / "a.json")) == (row,)


def test_a_value_of_a_csv_file_is_chosen_by_its_text(tmp_path: Path) -> None:
    rows = "".join(f"{n}+1?,{n + 1},{n % 3}\n" for n in range(60))
    (tmp_path / "a.csv").write_text("prompt,answer,level\n" + rows)
    env = Dataset(path=str(tmp_path / "a.csv"), where={"level": (1,)})
    assert {task.info["row"] % 3 for task in env.tasks("train")} == {1}


FAULTS: dict[str, tuple[str, bytes, str, str]] = {
    "an unknown suffix": ("a.xlsx", b"PK", "", "its suffix must be .parquet or one of .jsonl"),
    "not compressed": ("a.jsonl.gz", LINES.encode(), "", "BadGzipFile"),
    "cut short": ("a.jsonl.gz", gzip.compress(LINES.encode())[:-9], "", "EOFError"),
    "another encoding": ("a.csv", "prompt,answer\na,b\nünï,c\n".encode("cp1252"), ", line 3", "can't decode byte 0xfc"),
    "an array cut short": ("a.json", b'[\n{"prompt": "a"},\n', "", "line 3 column 1"),
    "compressed, and not called so": ("a.jsonl", gzip.compress(LINES.encode()), "", "does not end in .gz"),
    "nested too deep": ("a.jsonl", b'{"prompt": "a"}\n{"prompt": ' + b"[" * 9999, ", line 2", "nested too deep"),
    "an array of texts": ("a.json", b'["a"]', ", row 0", "a row must be a JSON object, not str"),
    "a number": ("a.json", b"3", ", row 0", "not int"),
    "a row that is longer": (
        "a.csv",
        b"prompt,answer\na,b\na,b,c\n",
        "",
        "line 3: it has 3 fields, and there are 2 col",
    ),
    "a quote that never ends": ("a.csv", b'prompt,answer\n"a,b\n', "", "line 2"),
    "a column twice": ("a.csv", b"prompt,prompt\na,b\n", "", "line 1: the names of the columns are 'prompt', 'prompt'"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_file_that_cannot_be_read_says_where(name: str, tmp_path: Path) -> None:
    file, data, where, words = FAULTS[name]
    (tmp_path / file).write_bytes(data)
    with pytest.raises(ConfigError, match="E150") as caught:
        Dataset(path=str(tmp_path / file)).tasks("train")
    assert caught.value.where == f"{tmp_path / file}{where}" and words in caught.value.why and caught.value.fix


def test_the_fix_of_another_encoding_can_be_pasted(tmp_path: Path) -> None:
    path = tmp_path / "my rows.jsonl"
    rows = [{"prompt": f"Prénom {n}?", "answer": "Zoé"} for n in range(40)]
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "cp1252")
    with pytest.raises(ConfigError, match="E150") as caught:
        Dataset(path=str(path)).tasks("train")
    subprocess.run(["/bin/sh", "-c", caught.value.fix], check=True)
    assert Dataset(path=str(tmp_path / "utf8-my rows.jsonl")).tasks("train")[0].answer == "Zoé"


@pytest.mark.parametrize("spelled", [json.dumps, str])
def test_messages_that_became_text_in_a_table_are_refused(spelled: Callable[[object], str], tmp_path: Path) -> None:
    rows = [{"prompt": spelled([{"role": "user", "content": f"{n}+1?"}]), "answer": str(n + 1)} for n in range(9)]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["prompt", "answer"])
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(ConfigError, match="the text of a list of messages"):
        Dataset(path=str(tmp_path / "a.csv")).tasks("train")
