"""How Sphinx makes the site of these pages: `make docs`. No page loads anything from another host.

The pages are plain Markdown. `index.md` lists them under headings, and these lists become the navigation.
"""

from __future__ import annotations

import re
from importlib.metadata import version as version_of

from sphinx.application import Sphinx

project = "Gnomon"
author = "Gnomon"
version = release = version_of("gnomon")
extensions = ["myst_nb"]
exclude_patterns = ["**.ipynb_checkpoints"]
html_theme = "furo"
html_title = "Gnomon"
html_copy_source = False
html_show_sphinx = False
myst_heading_anchors = 3
myst_links_external_new_tab = True
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, object] = {}
suppress_warnings = ["myst.header"]  # A generated page may begin its parts at any level.


def navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """Give the lists of the index a place in the sidebar. Pages that a table lists have none."""
    if name == "index":
        head, *parts = re.split(r"^(?=## )", source[0], flags=re.M)
        source[0] = head + "".join(part + listed(part) for part in parts)
    elif name.startswith(("objectives/", "lab/studies/")):
        source[0] = f"---\norphan: true\n---\n{source[0]}"


def listed(part: str) -> str:
    """The sidebar's entries for one heading: the links that begin an item of its list."""
    caption = part.partition("\n")[0].removeprefix("## ")
    links = re.findall(r"^- \[(.+?)\]\((.+?)\)", part, re.M)
    lines = (
        "```{toctree}",
        ":hidden:",
        f":caption: {caption}",
        "",
        *(f"{title} <{page}>" for title, page in links),
        "```",
    )
    return "\n".join((*lines, "", ""))


def setup(app: Sphinx) -> None:
    app.connect("source-read", navigation)
