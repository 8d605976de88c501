"""An engine that computes otherwise than the learner: other precision, or weights that are rounded on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import gnomon
from gnomon.config import RunConfig, overrides, resolve
from gnomon.engines.base import Tier
from gnomon.engines.embedded import Embedded
from gnomon.envs import CharCount
from gnomon.errors import ConfigError
from gnomon.run.makers import make_learner, make_objective
from gnomon.run.manifest import opening
from gnomon.run.parts import build


def config(*words: str) -> RunConfig:
    return resolve([overrides(["env=char_count", *words])])[0]


@pytest.mark.parametrize("rank", [0, 2])
def test_rounded_weights_are_the_learners_rounded_after_every_load(rank: int) -> None:
    """And it still computes in float32, so that the gap has no other cause. The learner's own weights stay."""
    parts = build(config(f"policy.lora.rank={rank}", "engine.round_weights=bfloat16", "policy.device=cpu"))
    engine, policy = parts.engine, parts.learner.policy
    assert isinstance(engine, Embedded) and engine.tier is Tier.MEASURED
    assert parts.mismatch == 0.0  # The weights that ship are bfloat16 numbers, and a new adapter adds nothing.
    with torch.no_grad():
        for value in policy.state().values():
            value.add_(0.01)
    before = {name: value.detach().clone() for name, value in policy.model.named_parameters()}
    for _ in range(2):
        engine.load(parts.learner.publish())
        for name, value in engine.policy.model.named_parameters():
            assert value.dtype == torch.float32 and torch.equal(value, before[name].bfloat16().float()), name
    assert all(torch.equal(value, before[name]) for name, value in policy.model.named_parameters())
    assert any((value != value.bfloat16().float()).any() for value in before.values())
    parts.actor.workers.close()


RUN: dict[str, Any] = {
    "threads": 1, "steps": 2, "rollout": {"prompts": 2, "group": 4, "max_tokens": 12}, "eval": {"tasks": 2},
    "objective": "tis", "regularize": {"entropy": 1.0}, "optim": {"warmup": 0}, "quiet": True,
}  # fmt: skip
"""The entropy bonus gives a gradient where all rewards of a group are equal."""


@pytest.mark.parametrize("engine", [{"round_weights": "bfloat16"}, {"dtype": "bfloat16"}], ids=["rounded", "coarse"])
def test_a_run_is_on_the_measured_tier_and_says_how_far_it_is_off(engine: dict[str, str], tmp_path: Path) -> None:
    with gnomon.train("char_count", run=tmp_path / "r", engine=engine, **RUN) as run:
        assert run.status == "finished" and run.manifest["tier"] == "measured"
        assert run.manifest["logp_mismatch"] < 0.5
        assert run.metrics()[-1]["metrics"]["logp_mismatch"] > 1e-5


def test_what_decides_the_bytes_is_in_the_first_record() -> None:
    def engine(*words: str) -> Any:
        return opening(config(*words), CharCount())["config"]["engine"]

    assert engine() == engine("engine.dtype=float32") == engine("engine.device=cpu") == "embedded"
    assert engine("engine.round_weights=float16") == {"type": "embedded", "round_weights": "float16"}
    assert engine("engine.dtype=bfloat16") == {"type": "embedded", "dtype": "bfloat16"}
    assert "device" not in opening(config("policy.device=cpu"), CharCount())["config"]["policy"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused_with_the_setting_that_names_it() -> None:
    chosen = config("policy.device=cuda")
    with pytest.raises(ConfigError, match=r"E039. policy.device is cuda(.|\n)*policy.device=cpu"):
        make_learner(chosen, make_objective(chosen))
    with pytest.raises(ConfigError, match=r"E039. engine.device is cuda(.|\n)*engine.device=cpu"):
        build(config("engine.device=cuda"))
    automatic = config()
    assert make_learner(automatic, make_objective(automatic)).policy.device.type == "cpu"
