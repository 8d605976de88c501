"""What to install where a package is missing that only training needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gnomon.errors import ResourceError

__all__ = ["TRAIN", "explained"]

TRAIN = frozenset(("numpy", "safetensors", "torch", "transformers"))
"""Packages of the extra `train`. Everything that reads, judges and audits works without them."""


@contextmanager
def explained() -> Iterator[None]:
    """Raises: ResourceError E505 in place of a ModuleNotFoundError for a package of the extra `train`."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in TRAIN:
            raise
        raise ResourceError(
            "E505", f"the package {package} is not installed",
            why="models, objectives and training need it; verifiers, audits and the reading of runs do not",
            fix='pip install "gnomon[train]"',
        ) from error  # fmt: skip
