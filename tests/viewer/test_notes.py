"""A note and tags on a run: written on its page, beside its records, and by nobody else."""

from __future__ import annotations

import json

import pytest

from commands import command
from gnomon.store import RunReader
from gnomon.store.audit import verify
from gnomon.store.notes import NOTE, Note, note_of, write_note
from viewer.conftest import asked, served


def test_a_note_and_tags_are_written_on_the_page_and_do_not_touch_the_run(written, browser):
    folder = written("a", ["x", "y"])
    with RunReader(folder) as reader:
        before = reader.fingerprint
    with served(folder.parent) as viewer:
        browser.open(f"http://127.0.0.1:{viewer.port}/run/a/-/?token={viewer.token}")
        browser.value("document.querySelector('.editor').open = true")
        browser.value("document.querySelector('textarea').value = 'Two\\nlines <b>'")
        browser.value("document.querySelector('input[name=tags]').value = 'keep, to read ,keep,'")
        browser.click(".editor button")
        browser.wait("document.readyState === 'complete' && document.querySelector('p.note') !== null")
        assert browser.value("document.querySelector('p.note').textContent") == "Two\nlines <b>"
        assert json.loads((folder / NOTE).read_text()) == {"text": "Two\nlines <b>", "tags": ["keep", "to read"]}
        page = asked(viewer, "/")[2]
        assert '<span class="tag">to read</span>' in page and "lines &lt;b&gt;" in page
        assert "keep, to read" in command("ls", str(folder.parent)).stdout
        curves = json.loads(asked(viewer, "/overlay/curves?run=a&by=tags")[2])["charts"][0]["series"]
        assert [line["label"] for line in curves] == ["keep (1)", "to read (1)"]
    with RunReader(folder) as reader:
        assert reader.fingerprint == before
    assert verify(folder)
    with served(folder.parent) as viewer:
        browser.open(f"http://127.0.0.1:{viewer.port}/run/a/-/?token={viewer.token}")
        browser.value("document.querySelector('textarea').value = ' '")
        browser.value("document.querySelector('input[name=tags]').value = ''")
        browser.value("document.querySelector('.editor').open = true")
        browser.click(".editor button")
        browser.wait("document.readyState === 'complete' && document.querySelector('p.note') === null")
    assert not (folder / NOTE).exists()


@pytest.mark.parametrize("headers", [
    {}, {"Origin": "null"}, {"Origin": "http://evil.example"}, {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://localhost.evil.example"}, {"own": "", "Sec_Fetch_Site": "same-site"},
    {"own": "", "token": False}, {"own": "", "Host": "evil.example"},
])  # fmt: skip
def test_a_note_from_elsewhere_is_refused(written, headers):
    folder = written("a", ["x"])
    with served(folder) as viewer:
        sent = dict(headers)
        if "own" in sent:
            sent["Origin"] = f"http://127.0.0.1:{viewer.port}{sent.pop('own')}"
        assert asked(viewer, "/run/a/-/note", method="POST", **sent)[0] == 403
        own = f"http://127.0.0.1:{viewer.port}"
        assert asked(viewer, "/run/a/-/note", Origin=own)[0] == 405
        assert asked(viewer, "/run/a/-/note", method="POST", Origin=own)[0] == 303
        assert asked(viewer, "/run/nothing/-/note", method="POST", Origin=own)[0] == 404


@pytest.mark.parametrize("text", ["", "[]", "{", '{"tags": 3}', '{"tags": null, "text": [1]}', "\xff"])
def test_a_note_file_that_somebody_broke_does_not_break_the_pages(written, text):
    folder = written("a", ["x"])
    (folder / NOTE).write_text(text, encoding="latin-1")
    with served(folder.parent) as viewer:
        assert asked(viewer, "/")[0] == asked(viewer, "/run/a/-/")[0] == 200
    assert note_of(folder).tags == ()


def test_a_note_is_kept_within_limits(tmp_path):
    note = Note.of("x" * 20_000, [*("y" * 100, "a\nb"), *map(str, range(50))])
    assert len(note.text) == 10_000 and len(note.tags) == 20 and note.tags[:2] == ("y" * 40, "a b")
    write_note(tmp_path, note)
    assert note_of(tmp_path) == note and not list(tmp_path.glob(".*"))
