"""Texts that attack the pages: nothing executes, nothing is hidden, no request leaves this machine."""

from __future__ import annotations

from urllib.parse import quote

from gnomon.viewer.report import report
from viewer.conftest import asked, served
from viewer.hostile import attacks, hostile_run, pages, probe

COUNT = 24
"""Of the 500 attacks; `python benchmarks/viewer.py --hostile` tries all of them on every page."""
NAME = "'\"><img src=x onerror=x> \u202e %2e"


def test_the_attacks_are_five_hundred_different_ones():
    assert len(set(attacks(500))) == 500 and len(set(attacks(COUNT))) == COUNT


def test_no_page_executes_or_hides_or_asks_elsewhere(tmp_path, browser):
    folder = tmp_path / "runs" / NAME
    hostile_run(folder, COUNT)
    with served(folder.parent) as viewer:
        own = f"http://127.0.0.1:{viewer.port}"
        browser.open(viewer.url)
        browser.requests.clear()
        paths = list(pages(NAME, COUNT, every=5))
        for path in paths:
            status, headers, text = asked(viewer, path)
            assert status in (200, 404) and "default-src 'none'" in headers["Content-Security-Policy"], path
            assert len(text) < 2_000_000, path
            browser.open(own + path)
            assert browser.value(probe()) == "", path
        assert asked(viewer, paths[1] + "curves")[0] == 200
        for by in ("", "tags", "objective", "policy"):
            assert asked(viewer, f"/overlay/curves?run={quote(NAME)}&by={by}")[0] == 200
        assert browser.dialogs == 0
        assert {url for url in browser.requests if not url.startswith((own, "data:,"))} == set()
    assert len(report(folder)) < 2_000_000
