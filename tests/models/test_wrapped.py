"""A policy computes all that has gradients in `forward`: wrappers around modules hold it, and change no bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.utils.checkpoint import checkpoint

from gnomon.models.policy import Policy
from models import sharded


@pytest.fixture(scope="module")
def plain() -> dict[str, Tensor]:
    return sharded.gradient(Policy.load("tiny"))


@pytest.mark.long
def test_two_shards_give_the_same_gradient(plain: dict[str, Tensor], tmp_path: Path) -> None:
    """Each rank holds half of every parameter, and both see the same tokens: their mean is the gradient itself."""
    words = [sys.executable, "-W", "ignore", "-m", "models.sharded"]
    ranks = [
        subprocess.Popen([*words, str(rank), str(tmp_path)], cwd=Path(__file__).parents[1])
        for rank in range(sharded.RANKS)
    ]
    try:
        assert [rank.wait(timeout=300) for rank in ranks] == [0] * sharded.RANKS
    finally:
        for rank in ranks:
            rank.kill()
    for rank in range(sharded.RANKS):
        found = load_file(tmp_path / f"{rank}.safetensors")
        assert found.keys() == plain.keys() and all(torch.equal(found[name], plain[name]) for name in plain)


def test_activation_checkpoints_give_the_same_gradient(plain: dict[str, Tensor]) -> None:
    policy = Policy.load("tiny")
    layer = type(policy.model.base_model.layers[0])
    apply_activation_checkpointing(policy, check_fn=lambda module: isinstance(module, layer))
    found = sharded.gradient(policy)
    assert len(found) == len(plain)
    assert all(torch.equal(one, other) for one, other in zip(found.values(), plain.values(), strict=True))


def test_the_whole_pass_can_be_computed_again(plain: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    policy, whole = Policy.load("tiny"), Policy.forward

    def again(self: Policy, *args: object, **options: object) -> object:
        return checkpoint(whole, self, *args, use_reentrant=False, **options)

    monkeypatch.setattr(Policy, "forward", again)
    found = sharded.gradient(policy)
    assert all(torch.equal(found[name], plain[name]) for name in plain) and found.keys() == plain.keys()
