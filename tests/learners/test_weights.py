"""Weights on their way from learner to engine: which they are, where they lie, and who refuses them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gnomon.engines.embedded import Embedded
from gnomon.errors import ModelError
from gnomon.learners.local import LocalLearner
from gnomon.models.policy import Policy
from gnomon.models.weights import Kind


@pytest.mark.parametrize(("change", "words"), [({"base": "x"}, "another model"), ({"kind": Kind.ADAPTER}, "adapter")])
def test_weights_of_another_base_or_kind_are_refused_and_nothing_changes(change, words):
    learner, engine = (kind(Policy.load("tiny")) for kind in (LocalLearner, Embedded))
    before = {name: value.clone() for name, value in engine.policy.state().items()}
    learner.policy.update({name: value + 1 for name, value in before.items()})
    with pytest.raises(ModelError, match=rf"E323.*{words}"):
        engine.load(replace(learner.publish(), version=7, **change))
    assert engine.version == 0
    assert all(torch.equal(value, before[name]) for name, value in engine.policy.state().items())


def test_weights_can_lie_in_a_file(tmp_path):
    """And the file of the version before is gone when the next one is published."""
    learner, engine = LocalLearner(Policy.load("tiny"), published=tmp_path), Embedded(Policy.load("tiny"))
    for version in (1, 2):
        for parameter in learner.parameters.values():
            parameter.grad = torch.ones_like(parameter)
        learner.optim_step(1e-2)
        weights = learner.publish()
        assert isinstance(weights.tensors, Path) and [path.name for path in tmp_path.iterdir()] == [
            weights.tensors.name
        ]
        engine.load(weights)
        assert engine.version == version
        assert all(torch.equal(value, learner.policy.state()[name]) for name, value in engine.policy.state().items())
