"""A low-rank adapter in the place of all weights: exact, resumable, the textbook's gradient, the base untouched."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.func import functional_call
from transformers import AutoModelForCausalLM

import gnomon
from gnomon.config import overrides, resolve
from gnomon.engines.embedded import Embedded
from gnomon.envs import CharCount
from gnomon.errors import ModelError, ResourceError
from gnomon.keys import Key
from gnomon.learners import Batch
from gnomon.learners.local import LocalLearner
from gnomon.models import adapter as adapters
from gnomon.models.adapter import Adapter
from gnomon.models.folder import model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import score
from gnomon.models.weights import Kind
from gnomon.objectives import objective
from gnomon.rollout import Actor, pack
from gnomon.run.makers import make_engine, make_learner, make_objective
from gnomon.run.manifest import opening
from gnomon.store import RunReader
from gnomon.types import Sampling
from learners.sequences import credited, lines
from models.kinds import KINDS, save, text

SAMPLING = Sampling(max_tokens=24, stop=("</answer>",), temperature=0.8)
ROWS = [(0, text(3, 20)), (0, text(4, 5)), (1, text(5, 9))]
PROMPTS = [text(1, 6), text(2, 30)]


def adapter(rank: int = 4, **options: Any) -> Adapter:
    return Adapter(rank=rank, key=Key(7), **options)


def policy(precision: Precision | None = None, **options: Any) -> Policy:
    return Policy.load("tiny", precision, adapter=adapter(**options))


@pytest.fixture(scope="module")
def batch() -> Batch:
    """Sampled by a policy whose adapter is not blank; every group has right and wrong rollouts."""
    engine = Embedded(policy(blank=False))
    actor = Actor(CharCount(), engine.policy.tokenizer, engine, group=4, sampling=SAMPLING)
    tasks = [(index, CharCount().tasks("train")[index]) for index in range(6)]
    groups = asyncio.run(actor.collect(tasks, Key(1).at("test")))
    actor.workers.close()
    found = pack(groups, sampling=SAMPLING, exact=True)
    rewards = (torch.arange(24).reshape(6, 4) * 7 % 5 < 2).double()
    found = replace(found, rollouts=replace(found.rollouts, rewards=rewards))
    return credited(LocalLearner(policy()), found, objective("reinforce_centred"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [1, 3])
def test_decoding_equals_scoring_in_every_bit(kind: str, rank: int, tmp_path: Path) -> None:
    """Also at rank 1, where a product of one column would take another kernel."""
    engine = Embedded(Policy.load(save(kind, tmp_path), adapter=adapter(rank, blank=False)))
    assert engine.measure([text(0, 3), text(1, 40)], rows=3, tokens=34) == 0.0
    found = score(engine.policy, PROMPTS, ROWS)
    assert not torch.equal(found, score(engine.policy.without_adapter, PROMPTS, ROWS))


@pytest.mark.parametrize("kind", KINDS)
def test_without_its_adapter_it_is_the_base(kind: str, tmp_path: Path) -> None:
    """In every bit, with the adapter off or blank; and the adapter is trained as before afterwards."""
    folder = save(kind, tmp_path)
    base = score(Policy.load(folder), PROMPTS, ROWS)
    full = Policy.load(folder, adapter=adapter(blank=False))
    assert torch.equal(score(full.without_adapter, PROMPTS, ROWS), base)
    assert torch.equal(score(Policy.load(folder, adapter=adapter()), PROMPTS, ROWS), base)
    assert full.kind is Kind.ADAPTER and all(value.requires_grad for value in full.state().values())
    trained = sum(value.numel() for value in full.model.parameters() if value.requires_grad)
    assert trained == sum(value.numel() for value in full.state().values())


def textbook(batch: Batch, trained: Policy) -> dict[str, Tensor]:
    """The gradient of −Σ A log π / S by A and B, by autograd of transformers' model with weights W + αBA/r."""
    folder, alpha = model_folder("tiny"), trained.adapter.adapter.alpha / trained.adapter.adapter.rank
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="sdpa").eval()
    factors = {name: value.detach().clone().requires_grad_() for name, value in trained.state().items()}
    weights = dict(model.named_parameters())
    for name, down in factors.items():
        if name.endswith(".lora_A.weight"):
            place = name.removeprefix("base_model.model.").replace(".lora_A", "")
            weights[place] = weights[place].detach() + alpha * factors[name.replace("lora_A", "lora_B")] @ down
    for line in lines(batch):
        ids = torch.tensor([line.prompt + line.reply])
        logits = functional_call(model, weights, kwargs={"input_ids": ids}).logits[0, len(line.prompt) - 1 : -1]
        logp = torch.log_softmax(logits / batch.temperature, -1).gather(1, torch.tensor(line.reply)[:, None]).sum()
        (-line.advantage[0] * logp / batch.denominators.sequences).backward(retain_graph=True)
    return {name: value.grad for name, value in factors.items()}


@pytest.mark.parametrize("rank", [1, 8])
def test_the_gradient_is_the_textbooks(batch: Batch, rank: int) -> None:
    """In float64: both sum the same terms in another order. In float32 up to the rounding of a pass."""
    theirs = textbook(batch, policy(Precision.only(torch.float64), rank=rank, blank=False))
    for dtype, bound in ((torch.float64, 1e-11), (torch.float32, 1e-3)):
        learner = LocalLearner(policy(Precision.only(dtype), rank=rank, blank=False))
        learner.forward_backward(replace(batch, exact=False), objective("reinforce"))
        assert learner.parameters.keys() == theirs.keys()
        for name, value in learner.parameters.items():
            assert theirs[name].abs().max() > 0
            assert (value.grad - theirs[name]).abs().max() <= bound * theirs[name].abs().max(), name


@pytest.mark.parametrize("compute", [torch.float32, torch.bfloat16])
def test_the_base_does_not_change_and_the_adapter_is_float32(
    batch: Batch, compute: torch.dtype, tmp_path: Path
) -> None:
    """Steps of 1e-6 would be lost in bfloat16. What is saved and loaded goes on to the bit."""

    def step(learner: LocalLearner) -> None:
        learner.forward_backward(replace(batch, exact=False), objective("reinforce"))
        learner.optim_step(1e-6)

    straight, again = (LocalLearner(policy(Precision(compute=compute), blank=False)) for _ in range(2))
    before = {name: value.detach().clone() for name, value in straight.policy.model.named_parameters()}
    for _ in range(2):
        step(straight)
    straight.save_state(tmp_path)
    again.load_state(tmp_path)
    step(straight)
    step(again)
    assert all(value.dtype == torch.float32 for value in straight.parameters.values())
    assert all(torch.equal(value, again.parameters[name]) for name, value in straight.parameters.items())
    for name, value in straight.policy.model.named_parameters():
        changed = float((value != before[name]).float().mean())
        assert changed > 0.9 if "lora" in name else changed == 0.0 and value.dtype == compute, name
    assert load_file(tmp_path / "adapter_model.safetensors").keys() == straight.parameters.keys()
    assert not (tmp_path / "model.safetensors").exists()


def test_an_engine_takes_the_adapter_alone_and_nothing_else() -> None:
    learner, engine = LocalLearner(policy(rank=2)), Embedded(policy(rank=2, blank=False))
    for value in learner.parameters.values():
        value.grad = torch.ones_like(value)
    learner.optim_step(1e-2)
    engine.load(learner.publish())  # Raises E201 where a probe says that it holds others.
    assert all(torch.equal(value, learner.parameters[name]) for name, value in engine.policy.state().items())
    assert learner.publish().kind is Kind.ADAPTER
    plain = LocalLearner(Policy.load("tiny"))
    for weights, holder in ((plain.publish(), engine), (learner.publish(), Embedded(Policy.load("tiny")))):
        with pytest.raises(ModelError, match="E323"):
            holder.load(weights)
    with pytest.raises(ModelError, match="E304"):
        Embedded(policy(rank=3)).load(learner.publish())


@pytest.mark.parametrize("checkpointing", ["false", "true"])
def test_an_engine_beside_the_learner_holds_its_frozen_weights_and_an_adapter_of_its_own(checkpointing: str) -> None:
    words = ["policy.lora.rank=4", f"policy.activation_checkpointing={checkpointing}"]
    config, _ = resolve([overrides(words)])
    learner = make_learner(config, make_objective(config))
    before = {name: value.clone() for name, value in learner.policy.model.named_parameters()}
    engine, alone = make_engine(config, learner), make_engine(config)
    assert isinstance(engine, Embedded) and isinstance(alone, Embedded)
    theirs = dict(learner.policy.model.named_parameters())
    for name, value in engine.policy.model.named_parameters():
        assert (value is theirs[name]) != value.requires_grad, name
    assert engine.measure(PROMPTS, rows=2, tokens=8) <= (0.0 if engine.policy.device.type == "cpu" else 1e-4)
    for one, other in zip(engine.policy.state().values(), alone.policy.state().values(), strict=True):
        assert torch.equal(one, other)  # Random in both factors, as the measurement needs it.
    engine.load(learner.publish())
    for name, value in learner.policy.model.named_parameters():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("word", ["policy.lora.rank=2", "policy.lora.alpha=4", "engine.round_weights=bfloat16"])
def test_an_engine_of_other_settings_than_the_learners_has_weights_of_its_own(word: str) -> None:
    learner_config, _ = resolve([overrides(["policy.lora.rank=4"])])
    learner = make_learner(learner_config, make_objective(learner_config))
    config, _ = resolve([overrides(["policy.lora.rank=4", word])])
    engine = make_engine(config, learner)
    assert isinstance(engine, Embedded)
    theirs = {id(value) for value in learner.policy.model.parameters()}
    assert not any(id(value) in theirs for value in engine.policy.model.parameters())


def test_first_values_follow_the_seed_and_nothing_else() -> None:
    torch.manual_seed(1)
    one = policy()
    torch.manual_seed(2)
    state = torch.get_rng_state()
    other, third = policy(), Policy.load("tiny", adapter=Adapter(rank=4, key=Key(8)))
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in one.state().items():
        assert torch.equal(value, other.state()[name])
        assert torch.equal(value, third.state()[name]) == name.endswith("lora_B.weight")


def test_targets_are_layers_by_name() -> None:
    names = {name.split(".")[-3] for name in policy(targets=("dense",)).state()}
    assert names == {"dense"} and {name.split(".")[-3] for name in policy().state()} > names
    for target in ("q_proj", "embed_in", "embed_out", "lm_head"):  # None is a linear layer inside the model.
        with pytest.raises(ModelError, match=rf"E324.*called {target}(.|\n)*dense, dense_4h_to_h, .*query_key_value\n"):
            policy(targets=("dense", target))


def test_without_peft_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"E505. the package peft(.|\n)*gnomon\[lora\]"):
        policy()


def test_an_adapter_learns_ten_times_as_fast_and_other_runs_are_as_they_were() -> None:
    full, _ = resolve([overrides(["env=char_count"])])
    lora, origins = resolve([overrides(["env=char_count", "policy.lora.rank=4", "objective=ppo"])])
    assert lora.optim.lr == 10 * full.optim.lr and lora.critic.lr == 10 * full.critic.lr
    assert "adapter" in origins["optim.lr"]
    assert "lora" not in opening(full, CharCount())["config"]["policy"]
    assert opening(lora, CharCount())["config"]["policy"]["lora"]["rank"] == 4


def test_the_reference_is_the_policy_without_its_adapter() -> None:
    config, _ = resolve([overrides(["env=char_count", "policy.lora.rank=4", "regularize.kl=0.1"])])
    learner = make_learner(config, make_objective(config))
    assert learner.reference and learner.reference.model is learner.policy.model


SMALL: dict[str, Any] = {
    "threads": 1,
    "rollout": {"prompts": 2, "group": 4, "max_tokens": 12},
    "eval": {"every": 2, "tasks": 2},
    "policy": {"lora": {"rank": 1}},
    "save": {"every": 1},
}
RUNS: dict[str, dict[str, Any]] = {
    "with a critic, a divergence over the vocabulary and two updates": {
        "objective": "ppo",
        "optim": {"minibatches": 2},
        "regularize": {"kl": 0.1, "estimator": "full"},
    },
    "against its past": {
        "env": "kuhn_poker",
        "objective": "reinforce",
        "players": {"opponent": "past", "every": 1, "keep": 2},
    },
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.long
def test_a_run_is_exact_and_goes_on_to_the_bit(name: str, tmp_path: Path) -> None:
    """Stopped after the first step and resumed."""
    settings = {**SMALL, "steps": 2, **RUNS[name]}
    env = settings.pop("env", "char_count")
    with gnomon.train(env, run=tmp_path / "whole", quiet=True, **settings) as reader:
        whole = reader.fingerprint
        assert reader.manifest["tier"] == "exact"
        metrics = [step["metrics"] for step in reader.metrics()]
    assert {step["logp_mismatch"] for step in metrics if step["trained"]} == {0.0}
    gnomon.train(env, run=tmp_path / "parts", quiet=True, **{**settings, "budget": {"seconds": 1e-3}}).close()
    while RunReader(tmp_path / "parts").status != "finished":
        gnomon.resume(tmp_path / "parts", quiet=True).close()
    with RunReader(tmp_path / "parts") as reader:
        assert reader.fingerprint == whole
