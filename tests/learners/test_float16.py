"""A policy that computes in float16: its loss is scaled, and a step whose gradient overflows is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import gnomon
from gnomon.config import Source, resolve
from gnomon.errors import ModelError, NumericsError
from gnomon.learners import Batch, scaling
from gnomon.learners.critic import Critic
from gnomon.learners.local import LocalLearner
from gnomon.learners.scaling import LossScale
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.objectives import Denominators, Objective, Rollouts, objective, penalties
from gnomon.run.makers import make_engine, make_learner
from gnomon.store import RunReader
from learners.sequences import credited, made
from models.kinds import save

HALF = torch.float16
NAN, INF = float("nan"), float("inf")
REINFORCE = objective("reinforce")


def batch() -> Batch:
    """Two groups of two short rollouts, of which the first of each is right."""
    sequences = tuple(made([5, 9 + i // 2, 7], [20 + i, 31, 12], rollout=i, group=i // 2) for i in range(4))
    seen = Rollouts(rewards=torch.tensor([[1.0, 0], [0, 1]], dtype=torch.float64), lengths=torch.full((2, 2), 3))
    sizes = Denominators(groups=2, sequences=4, tokens=12, max_tokens=3, group_tokens=(6, 6))
    return Batch(sequences=sequences, rollouts=seen, denominators=sizes, temperature=1.0, exact=False)


def learner(dtype: torch.dtype = HALF, *, critic: bool = False) -> LocalLearner:
    precision = Precision(compute=dtype)
    read_out = Critic(Policy.load("tiny", precision), lr=1e-3) if critic else None
    return LocalLearner(Policy.load("tiny", precision), critic=read_out)


def weighted(advantage: float) -> Batch:
    data = batch()
    return replace(data, advantage=torch.full((len(data),), advantage, dtype=torch.float64))


def whole(parameters: Mapping[str, Tensor]) -> Tensor:
    """The gradient, end to end."""
    return torch.cat([value.grad.double().flatten() for value in parameters.values() if value.grad is not None])


def gathered(mind: LocalLearner, data: Batch, row: Objective = REINFORCE) -> Tensor:
    """The gradient that the next optimiser step takes, without the scale of its loss."""
    mind.forward_backward(data, row)
    mind.scale.unscale(mind.parameters.values())
    found = whole(mind.parameters)
    mind._forget()
    return found


def all_of(mind: LocalLearner) -> list[Tensor]:
    """Every weight, and everything that an optimiser remembers."""
    kept = [*mind.policy.state().values()]
    for owner in filter(None, (mind, mind.critic)):
        for parameter in owner.parameters.values():
            kept += [parameter, *(value for _, value in sorted(owner.optimizer.state.get(parameter, {}).items()))]
    return [value.detach().clone() for value in kept]


KINDS = {
    "all weights": {},
    "adapter": {"policy": {"lora": {"rank": 2}}},
    "recomputed": {"policy": {"activation_checkpointing": True}},
    "critic": {"objective": "ppo"},
    "full divergence": {"regularize": {"kl": 0.1, "estimator": "full", "entropy": 0.1}},
    "sequences": {"objective": "gspo", "regularize": {"kl": 0.1, "estimator": "k3"}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_float32s_up_to_the_rounding_of_a_pass(kind: str) -> None:
    """A float16 keeps 11 bits, so each product is off by up to 0.05 %; a third of bfloat16's tolerance."""
    found = []
    for dtype in ("float32", "float16"):
        settings: dict[str, Any] = {**KINDS[kind], "threads": 1, "rollout": {"temperature": 0.8}}
        settings["policy"] = {"dtype": dtype, **settings.get("policy", {})}
        config = resolve([Source(settings, {})])[0]
        row = objective(config.objective.type)
        if config.regularize.kl and config.regularize.estimator == "k3":
            row = replace(row, penalty=penalties.k3, penalty_weight=0.1)
        mind = make_learner(config, row)
        owners = [owner for owner in (mind, mind.critic) if owner]
        for owner in owners:
            owner.scale.value = min(owner.scale.value, 2.0**10)  # Gradients of twelve unlikely tokens are large.
        if mind.critic:
            with torch.no_grad():  # It begins at zero, and the critic's body has no gradient then.
                mind.critic.parameters["value.weight"].fill_(0.01)
        ready = credited(mind, batch(), row, updates=2)
        mind.forward_backward(ready, row)
        for owner in owners:
            owner.scale.unscale(owner.parameters.values())
        found.append([whole(owner.parameters) for owner in owners])
    for one, other in zip(*found, strict=True):
        assert float(one @ other / one.norm() / other.norm()) > 0.999
        assert float(other.norm() / one.norm()) == pytest.approx(1.0, abs=0.01)


def test_a_gradient_that_vanishes_without_the_scale_is_kept_by_it() -> None:
    """Coefficients of 1e-6, as of a step of a million tokens."""
    exact = gathered(learner(torch.float32), weighted(1e-6))
    errors = {}
    for scale in (1.0, scaling.START):
        mind = learner()
        mind.scale.value = scale
        errors[scale] = float((gathered(mind, weighted(1e-6)) - exact).norm() / exact.norm())
    assert errors[scaling.START] < 0.02  # 11 bits in every product of six layers.
    assert errors[1.0] > 0.2


@pytest.mark.parametrize("critic", [False, True])
def test_a_step_that_overflows_is_left_out_until_the_scale_fits(critic: bool) -> None:
    mind, row = learner(critic=critic), objective("ppo" if critic else "reinforce")
    mind.scale.value = 2.0**22
    if mind.critic:
        mind.critic.scale.value = 2.0**30
    ready, before, taken = credited(mind, batch(), row), all_of(mind), []
    while not taken or taken[-1]["skipped"].value:
        assert all(map(torch.equal, all_of(mind), before)) and mind.version == 0
        mind.forward_backward(ready, row)
        taken.append(mind.optim_step(1e-3))
    assert 2 <= len(taken) < 24 and mind.version == 1
    assert all("grad_norm" not in stats for stats in taken[:-1]) and taken[-1]["grad_norm"].value > 0
    assert [stats["loss_scale"].value for stats in taken][-1] == mind.scale.value < 2.0**22 or critic
    twin = learner(critic=critic)
    for own, other in zip(filter(None, (mind, mind.critic)), filter(None, (twin, twin.critic)), strict=True):
        other.scale.value = own.scale.value
    twin.forward_backward(ready, row)
    twin.optim_step(1e-3)
    assert all(map(torch.equal, all_of(mind), all_of(twin)))


def test_the_gradient_is_clipped_without_the_scale() -> None:
    """At two scales, the same norm and the same step up to numbers that vanish at one of them."""
    found = []
    for scale in (2.0**2, 2.0**5):
        mind = learner()
        mind.scale.value = scale
        mind.forward_backward(weighted(3.0), REINFORCE)
        norm = mind.optim_step(1e-3)["grad_norm"].value
        kept = torch.cat([mind.optimizer.state[p]["exp_avg"].flatten() for p in mind.parameters.values()])
        found.append((norm, kept))
    assert found[0][0] > 1.5  # It was shortened to 1.
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-3)
    assert float(found[0][1].norm()) == pytest.approx(0.1, rel=1e-3)  # (1 − β₁) times the clipped norm.
    assert float((found[0][1] - found[1][1]).norm()) < 1e-3 * float(found[0][1].norm())


def test_what_no_scale_mends_is_an_error_at_once() -> None:
    """A reward that is not a number, and weights whose pass overflows; the scale stays."""
    mind = learner()
    data = weighted(1.0)
    mind.forward_backward(replace(data, advantage=data.advantage * NAN), REINFORCE)  # type: ignore[operator]
    with pytest.raises(NumericsError, match=r"E203(.|\n)*advantages"):
        mind.optim_step(1e-3)
    assert mind.scale.value == scaling.START
    with torch.no_grad():
        for value in mind.parameters.values():
            value.mul_(1e3)
    mind.policy.masters.round()
    mind.forward_backward(weighted(1.0), REINFORCE)
    with pytest.raises(NumericsError, match=r"E203(.|\n)*log-probabilities of these rollouts under the policy"):
        mind.optim_step(1e-3)


def test_a_scale_of_one_that_overflows_is_an_error() -> None:
    mind = learner()
    mind.scale.value = 2.0
    data = weighted(9e5)
    mind.forward_backward(data, REINFORCE)
    assert mind.optim_step(1e-3)["skipped"].value == 1.0 and mind.scale.value == 1.0
    mind.forward_backward(data, REINFORCE)
    with pytest.raises(NumericsError, match=r"E203(.|\n)*a model pass overflows"):
        mind.optim_step(1e-3)


def test_the_scale_doubles_after_steps_that_were_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "PATIENCE", 3)
    scale, seen = LossScale(HALF), []
    for good in (1, 1, 1, 1, 1, 0, 1, 1, 1):
        scale.finite() if good else scale.halve()
        seen.append(scale.value / scaling.START)
    assert seen == [1, 1, 2, 2, 2, 1, 1, 1, 2]
    still = LossScale(torch.bfloat16)
    for _ in range(9):
        still.finite()
    assert still.value == 1.0 and not still.state()


@pytest.mark.parametrize("critic", [False, True])
def test_saved_and_loaded_it_goes_on_to_the_bit(critic: bool, tmp_path: Path) -> None:
    """Saved after a step that was left out and one that was taken."""
    row = objective("ppo" if critic else "reinforce")

    def step(mind: LocalLearner) -> bool:
        mind.forward_backward(credited(mind, batch(), row), row)
        return not mind.optim_step(1e-3)["skipped"].value

    straight, again = learner(critic=critic), learner(critic=critic)
    straight.scale.value = 2.0**22
    while not step(straight):
        pass
    straight.scale.good += 5
    straight.save_state(tmp_path)
    assert straight.scale.value < 2.0**22 and "loss_scale" in load_file(tmp_path / "optimizer.safetensors")
    again.load_state(tmp_path)
    assert (again.scale.value, again.scale.good, again.version) == (straight.scale.value, 6, 1)
    for mind in (straight, again):
        step(mind)
    assert all(map(torch.equal, all_of(straight), all_of(again)))


def test_a_checkpoint_of_another_precision_begins_with_the_first_scale(tmp_path: Path) -> None:
    learner(torch.bfloat16).save_state(tmp_path)
    assert not [name for name in load_file(tmp_path / "optimizer.safetensors") if "scale" in name]
    mind = learner()
    mind.load_state(tmp_path)
    assert mind.scale.value == scaling.START


def test_a_family_that_overflows_is_refused_by_name(tmp_path: Path) -> None:
    folder = save("gemma3", tmp_path)
    with pytest.raises(ModelError, match=r"E326.*gemma3_text(.|\n)*65504(.|\n)*policy.dtype=bfloat16"):
        Policy.load(folder, Precision(compute=HALF))
    config = resolve([Source({"policy": {"path": str(folder)}, "engine": {"dtype": "float16"}}, {})])[0]
    with pytest.raises(ModelError, match=r"E326(.|\n)*engine.dtype=bfloat16"):
        make_engine(config)
    Policy.load(folder, Precision(compute=torch.bfloat16))


SMALL: dict[str, Any] = {
    "threads": 1, "quiet": True, "rollout": {"prompts": 3, "group": 4, "max_tokens": 12}, "eval": {"tasks": 2},
    "policy": {"dtype": "float16"}, "steps": 4, "save": {"every": 1},
}  # fmt: skip
EPISODES = {"one turn": "char_count", "several turns": "calculator", "two players": "nim"}


@pytest.mark.long
@pytest.mark.parametrize(("episodes", "rank"), [("one turn", 0), ("several turns", 2), ("two players", 0)])
def test_a_run_that_leaves_steps_out_is_resumed_to_the_bit(
    episodes: str, rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "START", 2.0**28)
    policy = {"dtype": "float16", "lora": {"rank": rank}}
    settings = {**SMALL, "policy": policy, "optim": {"epochs": 4}, "regularize": {"entropy": 0.1}}
    with gnomon.train(EPISODES[episodes], run=tmp_path / "whole", **settings) as reader:
        steps = [step["metrics"] for step in reader.metrics()]
        whole = reader.fingerprint
    assert steps[0]["skipped"] >= 0.5
    assert steps[-1]["skipped"] < 1.0 and steps[-1]["loss_scale"] < 2.0**28
    gnomon.train(EPISODES[episodes], run=tmp_path / "parts", **settings, budget={"seconds": 1e-3}).close()
    while RunReader(tmp_path / "parts").status != "finished":
        gnomon.resume(tmp_path / "parts").close()
    with RunReader(tmp_path / "parts") as reader:
        assert reader.fingerprint == whole
