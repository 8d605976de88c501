"""The figures of a part, written to its file as they come."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]

__all__ = ["ROOT", "Record", "Skipped"]


class Skipped(Exception):
    """A part cannot run here; the text says why."""


class Record:
    """A part's figures. Each rewrites the whole file under another name and renames it, so a file is always complete.

    Attributes: device: `cuda`, or `cpu` for the part in miniature, whose figures say nothing about speed.
    """

    def __init__(self, path: Path, device: str) -> None:
        self.path, self.device, self.figures = path, device, list[dict[str, Any]]()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        card = torch.cuda.get_device_name() if device == "cuda" else "cpu"
        self.facts = {
            "part": path.stem, "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "card": card,
            "torch": torch.__version__, "commit": commit(),
        }  # fmt: skip
        self.end("running")

    @property
    def small(self) -> bool:
        """Whether this is the miniature."""
        return self.device == "cpu"

    def add(self, name: str, **values: Any) -> None:
        """Write and print a figure. Args: values: JSON values; their names end in the unit."""
        self.figures.append({"name": name, **values})
        self.end("running")
        shown = (
            f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}" for key, value in values.items()
        )
        print(f"  {name}: {' '.join(shown)}", flush=True)

    def end(self, status: str, reason: str = "") -> None:
        """Write the file. Args: status: `running`, `done`, `skipped` or `failed`."""
        body = {**self.facts, "status": status, "reason": reason, "figures": self.figures}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(body, indent=1) + "\n")
        os.replace(new, self.path)


def commit() -> str:
    """The commit of the working tree; empty outside of a repository."""
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""
