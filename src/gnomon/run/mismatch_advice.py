"""What float16 would do to the difference between sampler and learner, for the model of some settings."""

from __future__ import annotations

from gnomon.config import RunConfig
from gnomon.models.folder import model_folder, table
from gnomon.monitoring.mismatch import in_float16

__all__ = ["finer"]


def finer(config: RunConfig) -> str:
    """As `in_float16`."""
    engine = config.policy.dtype if config.engine.dtype == "policy" else config.engine.dtype
    family = str(table(model_folder(config.policy.path) / "config.json").get("model_type", ""))
    return in_float16(config.policy.dtype, engine, family)
