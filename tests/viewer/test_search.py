"""The side index and the search: what they find is what reading every record finds."""

from __future__ import annotations

import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gnomon.store import Record, Run, RunReader
from gnomon.store.journal import open_writing
from gnomon.viewer.index import Index, Progress, fold, texts_of
from gnomon.viewer.search import Found, Query, search
from viewer.conftest import asked, body, served, task

WORDS = ["sum", "Product", "ÄRGER", "x=3", "<answer>", "\ud800", "\0", "\u202e", "7", "ab", "needle"]

SPLITS = {"rollout": "train", "held_out": "eval", "held_out.sums": "eval.sums"}


@pytest.fixture
def varied(tmp_path) -> Path:
    """A run of 12 steps and 2 evaluations, one of them a set, whose rollouts differ in all that can be searched."""
    draw = random.Random(0)
    folder = tmp_path / "run"
    with Run.create(folder, recipe="", manifest={}, genesis={"config": {}}) as run:
        for step in range(12):
            for kind in ("held_out", "held_out.sums", "rollout") if step % 6 == 0 else ("rollout",):
                for number in draw.sample(range(6), 3):
                    run.append(list(group(draw, kind, step, number)))
    return folder


def group(draw: random.Random, kind: str, step: int, number: int):
    words = " ".join(draw.choices(WORDS, k=4))
    yield Record(kind="task", step=step, task=number, body={**task(words, f"{kind}-{number}"), "of": kind})
    for sample in range(4):
        reply, reward = " ".join(draw.choices(WORDS, k=6)), draw.choice([0.0, 0.25, 1.0])
        turns = {} if sample % 2 else {"player": sample // 2, "turns": [turn(reply, draw.choice(WORDS))]}
        more = {
            "finish": draw.choice(["eos", "stop", "length"]),
            "status": draw.choice(["correct", "wrong", "several"]),
        }
        yield Record(kind=kind, step=step, task=number, sample=sample, body=body(reply, reward, **more, **turns))


def turn(reply: str, observed: str) -> dict[str, object]:
    messages = [{"role": "user", "content": f"observed {observed}"}]
    return {"reply": reply, "messages": messages, "tokens": 3, "fork": 0, "finish": "stop", "segments": []}


def every_page(index: Index, query: Query, seconds: float = 60.0) -> list[str]:
    """The rollouts of all pages."""
    found, after = [], -1
    with index.reading() as db, RunReader(index.folder) as reader:
        while True:
            page: Found = search(db, reader, query, after, seconds)
            found += [":".join(str(row[name]) for name in ("split", "step", "task", "sample")) for row in page.rows]
            if page.after is None:
                return found
            assert page.after > after
            after = page.after


def by_reading(folder: Path, query: Query) -> list[str]:
    """The same from every record of the chain."""
    found, prompt = [], Record(kind="task", body={})
    with RunReader(folder) as reader:
        for record in reader.records():
            prompt = record if record.kind == "task" else prompt
            if record.kind not in SPLITS:
                continue
            split, facts = SPLITS[record.kind], record.body
            text = [fold(each) for part in (record, prompt) for each in texts_of(part)]
            held = [
                any(fold(query.text) in each for each in text),
                query.task in ("", str(record.task), prompt.body["id"]),
                query.split in ("", split),
                query.status in ("", facts["status"]),
                query.finish in ("", facts["finish"]),
                query.player in (None, facts.get("player", 0)),
                query.first is None or record.step >= query.first,
                query.last is None or record.step <= query.last,
                query.low is None or facts["reward"] >= query.low,
                query.high is None or facts["reward"] <= query.high,
            ]
            if all(held):
                found.append(f"{split}:{record.step}:{record.task}:{record.sample}")
    return found


def queries() -> list[Query]:
    draw = random.Random(1)
    values = {
        "text": ["needle", "ÄRGER", "ärger x", "sum product", "ab", "\ud800", "observed 7", "7", "nothing here"],
        "task": ["3", "rollout-2", "held_out-1", "held_out.sums-1", "99", "unknown"],
        "split": ["train", "eval", "eval.sums"],
        "status": ["correct", "several", "failed"],
        "finish": ["eos", "length"],
        "player": [0, 1, 7],
        "first": [0, 4, 11, 99],
        "last": [0, 6, 99],
        "low": [0.25, 2.0],
        "high": [0.25, -1.0],
    }
    single = [Query(**{name: value}) for name, given in values.items() for value in given]
    several = [
        Query(**{name: draw.choice(values[name]) for name in draw.sample(sorted(values), draw.choice([2, 3]))})
        for _ in range(150)
    ]
    return [Query(), *single, *several]


def test_a_search_finds_what_reading_every_record_finds(varied):
    index = Index(varied)
    assert index.follow(60).complete
    sizes = set()
    for query in queries():
        expected = by_reading(varied, query)
        assert every_page(index, query) == expected, query
        sizes.add(min(len(expected), 2))
    assert sizes == {0, 1, 2}
    with closing(sqlite3.connect(index.path)) as db:
        db.execute("DROP TABLE texts")  # As where SQLite has no FTS5.
        db.commit()
    for query in queries():
        assert every_page(index, query) == by_reading(varied, query), query


def test_a_search_that_runs_out_of_time_goes_on_where_it_stopped(varied):
    index = Index(varied)
    index.follow(60)
    for query in queries()[::9]:
        assert every_page(index, query, seconds=0.0) == by_reading(varied, query), query


def test_the_index_follows_a_run_and_a_chain_that_became_another(tmp_path, cache):
    folder, draw = tmp_path / "live", random.Random(2)
    with Run.create(folder, recipe="", manifest={}, genesis={"config": {}}) as run:
        run.append(list(group(draw, "rollout", 0, 0)))
        index = Index(folder)
        assert index.follow(60) == Progress(6, 6) and index.path.is_relative_to(cache)
        run.append(list(group(draw, "rollout", 1, 0)))
        assert index.follow(60) == Progress(11, 11)
        assert every_page(index, Query(text="sum")) == by_reading(folder, Query(text="sum"))
    with closing(open_writing(folder)) as db:
        db.execute("DELETE FROM records WHERE seq >= 6")
    with Run.resume(folder) as run:
        run.rewind(6)
        run.append(list(group(random.Random(9), "rollout", 1, 5)))
    assert Index(folder).follow(60) == Progress(11, 11)
    assert every_page(index, Query()) == by_reading(folder, Query()) != []
    index.path.write_bytes(b"no database at all")
    index.path.with_name(index.path.name + "-wal").unlink(missing_ok=True)
    assert Index(folder).follow(60) == Progress(11, 11)
    assert every_page(index, Query(task="5")) == by_reading(folder, Query(task="5"))


def test_the_page_of_a_search_can_be_sent_and_paged(written):
    folder = written("a", *([f"needle {step}", "hay <b>"] for step in range(60)))
    with served(folder) as viewer:
        status, _, text = asked(viewer, "/run/a/-/search?text=NEEDLE&status=correct&low=0.5&first=2")
        assert status == 200 and text.count("<mark>needle</mark>") == 50 and 'value="NEEDLE"' in text
        assert 'href="rollout/2:0:0"' in text and 'href="group/2:0"' in text and "wrong (60)" in text
        (following,) = set(re.findall(r'href="\?([^"]+)"', text))
        assert "text=NEEDLE" in following and "first=2" in following
        status, _, text = asked(viewer, "/run/a/-/search?" + following.replace("&amp;", "&"))
        assert status == 200 and text.count("<mark>needle</mark>") == 8 and "next (n)" not in text
        assert "hay &lt;b&gt;" in asked(viewer, "/run/a/-/search?status=wrong")[2]
        assert "No rollout found" in asked(viewer, "/run/a/-/search?text=straw&player=x&low=y&task=%00")[2]


def test_a_rollout_of_an_evaluation_set_is_found_under_its_name_and_its_link_opens_it(varied):
    with served(varied) as viewer:
        status, _, text = asked(viewer, f"/run/{varied.name}/-/search?split=eval.sums&first=6")
        assert status == 200 and "eval.sums (24)" in text and "eval (24)" in text and "train (144)" in text
        links = re.findall(r'href="((?:rollout|group)/held-out\.sums:6:[\d:]+)"', text)
        assert len(links) == 24
        tasks = asked(viewer, f"/run/{varied.name}/-/tasks")[2]
        links = links[:2] + re.findall(r'href="((?:held-out-task|group/held-out)\.sums[/:][\d/:]+)"', tasks)[:2]
        assert len(links) == 4
        for link in links:
            assert asked(viewer, f"/run/{varied.name}/-/{link}")[0] == 200
