"""The chain: same records, same fingerprint; anything else, another one."""

import contextlib
import math
import sqlite3
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import RunError
from gnomon.store import Record, Run, RunReader, canonical, verify
from gnomon.store.layout import ROOT, bodies, link, pack, unpack

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_a_body_reads_back_exactly(body):
    record, raw = unpack(pack(3, ROOT, Record(kind="rollout", step=1, body=body)))
    assert canonical(record.body) == raw == canonical(body)
    assert repr(record.body) == repr({key: record.body[key] for key in record.body}) and record.body == body
    assert (record.seq, record.step, record.task) == (3, 1, None)


def test_canonical_form_is_pinned():
    body = {"b": [1, 1.0, -0.0, 0.1, 1e300], "a": {"é": None, "t": (True,)}}
    assert canonical(body) == b'{"a":{"t":[true],"\\u00e9":null},"b":[1,1.0,-0.0,0.1,1e+300]}'
    assert canonical(MappingProxyType(body)) == canonical(dict(reversed(body.items())))


def test_hash_is_pinned():
    """A change of this value is a change of format: it makes every run folder there is unverifiable."""
    record = Record(kind="step", step=3, body={"loss": 0.5})
    digest = link(ROOT, record, canonical(record.body))
    assert digest.hex() == "518136c76247827f1dc394e096de643842435597e46035d0a45e5b9795f8a7eb"


def test_every_field_of_a_record_enters_its_hash():
    variants = [
        Record(kind="step", body={}),
        Record(kind="steps", body={}),
        Record(kind="step", step=1, body={}),
        Record(kind="step", task=1, body={}),
        Record(kind="step", sample=1, body={}),
        Record(kind="step", body={"a": 1}),
        Record(kind="step", body={"a": 1.0}),
        Record(kind="step", body={"a": True}),
        Record(kind="step", body={"a": "1"}),
    ]
    digests = {link(previous, r, canonical(r.body)) for r in variants for previous in (ROOT, bytes(32))}
    assert len(digests) == 2 * len(variants)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"a": {"logprobs": [0.0, math.nan]}}, "a.logprobs[1]"),
        ({"reward": math.inf}, "reward"),
        ({"a": [{"b": {1, 2}}]}, "a[0].b"),
        ({"a": {3: "three"}}, "a"),
        ({"a": b"bytes"}, "a"),
    ],
)
def test_what_is_not_plain_json_is_refused_by_name_and_nothing_is_stored(tmp_path, body, where):
    with Run.create(tmp_path / "run", recipe="", manifest={}, genesis={}) as run:
        before = run.fingerprint
        with pytest.raises(RunError) as caught:
            run.append([Record(kind="step", step=0, body={}), Record(kind="step", step=1, body=body)])
        assert caught.value.code == "E407" and caught.value.where == where and caught.value.fix
        assert (run.position, run.fingerprint) == (1, before)
    assert verify(tmp_path / "run").records == 1


def test_a_step_that_is_no_integer_is_refused():
    for step in (1.0, True, "1"):
        with pytest.raises(RunError, match="E407"):
            Record(kind="step", step=step, body={})


def test_same_records_same_fingerprint_however_they_are_grouped(make, tmp_path):
    one, two = make("one"), make("two")
    with RunReader(one) as a, RunReader(two) as b:
        assert a.fingerprint == b.fingerprint and a.uuid != b.uuid
        records = list(a.records())[1:]
        with Run.create(tmp_path / "three", recipe="other", manifest={"other": 1}, genesis=a.genesis) as run:
            for record in records:
                run.append([record])
                run.note("lunch", {"seconds": 3})
            assert run.fingerprint == a.fingerprint and run.position == a.length
    assert make("four", seed=2) and RunReader(tmp_path / "four").fingerprint != RunReader(one).fingerprint


def test_any_changed_byte_of_a_record_is_found(make):
    folder = make()
    assert verify(folder) and verify(folder).records == 18
    for column, value in [
        ("body", "x'7b7d'"),
        ("hash", "zeroblob(32)"),
        ("step", "9"),
        ("task", "NULL"),
        ("kind", "'step'"),
        ("reward", "0.5"),
        ("status", "'correct!'"),
        ("tokens", "NULL"),
    ]:
        with sqlite3.connect(folder / "journal.db", isolation_level=None) as db:
            kept = db.execute("SELECT * FROM records WHERE seq = 8").fetchone()
            db.execute(f"UPDATE records SET {column} = {value}, packed = packed * ({column!r} != 'body') WHERE seq = 8")
            report = verify(folder)
            db.execute("DELETE FROM records WHERE seq = 8")
            gone = verify(folder)
            db.execute(f"INSERT INTO records VALUES ({','.join('?' * len(kept))})", kept)
        db.close()
        assert not report and report.problems[0].code == "E405" and "record 8" in str(report), column
        assert report.records == gone.records == 8 and "record 8" in str(gone)
        assert verify(folder)


def test_one_flipped_bit_in_the_file_is_found_or_harmless(make):
    """Every page of the database, one bit each: what is read afterwards is right, or it is called damaged."""
    folder = make(steps=2)
    path = folder / "journal.db"
    good = path.read_bytes()
    with RunReader(folder) as reader:
        fingerprint = reader.fingerprint
    found = 0
    for offset in range(0, len(good), 311):
        flipped = good[offset] ^ (1 << offset % 8)
        path.write_bytes(good[:offset] + bytes([flipped]) + good[offset + 1 :])
        try:
            report = verify(folder)
        except RunError as error:
            assert error.code in ("E405", "E406"), error
            found += 1
            continue
        found += not report
        assert not report or (report.fingerprint, report.records) == (fingerprint, 13)
        with RunReader(folder) as reader:
            for read in (reader.events, reader.timings, lambda: reader.status, lambda: reader.reason):
                with contextlib.suppress(RunError):
                    read()
    assert found >= 10


def test_changed_recipe_or_manifest_is_found(make):
    for name in ("recipe.toml", "manifest.json"):
        folder = make(name)
        (folder / name).write_text("{}")
        assert [problem.what for problem in verify(folder).problems] == [f"{name} is damaged"]
        (folder / name).unlink()
        assert "missing" in str(verify(folder))


@pytest.mark.parametrize("stored", [b"{", b'{"a":1},{"b":2}', b"\xff", None])
def test_bodies_are_read_together_and_a_damaged_one_is_named(stored):
    records = [
        Record(kind="step", step=step, body={"metrics": {"x": step / 3}, "long": "y" * step}) for step in range(400)
    ]
    rows = [pack(seq, ROOT, record) for seq, record in enumerate(records)]
    assert bodies(rows) == [record.body for record in records] and bodies([]) == []
    rows[7] = (*rows[7][:5], 0, stored, *rows[7][7:])
    with pytest.raises(RunError, match=r"E405.*record 7 \(step\) is damaged"):
        bodies(rows)
