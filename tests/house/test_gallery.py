"""The gallery is what the code says now."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from gnomon.envs import ENVS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_committed_gallery_is_what_the_code_writes() -> None:
    spec = importlib.util.spec_from_file_location("gallery_page", DOCS / "gallery.py")
    assert spec and spec.loader
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    written = writer.page()
    assert (DOCS / "gallery.md").read_text("utf-8") == written, "out of date, run python docs/gallery.py"
    for name in ENVS:
        assert f"\n## {name}\n" in written
