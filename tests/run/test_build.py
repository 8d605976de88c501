"""The parts of a run. What has been started is ended again if a later part cannot be made."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gnomon.run.parts as run_parts
from gnomon.config import overrides, resolve
from gnomon.engines.base import Tier
from gnomon.engines.embedded import Embedded
from gnomon.models.policy import Policy
from gnomon.run.own_parts import OwnParts
from gnomon.run.parts import build, open_parts
from gnomon.workers.pool import Pool


@pytest.mark.parametrize(
    "broken", ["make_workers", "make_order", "make_actor", "make_batches", "make_credit", "make_sets"]
)
@pytest.mark.parametrize("in_flight", [False, True])
def test_engine_and_workers_are_closed_if_a_later_part_fails(monkeypatch, broken, in_flight) -> None:
    """Each once, for every part that is made after them."""
    closed: list[str] = []
    monkeypatch.setattr(Embedded, "close", lambda self: closed.append("engine"))
    whole = Pool.close
    monkeypatch.setattr(Pool, "close", lambda self: closed.append("workers") or whole(self))
    monkeypatch.setattr(run_parts, broken, lambda *_, **__: 1 / 0)
    words = ["env=char_count", *(["rollout.lag=1", "rollout.in_flight=true"] if in_flight else [])]
    with pytest.raises(ZeroDivisionError):
        build(resolve([overrides(words)])[0])
    assert closed == (["engine"] if broken == "make_workers" else ["workers", "engine"])


def test_an_engine_that_was_passed_stays_open(monkeypatch) -> None:
    config = resolve([overrides(["env=char_count"])])[0]
    parts = build(config)
    monkeypatch.setattr(Embedded, "close", lambda self: pytest.fail("closed"))
    monkeypatch.setattr(run_parts, "make_order", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build(config, own=OwnParts(engine=parts.engine, learner=parts.learner))
    parts.actor.workers.close()


def test_engines_that_sample_ahead_are_twins_of_the_one_that_was_passed() -> None:
    engine = Embedded(Policy.load("tiny"), rounding=torch.bfloat16)
    engine.tier = Tier.MEASURED
    config, _ = resolve([overrides(["env=char_count", "rollout.lag=1"])])
    with open_parts(config, own=OwnParts(engine=engine)) as parts:
        batches: Any = parts.batches
        engines: list[Any] = [actor.engine for actor in batches.actors]
    assert len({*map(id, engines), id(engine)}) == 3
    assert all((each.rounding, each.tier) == (torch.bfloat16, Tier.MEASURED) for each in engines)
