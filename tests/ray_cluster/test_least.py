"""The least of many is the one that a scan of all finds."""

from __future__ import annotations

import random

from gnomon_ray.least import Least


def test_the_least_is_the_one_that_a_scan_finds() -> None:
    """Loads that rise and fall, members that leave and come back, and ties."""
    rng, least, loads = random.Random(0), Least[str](), dict[int, int]()
    for _ in range(20_000):
        number = rng.randrange(40)
        if rng.random() < 0.1:
            least.remove(number)
            loads.pop(number, None)
        else:
            loads[number] = rng.randrange(6)
            least.put(number, loads[number], f"member {number}")
        wanted = min(loads.items(), key=lambda item: (item[1], item[0]), default=None)
        assert least.least() == (None if wanted is None else (wanted[1], f"member {wanted[0]}"))
    assert len(least._heap) <= 2 * 40 + 65
