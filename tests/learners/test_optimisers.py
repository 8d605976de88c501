"""What each optimiser does with a gradient, what it keeps, and that a checkpoint holds all of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from commands import command
from gnomon.config import RunConfig, overrides, resolve
from gnomon.envs import CharCount
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.keys import Key
from gnomon.learners import Batch
from gnomon.learners.critic import Critic
from gnomon.learners.local import LocalLearner
from gnomon.learners.optimisers import Adam, Sgd
from gnomon.models.adapter import Adapter
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.objectives import Coefficients, Denominators, Rollouts
from gnomon.plans.states import state_bytes
from gnomon.run.manifest import opening
from gnomon.store import RunReader
from gnomon_tinker.training import Model
from learners.sequences import made

EXACT = Precision.only(torch.float64)
TEXTS = (((5, 6, 7), (8, 9, 10, 11)), ((5, 6, 7), (8, 12)), ((20, 21), (22, 23, 24)))
"""Prompts and replies, as token ids."""
KAPPA = torch.tensor([0.7, -1.1, 0.4, 2.0, -0.3, 0.9, 1.5, -0.6, 0.2], dtype=torch.float64)
"""Coefficients of the trained tokens, in order."""
SETTINGS = {
    "adamw": Adam(weight_decay=0.1),
    "sgd": Sgd(),
    "momentum": Sgd(momentum=0.9),
    "8bit": Adam(weight_decay=0.1, states="8bit"),
}
NAMES = [pytest.param(name, marks=[pytest.mark.needs("bitsandbytes")] * (name == "8bit")) for name in SETTINGS]


def batch() -> tuple[Batch, Coefficients]:
    """Sequences of one turn, and the coefficients of their tokens."""
    sequences = tuple(made(*text, rollout=place, group=place) for place, text in enumerate(TEXTS))
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    sizes = Denominators(groups=3, sequences=3, tokens=int(lengths.sum()), max_tokens=int(lengths.max()))
    rollouts = Rollouts(rewards=torch.zeros(3, 1), lengths=lengths[:, None])
    found = Batch(sequences=sequences, rollouts=rollouts, denominators=sizes, temperature=1.0, exact=False)
    clipped = torch.zeros(len(KAPPA), dtype=torch.bool)
    return found, Coefficients(kappa=KAPPA, weight=torch.zeros_like(KAPPA), clipped=clipped)


def learner(optimizer: Adam | Sgd, precision: Precision = EXACT, adapter: Adapter | None = None) -> LocalLearner:
    return LocalLearner(Policy.load("tiny", precision, adapter=adapter), optimizer=optimizer)


def step(learner: LocalLearner, lr: float = 1e-3) -> Tensor:
    """One update, after those whose float16 gradient overflows. Returns: the gradient before it was clipped."""
    while True:
        learner.forward_backward(*batch())
        found = torch.cat([parameter.grad.flatten() for parameter in learner.parameters.values()])
        if "grad_norm" in learner.optim_step(lr):
            return found


def weights(learner: LocalLearner) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in learner.parameters.values()])


def exact_gradient() -> Tensor:
    """Of −Σ κ·log π, by float64 autograd of the whole model as transformers runs it, one row at a time."""
    policy, kappa = Policy.load("tiny", EXACT), iter(KAPPA)
    policy.model.set_attn_implementation("sdpa")
    for prompt, reply in TEXTS:
        logits = policy.model(input_ids=torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1]
        logp = torch.log_softmax(logits, -1).gather(1, torch.tensor(reply)[:, None])[:, 0]
        (-sum(next(kappa) * value for value in logp)).backward()
    return torch.cat([value.grad.flatten() for value in policy.state().values()])


def test_a_step_of_sgd_is_the_exact_gradient_times_the_rate() -> None:
    """Up to 1e-12 of the largest part: float64 sums of nine tokens in another order, and the rounding of a weight."""
    mind, wanted = learner(Sgd(max_grad_norm=inf)), exact_gradient()
    before = weights(mind)
    step(mind, lr=0.5)
    assert wanted.abs().max() > 0.1
    assert (before - weights(mind) - 0.5 * wanted).abs().max() <= 1e-12 * wanted.abs().max()


def test_a_gradient_that_is_too_large_is_shortened_before_the_step() -> None:
    mind, wanted = learner(Sgd(max_grad_norm=0.25)), exact_gradient()
    before = weights(mind)
    step(mind, lr=0.5)
    assert wanted.norm() > 1
    short = 0.25 * wanted / wanted.norm()  # torch divides by the norm + 1e-6.
    assert (before - weights(mind) - 0.5 * short).abs().max() <= 2e-6 * short.abs().max()


def test_momentum_adds_a_fraction_of_the_last_step() -> None:
    """Three steps against v ← 0.9·v + g, θ ← θ − lr·v, with the learner's gradients, at rates that change."""
    mind = learner(Sgd(momentum=0.9, max_grad_norm=inf))
    wanted, velocity = weights(mind), torch.zeros_like(weights(mind))
    for lr in (0.01, 0.02, 0.005):
        velocity = 0.9 * velocity + step(mind, lr)
        wanted = wanted - lr * velocity
    assert (weights(mind) - wanted).abs().max() <= 1e-14 * velocity.abs().max()


@pytest.mark.parametrize("adapter", [None, Adapter(rank=2, key=Key(0))], ids=["full", "lora"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded_it_goes_on_to_the_bit(tmp_path: Path, name: str, dtype: torch.dtype, adapter: Adapter | None):
    """For each optimiser, full weights and adapters, in each precision."""
    minds = [learner(SETTINGS[name], Precision(compute=dtype), adapter) for _ in range(2)]
    for _ in range(3):
        step(minds[0])
    minds[0].save_state(tmp_path)
    minds[1].load_state(tmp_path)
    before = weights(minds[0])
    for mind in minds:
        step(mind)
    assert torch.equal(weights(minds[0]), weights(minds[1])) and not torch.equal(before, weights(minds[0]))
    assert minds[1].version == minds[0].version > 0


def test_sgd_keeps_nothing_and_momentum_one_number_per_weight(tmp_path: Path) -> None:
    for name, kinds in (
        ("sgd", set()),
        ("momentum", {"momentum_buffer"}),
        ("adamw", {"step", "exp_avg", "exp_avg_sq"}),
    ):
        mind = learner(SETTINGS[name], Precision())
        step(mind)
        mind.save_state(tmp_path)
        kept = load_file(tmp_path / "optimizer.safetensors")
        assert {key.rpartition("/")[2] for key in kept} - {"version"} == kinds
        assert len(kept) == 1 + len(kinds) * len(mind.parameters)


@pytest.mark.needs("bitsandbytes")
def test_moments_in_8_bits_are_those_of_adamw_to_a_hundredth(tmp_path: Path) -> None:
    """After the first step, in which the weights move as AdamW moves them: a step uses moments before they are rounded.

    A moment is one of 256 values times the largest of its block of 256, and two of them are at most 0.014 apart
    (64 values between 0.1 and 1).
    """
    exact, coarse = (learner(Adam(states=states), Precision()) for states in ("float32", "8bit"))
    for mind in (exact, coarse):
        step(mind)
    assert (weights(exact) - weights(coarse)).abs().max() <= 1e-3 * 1e-3
    seen = 0
    for one, other in zip(exact.parameters.values(), coarse.parameters.values(), strict=True):
        own, moments = coarse.optimizer.state[other], exact.optimizer.state[one]
        for place, kind in (("1", "exp_avg"), ("2", "exp_avg_sq")):
            if own[f"state{place}"].dtype == torch.uint8:
                largest = own[f"absmax{place}"].repeat_interleave(256)[: one.numel()]
                found = own[f"qmap{place}"][own[f"state{place}"].flatten().long()] * largest
                assert ((found - moments[kind].flatten()).abs() <= 0.0075 * largest + 1e-12).all()
                seen += one.numel()
    assert seen > 1.9 * len(weights(exact))


@pytest.mark.needs("bitsandbytes")
def test_moments_in_8_bits_take_a_quarter_of_the_memory_and_a_plan_knows(tmp_path: Path) -> None:
    """Up to one scale per 256 numbers, and the small tensors, which stay float32."""
    sizes = {}
    for states in ("float32", "8bit"):
        mind = learner(Adam(states=states), Precision())
        step(mind)
        mind.save_state(tmp_path)
        kept = load_file(tmp_path / "optimizer.safetensors")
        sizes[states] = sum(value.nbytes for key, value in kept.items() if not key.endswith(("version", "/step")))
        config = settings(f"optim.states={states}")
        assert state_bytes(config, mind.parameters.values()) == sizes[states]
    assert 0.25 < sizes["8bit"] / sizes["float32"] < 0.27


@pytest.mark.needs("bitsandbytes")
def test_a_critic_keeps_its_moments_in_8_bits_too(tmp_path: Path) -> None:
    critics = [Critic(Policy.load("tiny", Precision()), lr=1e-3, states="8bit") for _ in range(2)]
    sequences, found = batch()[0].sequences, []
    ready = replace(batch()[0], returns=torch.linspace(-1, 1, len(KAPPA)))
    for critic in critics:
        for number in range(3):
            if number == 2 and critic is critics[0]:
                critic.save_state(tmp_path)
            elif number == 2:
                critic.load_state(tmp_path)
            critic.forward_backward(ready, 100)
            critic.optim_step()
        found.append(critic.values(sequences))
    assert torch.equal(*found)
    big = max(critics[1].parameters.values(), key=lambda value: value.numel())
    assert critics[1].optimizer.state[big]["state1"].dtype == torch.uint8


def test_8_bits_without_the_package_are_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnomon.learners.eight_bit.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'(?s)E058.*pip install "gnomon\[low-memory\]"'):
        learner(SETTINGS["8bit"], Precision())


def settings(*words: str) -> RunConfig:
    return resolve([overrides(["env=char_count", *words])])[0]


@pytest.mark.parametrize(
    ("words", "code", "fix"),
    [
        (["optim.type=sgd"], "E057", "optim.lr=10"),
        (["optim.type=sgd", "lr=0.3", "optim.weight_decay=0.1"], "E056", "optim.weight_decay=0.0, or optim.type=adamw"),
        (["optim.momentum=0.9"], "E056", "optim.momentum=0.0, or optim.type=sgd"),
        (["optim.type=adam"], "E011", "optim.type"),
        (["optim.type=sgd", "lr=0.3", "optim.momentum=1"], "E011", "less than 1"),
        (
            ["optim.type=sgd", "lr=0.3", "learner=tinker:M", "engine=tinker", "policy.lora.rank=2"],
            "E048",
            "optim.type=adamw",
        ),
        (["optim.type=sgd", "lr=0.3", "optim.states=8bit"], "E056", "optim.states=float32, or optim.type=adamw"),
        (["optim.states=8bit", "ranks=2"], "E059", "ranks=0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(words: list[str], code: str, fix: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        settings(*words)
    assert [error.code for error in caught.value.errors] == [code] and fix in str(caught.value)


def test_the_first_record_names_an_optimiser_only_where_it_is_another_one() -> None:
    """So that a run of an earlier version has the same first record."""
    usual, other = (opening(settings(*words), CharCount())["config"]["optim"] for words in ([], SGD))
    assert not {"type", "states", "momentum"} & usual.keys()
    assert other["type"] == "sgd" and other["momentum"] == 0.9


def test_a_model_of_the_tinker_sdk_is_trained_by_adamw() -> None:
    """Whatever the server's settings: the SDK sends settings of Adam."""
    model = Model(settings(*SGD), rank=2, seed=0)
    assert isinstance(model._learner.optimizer, torch.optim.AdamW)


SGD = ["optim.type=sgd", "optim.lr=0.3", "optim.momentum=0.9"]
RUN = ["train", "char_count", "budget.steps=6", "eval.tasks=4", "rollout.prompts=3", "rollout.group=4", "save.every=2"]


@pytest.mark.long
@pytest.mark.parametrize(
    "own", [SGD, pytest.param(["optim.states=8bit"], marks=pytest.mark.needs("bitsandbytes"))], ids=["sgd", "8bit"]
)
def test_a_run_that_was_killed_ends_with_the_same_bytes(tmp_path: Path, own: list[str]) -> None:
    """SIGKILL after the first checkpoint; fingerprint, weights and state of the optimiser of the resumed run."""
    words = [sys.executable, "-m", "gnomon", *RUN, *own, f"run={tmp_path / 'killed'}"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while not (tmp_path / "killed" / "checkpoints" / "000002").is_dir():
            assert run.poll() is None
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
    assert command("resume", str(tmp_path / "killed")).returncode == 0
    assert command(*RUN, *own, f"run={tmp_path / 'whole'}").returncode == 0
    with RunReader(tmp_path / "killed") as killed, RunReader(tmp_path / "whole") as whole:
        assert killed.fingerprint == whole.fingerprint
    for name in ("model.safetensors", "optimizer.safetensors"):
        files = [tmp_path / run / "checkpoints" / "000006" / name for run in ("killed", "whole")]
        assert files[0].read_bytes() == files[1].read_bytes()
