"""Where modules were when the studies that ship were registered.

A study is registered by the SHA-256 of its file. Since then modules have moved, so the files import them from
elsewhere. Such a file is the registered one if undoing the moves gives the registered bytes.
"""

from __future__ import annotations

import re
from pathlib import Path

from gnomon_lab.studies.design import sha256, sha256_of

__all__ = ["is_registered", "registered_sha256"]

MOVES = {
    "gnomon.comparison.measures": "gnomon.comparison.measures",
    "gnomon.envs.scaffold": "gnomon.envs.scaffold",
    "gnomon.export.model": "gnomon.export.model",
    "gnomon.rejudge.replay": "gnomon.rejudge.replay",
    "gnomon.run.find": "gnomon.run.find",
    "gnomon_lab.predictions": "gnomon_lab.predictions",
    "gnomon_lab.probes": "gnomon_lab.probes",
    "gnomon_lab.strategy": "gnomon_lab.strategy",
    "gnomon_lab.studies": "gnomon_lab.studies",
    "gnomon_lab.tiny_policy": "gnomon_lab.tiny_policy",
}
"""The present name of a module, and the one at registration."""
NAMES = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, MOVES))})(?!\w)")


def registered_sha256(path: Path) -> str:
    """Of the file of a study, as it was before the moves."""
    return sha256_of(NAMES.sub(lambda name: MOVES[name[1]], path.read_text("utf-8")).encode())


def is_registered(path: Path, registered: str) -> bool:
    """Whether a file is the registered one, but for modules that have moved."""
    return registered in (sha256(path), registered_sha256(path))
