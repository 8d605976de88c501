"""Commands that show runs as web pages: `gnomon view` and `report`."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated

import typer

from gnomon.commands.words import RunFolder
from gnomon.errors import ConfigError
from gnomon.terminal import put

__all__ = ["report", "view"]


def view(
    places: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN|FOLDER …", help="Run folders, or folders that hold some.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Show runs as web pages, on this machine alone: gnomon view runs"""
    from gnomon.viewer import Viewer

    viewer = Viewer(places or [Path("runs")], port=port)
    gc.freeze()  # What was imported stays. To search it for garbage would take 0.1 s of a visit.
    put(f"runs are shown at {viewer.url} until interrupted (Ctrl-C)", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(viewer.url)
    viewer.run()


def report(
    folder: RunFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE.html", help="Where to write the page.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a run as one web page to send: results, curves, random rollouts, alarms, how to repeat it."""
    from gnomon.viewer.report import report as page

    if file.exists() and not force:
        raise ConfigError("E092", f"{file} exists", where="FILE.html", fix=f"gnomon report {folder} {file} --force")
    text = page(folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    put(f"{file}   {len(text.encode()) / 1e3:.0f} kB")
