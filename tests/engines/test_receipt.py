"""Whether an update of the weights arrived: also one that changes less than the bound of the probe."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from gnomon.engines.base import Tier
from gnomon.engines.embedded import Embedded
from gnomon.engines.receipt import DEVIATIONS, Receipts, share_of
from gnomon.errors import NumericsError
from gnomon.keys import Key
from gnomon.learners.local import LocalLearner
from gnomon.models.adapter import Adapter
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.weights import LONG_PROBE, WeightsRef

TINY = model_folder("tiny")
SMALL = 1e-5
"""Relative change of the weights by which no log-probability changes by 1e-3 nats."""


def learner_of(dtype: torch.dtype = torch.float32, adapter: Adapter | None = None) -> LocalLearner:
    return LocalLearner(Policy.load(TINY, Precision(compute=dtype), adapter=adapter), probe=LONG_PROBE)


def engine_of(
    dtype: torch.dtype = torch.float32, rounds: bool = False, bound: float = 1e-3, adapter: Adapter | None = None
) -> Embedded:
    engine = Embedded(Policy.load(TINY, Precision.only(dtype), adapter=adapter), bound=bound, rounds=rounds)
    engine.tier = Tier.MEASURED
    return engine


def versions(learner: LocalLearner, count: int, size: float = SMALL) -> list[WeightsRef]:
    """Versions of a policy. In each update, every weight moves by a part of itself."""
    found, generator = [learner.publish().copy()], torch.Generator().manual_seed(7)
    for _ in range(count - 1):
        with torch.no_grad():
            for parameter in learner.parameters.values():
                parameter.mul_(1 + size * torch.randn(parameter.shape, generator=generator))
        learner.policy.masters.round()
        learner.version += 1
        found.append(learner.publish().copy())
    return found


def change(old: WeightsRef, new: WeightsRef) -> float:
    return max(abs(a - b) for a, b in zip(old.probe_logp, new.probe_logp, strict=True))


def test_each_update_that_arrives_is_proven():
    engine, found = engine_of(), versions(learner_of(), 3)
    engine.load(found[0])
    assert engine.counts() == {}  # There is nothing to compare it with.
    for before, weights in pairwise(found):
        assert 0 < change(before, weights) < engine.bound
        engine.load(weights)
        stats = {name: stat.value for name, stat in engine.counts().items()}
        assert (stats["weights/version"], stats["weights/since"]) == (weights.version, before.version)
        assert stats["weights/proven"] == 1 and abs(stats["weights/share"] - 1) < 0.05
    engine.load(found[-1])
    assert engine.counts() == {}  # The same weights again.


def stale(old: WeightsRef, new: WeightsRef) -> WeightsRef:
    return replace(new, tensors=old.tensors)


def without_a_layer(old: WeightsRef, new: WeightsRef) -> WeightsRef:
    was, now = old.read(), new.read()
    return replace(new, tensors={name: was[name] if ".layers.0." in name else now[name] for name in now})


def half(old: WeightsRef, new: WeightsRef) -> WeightsRef:
    was, now = old.read(), new.read()
    return replace(new, tensors={name: (was[name] + now[name]) / 2 for name in now})


@pytest.mark.parametrize("wrong", [stale, without_a_layer, half])
def test_an_update_that_did_not_arrive_is_refused_where_the_bound_is_too_coarse(wrong: Callable[..., WeightsRef]):
    engine, (first, second, third) = engine_of(bound=0.5), versions(learner_of(), 3)
    engine.load(first)
    engine.load(second)
    with pytest.raises(NumericsError, match=r"E201.*version 2 of the weights did not reach the engine"):
        engine.load(wrong(second, third))


@pytest.mark.parametrize("which", ["before", "older", "none"])
def test_a_wrong_version_of_an_adapter_is_refused(which: str):
    adapter = Adapter(rank=4, key=Key(5), blank=False)
    found = versions(learner_of(adapter=adapter), 4, 1e-3)
    engine = engine_of(adapter=adapter, bound=0.5)
    for weights in found[:3]:
        engine.load(weights)
    none = {name: torch.zeros_like(value) for name, value in found[0].read().items()}
    tensors = {"before": found[2].tensors, "older": found[1].tensors, "none": none}[which]
    with pytest.raises(NumericsError, match="E201"):
        engine.load(replace(found[3], tensors=tensors))


def test_a_bfloat16_sampler_of_a_bfloat16_learner_has_the_update_or_is_refused():
    learner, engine = learner_of(torch.bfloat16), engine_of(torch.bfloat16, bound=0.5)
    first, second, third = versions(learner, 3, 1e-2)
    engine.load(first)
    engine.load(second)
    assert engine.counts()["weights/proven"].value == 1
    assert change(second, third) < engine.bound
    with pytest.raises(NumericsError, match=r"E201(.|\n)*the engine's did not"):
        engine.load(stale(second, third))


def test_an_update_that_rounding_keeps_away_is_no_error_and_no_proof():
    """The weights begin as bfloat16, so a change of 1e-5 of each reaches only a learner in float32."""
    learner = learner_of()
    with torch.no_grad():
        for parameter in learner.parameters.values():
            parameter.copy_(parameter.bfloat16())
    engine, found = engine_of(torch.bfloat16, rounds=True, bound=0.5), versions(learner, 3)
    for weights in found:
        engine.load(weights)
    stats = engine.counts()
    assert stats["weights/since"].value == 0 and stats["weights/proven"].value == 0
    (moved,) = versions(learner, 2, 3e-2)[1:]
    engine.load(moved)
    assert engine.counts()["weights/proven"].value == 1


def test_an_update_below_the_resolution_of_both_is_not_compared():
    learner, engine = learner_of(torch.bfloat16), engine_of(torch.bfloat16)
    with torch.no_grad():
        for parameter in learner.parameters.values():
            parameter.copy_(parameter.bfloat16())
    for weights in versions(learner, 3, 1e-6):
        engine.load(weights)
    assert engine.counts() == {}


def noisy(values: list[float], rng: random.Random, scales: list[float], noise: float) -> list[float]:
    return [value + noise * scale * rng.gauss(0, 1) for value, scale in zip(values, scales, strict=True)]


def versions_of(logps: list[float], number: int) -> WeightsRef:
    return WeightsRef(base="", version=number, tensors={}, probe=tuple(range(len(logps) + 1)), probe_logp=tuple(logps))


def outcome(rng: random.Random, size: float, arrived: str) -> str:
    """Of one update, where engine and learner both round by 0.02 nats, on some tokens more than on others."""
    count = LONG_PROBE - 1
    scales = [math.exp(rng.gauss(0, 0.7)) for _ in range(count)]
    old = [-rng.expovariate(0.3) for _ in range(count)]
    new = [value + size * rng.gauss(0, 1) * math.exp(rng.gauss(0, 1)) for value in old]
    engine_old = noisy(old, rng, scales, 0.02)
    engine_new = {
        "all": noisy(new, rng, scales, 0.02),
        "nothing": engine_old,
        "nothing, repeated": noisy(old, rng, scales, 0.02),
        "half": noisy([(a + b) / 2 for a, b in zip(old, new, strict=True)], rng, scales, 0.02),
    }[arrived]
    receipts = Receipts()
    receipts.check(versions_of(noisy(old, rng, scales, 0.02), 0), engine_old)
    try:
        found = receipts.check(versions_of(noisy(new, rng, scales, 0.02), 1), engine_new)
    except NumericsError:
        return "refused"
    return "proven" if found and found.proven else "open"


@pytest.mark.parametrize("size", [0.002, 0.02, 0.2])
def test_no_update_that_arrived_is_refused_and_none_that_did_not_is_proven(size: float):
    """600 updates of each size. A wrong decision has probability exp(-5.5²/2) = 2.7e-7 at most."""
    rng = random.Random(3)
    assert math.exp(-(DEVIATIONS**2) / 2) < 3e-7
    assert "refused" not in {outcome(rng, size, "all") for _ in range(200)}
    assert {outcome(rng, size, "nothing") for _ in range(200)} == {"refused"}
    assert "proven" not in {outcome(rng, size, "nothing, repeated") for _ in range(200)}


def test_what_is_above_the_rounding_is_decided():
    rng = random.Random(4)
    assert {outcome(rng, 0.6, "all") for _ in range(100)} == {"proven"}
    assert {outcome(rng, 0.6, "nothing, repeated") for _ in range(100)} == {"refused"}
    assert {outcome(rng, 0.6, "half") for _ in range(100)} == {"refused"}


def test_small_updates_add_up_until_they_are_proven_or_refused():
    """Each is a third of the rounding, and the engine's noise hides it; after some it cannot."""
    for arrives, end in ((True, "proven"), (False, "refused")):
        rng, receipts, outcomes = random.Random(5), Receipts(), []
        count = LONG_PROBE - 1
        scales, logps = [1.0] * count, [-3.0] * count
        direction = [rng.gauss(0, 1) for _ in range(count)]
        for version in range(60):
            now = [a + 0.007 * version * d for a, d in zip(logps, direction, strict=True)]
            engine = noisy(now if arrives else logps, rng, scales, 0.02)
            try:
                found = receipts.check(versions_of(noisy(now, rng, scales, 0.02), version), engine)
            except NumericsError:
                outcomes.append("refused")
                break
            outcomes += ["proven" if found.proven else "open"] if found else []
        assert outcomes[0] == "open" and end in outcomes
        assert (end == "proven") is ("refused" not in outcomes)


def test_an_update_that_is_ignored_once_is_found_although_none_before_was_proven():
    """The engine computes the same bits with the same weights."""
    rng, receipts = random.Random(6), Receipts()
    scales, logps = [1.0] * (LONG_PROBE - 1), [-3.0] * (LONG_PROBE - 1)
    for version in range(4):
        logps = [value + 0.002 * rng.gauss(0, 1) for value in logps]
        engine = noisy(logps, rng, scales, 0.02)
        found = receipts.check(versions_of(noisy(logps, rng, scales, 0.02), version), engine)
        assert found is None if version == 0 else found is not None and not found.proven
    with pytest.raises(NumericsError, match="compared with version 3"):
        receipts.check(versions_of(noisy(logps, rng, scales, 0.02), 4), engine)


def test_the_share_of_a_change():
    assert share_of([1.0, -2.0, 0.5], [2.0, -4.0, 1.0]).value == pytest.approx(0.5)
    assert share_of([1.0, -2.0, 0.5], [2.0, -4.0, 1.0]).error == pytest.approx(0)
    assert share_of([0.0, 0.0], [1.0, 2.0]).deviations == 0
    assert math.isnan(share_of([1.0], [0.0]).value)
