"""What samplers in other processes counted, as metrics of steps."""

from __future__ import annotations

from typing import Any

from gnomon.engines.remote import RemoteEngine
from gnomon.stats import Max, Sum


def test_a_step_in_which_no_episode_ended_counts_nothing():
    """With batches that are sampled ahead, all episodes of a step may have ended in the step before."""
    fleet: Any = None
    engine = RemoteEngine(fleet)
    assert engine.counts() == {}
    engine.count({"engine/restarts": Sum(1), "slowest": Max(3.0)})
    engine.count({"engine/restarts": Sum(2), "slowest": Max(5.0)})
    assert engine.counts() == {"engine/restarts": Sum(3), "slowest": Max(5.0)}
    assert engine.counts() == engine.counts() == {"engine/restarts": Sum(0)}
    engine.count({"engine/restarts": Sum(1)})
    assert engine.counts() == {"engine/restarts": Sum(1)}
