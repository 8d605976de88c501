"""The models that the parts measure: random ones, made once on a machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

from plan import folder

from on_gpu.record import Record

__all__ = ["MODELS", "model"]

MODELS = Path(tempfile.gettempdir()) / "gnomon-gpu"
"""They are made once on a machine."""


def model(record: Record) -> str:
    """The folder of a random model of Qwen3-0.6B's shape; in miniature that of the shipped policy."""
    if record.small:
        return "tiny"
    MODELS.mkdir(exist_ok=True)
    return folder("qwen3-0.6b", MODELS)
