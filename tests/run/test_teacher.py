"""A teacher: which one is refused, what a run remembers of it, and whose log-probabilities a step is trained on."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import gnomon
from gnomon.api import configure
from gnomon.config import RunConfig
from gnomon.errors import ConfigError, ConfigErrors, RunError
from gnomon.keys import Key
from gnomon.learners import Batch
from gnomon.learners.base import FloatArray, Model
from gnomon.learners.local import LocalLearner
from gnomon.learners.remote import RemoteLearner
from gnomon.models.folder import TINY, model_folder
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.rollout import pack
from gnomon.rollout.failures import judged_groups
from gnomon.run.makers.served import of_learner
from gnomon.run.manifest import opening
from gnomon.run.parts import make_trainer, open_parts
from gnomon.store import RunReader

SMALL: dict[str, Any] = {
    "threads": 1,
    "rollout": {"prompts": 2, "group": 2, "max_tokens": 12},
    "eval": {"every": 2, "tasks": 2},
    "save": {"every": 1},
    "steps": 2,
}


def taught(folder: Path, scale: float = 1.3) -> Path:
    """The shipped policy with other weights."""
    shutil.copytree(model_folder("tiny"), folder)
    weights = load_file(folder / "model.safetensors")
    save_file({name: value * scale for name, value in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taught(tmp_path_factory.mktemp("teacher") / "model")


def configured(env: str, **settings: Any) -> RunConfig:
    return configure(env, {**SMALL, **settings})[0]


def changed(folder: Path, name: str, **values: object) -> None:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


REFUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "no teacher": ("E055", "opd learns from a teacher", {"objective": "opd"}),
    "nor by answers": (
        "E055",
        "opd learns from a teacher",
        {"objective": {"type": "opd", "credit": "answer"}},
    ),
    "nobody reads it": ("E055", "grpo does not read a reference", {"policy": {"reference": "TEACHER"}}),
    "no folder": ("E301", "does not exist", {"objective": "opd", "policy": {"reference": "nowhere"}}),
    "another tokenizer": (
        "E180",
        "its reference have different",
        {"objective": "opd", "policy": {"reference": "OTHER"}},
    ),
    "another vocabulary": (
        "E055",
        "vocabulary of",
        {"policy": {"reference": "WIDER"}, "regularize": {"kl": 0.1, "estimator": "full"}},
    ),
    "a penalty after another prompt": ("E041", "opsd cannot be", {"objective": "opsd", "regularize": {"kl": 0.1}}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_teacher_that_cannot_teach_is_refused_before_the_run(name: str, teacher: Path, tmp_path: Path) -> None:
    code, text, settings = REFUSED[name]
    other, wider = shutil.copytree(teacher, tmp_path / "other"), shutil.copytree(teacher, tmp_path / "wider")
    changed(other, "tokenizer.json", version="2.0")
    changed(wider, "config.json", vocab_size=999)
    places = {"TEACHER": teacher, "OTHER": other, "WIDER": wider}
    named = {key: str(places.get(path, path)) for key, path in settings.get("policy", {}).items()}
    with pytest.raises(ConfigErrors) as caught:
        configured("char_count", **{**settings, "policy": named})
    assert code in str(caught.value) and text in str(caught.value)


def test_self_distillation_needs_an_environment_that_knows_answers() -> None:
    config = configured("guess_number", objective="opsd")
    with pytest.raises(ConfigError, match=r"(?s)E037.*reads the reference answer"), open_parts(config):
        pass


def test_a_run_is_known_by_the_weights_of_its_teacher_and_not_by_their_place(teacher: Path, tmp_path: Path) -> None:
    again, another = shutil.copytree(teacher, tmp_path / "again"), taught(tmp_path / "another", 1.2)
    env = gnomon.envs.CharCount()
    found = {
        path: configured("char_count", objective="opd", policy={"reference": str(path)})
        for path in (teacher, again, another)
    }
    first, moved, changed_ = (opening(config, env) for config in found.values())
    assert first == moved != changed_
    served = [of_learner(config) for config in found.values()]
    assert served[0] == served[1] != served[2]
    assert "reference" not in opening(configured("char_count"), env)["config"]["policy"]
    assert "reference" not in of_learner(configured("char_count"))["policy"]


def test_a_run_goes_on_with_its_teacher_alone(tmp_path: Path) -> None:
    folder, run = taught(tmp_path / "model"), tmp_path / "run"
    settings = {**SMALL, "objective": "opd", "policy": {"reference": str(folder)}}
    gnomon.train("char_count", run=run, quiet=True, **{**settings, "budget": {"seconds": 1e-3}}).close()
    shutil.rmtree(folder)
    taught(folder, 1.1)
    with pytest.raises(RunError, match=r"(?s)E403.*policy.reference.*has changed since the run began"):
        gnomon.resume(run, quiet=True)
    shutil.rmtree(folder)
    taught(folder)
    while RunReader(run).status != "finished":
        gnomon.resume(run, quiet=True).close()
    with gnomon.train("char_count", run=tmp_path / "whole", quiet=True, **settings) as whole, RunReader(run) as parts:
        assert whole.fingerprint == parts.fingerprint and whole.manifest["tier"] == "exact"


STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "one turn": ("char_count", {}),
    "an adapter": ("char_count", {"policy": {"lora": {"rank": 2}}}),
    "several turns": ("guess_number", {"rollout": {"max_tokens": 16}}),
    "two players": ("nim", {}),
    "the rest of the answer": ("guess_number", {"objective": {"type": "opd", "credit": "answer"}}),
    "a penalty of another row": ("char_count", {"objective": "grpo", "regularize": {"kl": 0.1}}),
    "bfloat16": ("char_count", {"policy": {"dtype": "bfloat16"}}),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_scored_by_the_teacher(name: str, teacher: Path) -> None:
    """Log-probabilities of the reference are those of the folder's policy; credit is what it says beyond the policy."""
    env, more = STEPS[name]
    policy = {"reference": str(teacher), **more.get("policy", {})}
    with open_parts(configured(env, **{"objective": "opd", **more, "policy": policy})) as parts:
        tasks = [(index, parts.env.tasks("train")[index]) for index in range(2)]
        asyncio.run(parts.actor.sync(parts.learner.publish(), 0))
        groups = asyncio.run(parts.actor.collect(tasks, Key(0)))
        raw = pack(judged_groups(groups), sampling=parts.actor.sampling, exact=True, limit=parts.actor.longest)
        batch = parts.credit(raw, parts.learner, updates=2)
        precision = parts.learner.reference.precision
        alone = Policy.load(teacher, Precision.only(precision.compute))
        wanted = torch.cat([torch.from_numpy(x) for x in score_all(alone, raw)])
        assert torch.equal(batch.reference_logp, wanted.double())
        assert parts.learner.reference.model is not parts.learner.policy.model and not parts.learner.reference.adapter
        apart = batch.reference_logp - batch.proximal_logp
        assert float(apart.abs().max()) > 0.1
        if parts.objective.name == "opd":
            assert torch.equal(batch.advantage, apart)
        parts.learner.forward_backward(batch, parts.objective)
        assert parts.learner.optim_step(1e-3)["grad_norm"].value > 0


def score_all(policy: Policy, batch: Batch) -> list[FloatArray]:
    learner = LocalLearner(Policy.load("tiny"), reference=policy)
    return learner.score(batch.sequences, batch.temperature, Model.REFERENCE)


def test_a_teacher_of_another_size_teaches_over_the_whole_vocabulary(tmp_path: Path) -> None:
    """The gradient of a step with both losses is that of plain autograd over the texts, one after the other."""
    folder = taught(tmp_path / "small")
    config = AutoConfig.from_pretrained(folder, hidden_size=32, intermediate_size=48, num_hidden_layers=2)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).float().save_pretrained(folder)
    settings = {"policy": {"reference": str(folder)}, "regularize": {"kl": 3.0, "estimator": "full"}}
    with open_parts(configured("char_count", objective="opd", **settings)) as parts:
        tasks = [(index, parts.env.tasks("train")[index]) for index in range(2)]
        asyncio.run(parts.actor.sync(parts.learner.publish(), 0))
        groups = asyncio.run(parts.actor.collect(tasks, Key(0)))
        batch = pack(judged_groups(groups), sampling=parts.actor.sampling, exact=True, limit=parts.actor.longest)
        batch = parts.credit(batch, parts.learner)
        parts.learner.forward_backward(batch, parts.objective)
        found = parts.learner.policy.projection.weight.grad
    policy = AutoModelForCausalLM.from_pretrained(TINY).double()
    reference = AutoModelForCausalLM.from_pretrained(folder).double()
    total = torch.zeros((), dtype=torch.float64)
    for sequence in batch.sequences:
        ids, read = sequence.token_ids[None], sequence.trainable.nonzero()[:, 0] - 1
        mine = policy(input_ids=ids).logits[0, read].log_softmax(-1)
        with torch.no_grad():
            theirs = reference(input_ids=ids).logits[0, read].log_softmax(-1)
        said = sequence.targets[:, None]
        reward = (theirs - mine).detach().gather(1, said)
        total = total + (reward * mine.gather(1, said)).sum() - 3.0 * (mine.exp() * (mine - theirs)).sum()
    share = batch.denominators.sequences * batch.denominators.max_tokens
    (wanted,) = torch.autograd.grad(-total / share, policy.get_output_embeddings().weight)
    assert torch.allclose(found.double(), wanted, rtol=0, atol=2e-5 * float(wanted.abs().max()))


@pytest.mark.long
@pytest.mark.parametrize("lora", [0, 2], ids=["all weights", "an adapter"])
def test_processes_of_a_learner_share_the_teacher(teacher: Path, lora: int) -> None:
    """Spread over two processes it scores as in one, up to rounding."""
    policy = {"reference": str(teacher), "lora": {"rank": lora}}
    config = configured("char_count", objective="opd", policy=policy)
    with open_parts(config) as parts:
        tasks = [(index, parts.env.tasks("train")[index]) for index in range(2)]
        asyncio.run(parts.actor.sync(parts.learner.publish(), 0))
        groups = asyncio.run(parts.actor.collect(tasks, Key(0)))
        batch = pack(judged_groups(groups), sampling=parts.actor.sampling, exact=True)
        here = parts.learner.score(batch.sequences, 1.0, Model.REFERENCE)
        learner = make_trainer(config.model_copy(update={"ranks": 2}), parts.objective)
    assert isinstance(learner, RemoteLearner)
    try:
        there = learner.score(batch.sequences, 1.0, Model.REFERENCE)
    finally:
        learner.close()
    for one, other in zip(here, there, strict=True):
        assert torch.allclose(torch.from_numpy(one), torch.from_numpy(other), atol=1e-5)
