"""The site of the documentation: links lead somewhere, and no page loads anything from another host."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from commands import interpreter

DOCS = Path(__file__).parents[2] / "docs"
LOADS = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}


def build(docs: Path, site: Path):
    return interpreter("-m", "sphinx", "-q", "-W", "-n", "--keep-going", str(docs), str(site))


class Loaded(HTMLParser):
    """What a page loads, and where its own addresses lead."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if (address := found.get(LOADS.get(tag, ""))) and found.get("rel") != "canonical":
            self.loads.append(address)


@pytest.mark.needs("sphinx")
@pytest.mark.long
def test_the_site_is_whole_and_loads_nothing_from_elsewhere(tmp_path):
    done = build(DOCS, tmp_path)
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    written = [*DOCS.rglob("*.md"), *DOCS.glob("notebooks/*.ipynb")]
    sources = [page.relative_to(DOCS).with_suffix(".html") for page in written]
    assert {tmp_path / source for source in sources} <= set(pages)
    for page in pages:
        reader = Loaded()
        reader.feed(page.read_text("utf-8"))
        assert len(reader.loads) > 5, "every page has styles and scripts"
        for address in reader.loads:
            assert not re.match(r"(\w+:)?//", address), f"{page.name} loads {address}"
            assert address.startswith("data:") or (page.parent / re.split("[?#]", address)[0]).exists(), address
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", style.read_text("utf-8")), style
    index = (tmp_path / "index.html").read_text("utf-8")
    assert re.findall(r'caption-text">([^<]+)', index) == ["Start", "How-to", "Reference", "Explanation", "Laboratory"]


def test_the_index_lists_every_page_once():
    listed = re.findall(r"^- \[.+?\]\((.+?)\)", (DOCS / "index.md").read_text("utf-8"), re.M)
    written = [page for kind in ("*.md", "lab/*.md", "results/*.md", "notebooks/*.ipynb") for page in DOCS.glob(kind)]
    pages = {page.relative_to(DOCS).as_posix() for page in written}
    assert sorted(listed) == sorted(pages - {"index.md"})


@pytest.mark.needs("sphinx")
def test_a_broken_link_is_an_error(tmp_path):
    links = ("nowhere.md", "index.md#no-such-heading", "no-picture.png")
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copy(DOCS / "conf.py", docs)
    (docs / "index.md").write_text("# Title\n\n[a]({})\n[b]({})\n![c]({})\n".format(*links))
    done = build(docs, tmp_path / "site")
    assert done.returncode != 0
    for link in links:
        assert link.rpartition("#")[2] in done.stderr, done.stderr
