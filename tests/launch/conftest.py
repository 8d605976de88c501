"""One Ray cluster for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gnomon.launch.cluster import fleet
from gnomon.launch.cluster.own import OwnCluster
from launch.actors import actors


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    """One cluster with which this process is connected."""
    import ray

    found = OwnCluster(4)
    fleet.refresh_token()
    ray.init(address=found.address, log_to_driver=False, configure_logging=False, logging_level="ERROR")
    yield found
    ray.shutdown()
    found.close()
    assert not actors()
