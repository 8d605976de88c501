"""Tests run side by side, so each leaves torch with one thread, whatever its run had asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    yield
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
