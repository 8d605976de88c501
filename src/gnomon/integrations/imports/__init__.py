"""Rollouts that other software sampled, as run folders."""

from gnomon.integrations.imports.importing import FORMATS, import_rollouts
from gnomon.integrations.imports.run import ImportedRun

__all__ = ["FORMATS", "ImportedRun", "import_rollouts"]
