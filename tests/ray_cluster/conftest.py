"""One Ray cluster for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gnomon_ray.own import OwnCluster
from ray_cluster.actors import actors, connected


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    """One cluster with which this process is connected."""
    with connected() as found:
        yield found
    assert not actors()
