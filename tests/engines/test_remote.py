"""What samplers in other processes counted, as metrics of steps."""

from __future__ import annotations

from typing import Any

from gnomon.config import Source, resolve
from gnomon.engines.base import Tier
from gnomon.engines.remote import RemoteEngine
from gnomon.run.parts import open_parts
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


def test_an_opponent_is_of_the_tier_of_its_policy():
    """Else its loads would need equal bits, which a learner on another machine does not give."""
    fleet: Any = None
    assert RemoteEngine(fleet, tier=Tier.MEASURED).opponent(fixed=False).tier is Tier.MEASURED
    assert RemoteEngine(fleet).opponent(fixed=False).tier is Tier.EXACT
    own = {"round_weights": "bfloat16"}
    config, _ = resolve([Source({"env": "kuhn_poker", "players": {"opponent": "past"}, "engine": own}, {})])
    with open_parts(config) as parts:
        speakers: Any = parts.actor.speakers
        assert speakers.opponent.tier is parts.engine.tier is Tier.MEASURED
