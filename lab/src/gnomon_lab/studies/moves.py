"""What modules and functions were called when the studies that ship were registered.

A study is registered by the SHA-256 of its file. Since then modules have moved and a function has another name, so
the files import other names. Such a file is the registered one if undoing the moves gives the registered bytes.
"""

from __future__ import annotations

import re
from pathlib import Path

from gnomon_lab.studies.design import sha256, sha256_of

__all__ = ["LIBRARY", "is_registered", "registered_sha256"]

LIBRARY = Path(__file__).with_name("library")
"""The studies that ship."""
MOVES = {
    "checkpoint_folders": "stored",
    "gnomon.comparison.measures": "gnomon.studies.measures",
    "gnomon.envs.scaffold": "gnomon.launch.scaffold",
    "gnomon.export.model": "gnomon.launch.export",
    "gnomon.rejudge.replay": "gnomon.launch.replay",
    "gnomon.run.find": "gnomon.launch.find",
    "gnomon.theory.curves": "gnomon.objectives.curves",
    "gnomon.theory.exact": "gnomon.objectives.exact",
    "gnomon.theory.tuning": "gnomon.objectives.tuning",
    "gnomon.theory.world": "gnomon.objectives.world",
    "gnomon_lab.predictions": "gnomon.predictions",
    "gnomon_lab.probes": "gnomon.probes",
    "gnomon_lab.strategy": "gnomon.launch.strategy",
    "gnomon_lab.studies": "gnomon.studies",
    "gnomon_lab.tiny_policy": "gnomon.tiny_policy",
}
"""The present name of a module or function, and the one at registration."""
NAMES = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, MOVES))})(?!\w)")
THEORY = re.compile(r"^from gnomon\.objectives import (.+)\nfrom gnomon\.theory import (.+)\n", re.MULTILINE)
"""Two lines that were one, with its names in order."""


def registered_sha256(path: Path) -> str:
    """Of the file of a study, as it was before the moves."""
    text = THEORY.sub(one_import, path.read_text("utf-8"))
    return sha256_of(NAMES.sub(lambda name: MOVES[name[1]], text).encode())


def one_import(lines: re.Match[str]) -> str:
    names = [*lines[1].split(", "), *lines[2].split(", ")]
    ordered = sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    return f"from gnomon.objectives import {', '.join(ordered)}\n"


def is_registered(path: Path, registered: str) -> bool:
    """Whether a file is the registered one, but for names that have changed."""
    return registered in (sha256(path), registered_sha256(path))
