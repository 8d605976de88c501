"""A run whose learner and sampler are on the Tinker service: its gradients, its checkpoints, and what it refuses.

The service is a double over learners of this process. Where the SDK is installed, or `GNOMON_TINKER_PYTHON` names a
Python of the same version that has it, a run also uses the SDK, against `gnomon serve-learner`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import gnomon
from commands import command
from gnomon.config import RunConfig, Source, overrides, resolve
from gnomon.engines.tinker import TinkerEngine
from gnomon.envs import CharCount
from gnomon.errors import ConfigError, ConfigErrors, ModelError, NumericsError, ResourceError
from gnomon.keys import Key
from gnomon.learners import Batch
from gnomon.learners.base import Model
from gnomon.learners.credit import Crediting
from gnomon.learners.tinker import TinkerLearner
from gnomon.models import tinker as client
from gnomon.models.weights import WeightsRef
from gnomon.rollout import Actor, pack
from gnomon.run.makers import make_engine, make_learner, make_objective, tinker
from gnomon.run.parts import here
from gnomon.types import Finish, Request, Sampling
from tinker_service import double
from tinker_service.test_tinker import serving

PYTHON = os.environ.get("GNOMON_TINKER_PYTHON") or (sys.executable if find_spec("tinker") else "")
WORDS = ["env=char_count", "learner=tinker:tiny", "engine=tinker", "policy.lora.rank=4"]
SAMPLING = Sampling(max_tokens=48, stop=("</answer>",))
SMALL = {"rollout": {"prompts": 4, "group": 4}, "eval": {"tasks": 4, "samples": 1}, "save": {"every": 1}}
ROWS = {
    "dr_grpo": [],
    "two updates": ["objective=dapo", "optim.epochs=2"],
    "sequence ratios": ["objective=gspo", "optim.epochs=2"],
    "KL to the base model": ["objective=rloo", "regularize.kl=0.1"],
    "a correction": ["objective=tis", "optim.minibatches=2"],
}


def config_of(*words: str) -> RunConfig:
    return resolve([Source({}, {}), overrides([*WORDS, *words])])[0]


def remote_of(config: RunConfig) -> TinkerLearner:
    return tinker.make_tinker_learner(config, make_objective(config))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[double.Service]:
    """A service with nothing saved."""
    monkeypatch.setitem(sys.modules, "tinker", double)
    monkeypatch.setenv("TINKER_API_KEY", "tml-secret-of-this-test")
    (tmp_path / "service").mkdir()
    for name, value in {"config": config_of(), "folder": tmp_path / "service", "saved": {}, "weights": {}}.items():
        monkeypatch.setattr(double.Service, name, value, raising=False)
    return double.Service


@pytest.fixture(scope="module")
def collected() -> Batch:
    """Rollouts of the initial policy."""
    engine = make_engine(here(config_of()))
    actor = Actor(CharCount(), engine.policy.tokenizer, engine, group=6, sampling=SAMPLING)
    groups = asyncio.run(actor.collect([(i, CharCount().tasks("train")[i]) for i in range(6)], Key(1).at("test")))
    return pack(groups, sampling=SAMPLING, exact=False)


@pytest.mark.parametrize("name", ROWS)
def test_updates_are_those_of_the_learner_in_this_process(service, collected, name):
    """Gradients and weights over two optimiser steps on the same rollouts, equal up to rounding.

    κ travels as float32, and micro-batches are cut otherwise: gradients differ by some 1e-6 of the largest. Adam
    divides by the root of the second moment, so where a gradient is near zero it magnifies this: up to 3.4 % of the
    largest change of a weight were measured.
    """
    config = config_of(*ROWS[name])
    row, schedule = make_objective(config), 1e-3
    near, far = make_learner(here(config), row), remote_of(config)
    theirs = far._training.model._learner
    updates = config.optim.updates
    credited = [Crediting(row)(collected, each, updates=updates) for each in (near, far)]
    before = {key: value.detach().clone() for key, value in near.parameters.items()}
    for places in range(2):
        parts = [[*each.updates(config.optim.epochs, config.optim.minibatches, Key(3))] for each in credited]
        place = places % len(parts[0])
        found = [near.forward_backward(parts[0][place], row), far.forward_backward(parts[1][place], row)]
        for key in set(found[1]) - {"mismatch/token", "trained"}:
            assert found[0][key].value == pytest.approx(found[1][key].value, abs=1e-4), key
        gradients = [torch.cat([p.grad.flatten() for p in each.parameters.values()]) for each in (near, theirs)]
        assert gradients[0].abs().max() > 1e-4
        assert (gradients[0] - gradients[1]).abs().max() <= 2e-5 * gradients[0].abs().max()
        norms = [each.optim_step(schedule)["grad_norm"].value for each in (near, far)]
        assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    moved = max((near.parameters[key] - before[key]).abs().max() for key in before)
    gap = max((near.parameters[key] - theirs.parameters[key]).abs().max() for key in before)
    assert gap <= 0.05 * moved and moved > 1e-4


def test_a_step_without_credit_moves_what_adam_remembers(service, collected):
    """As in this process: the moments decay, and the weights go on."""
    config = config_of()
    row = make_objective(config)
    learners = [make_learner(here(config), row), remote_of(config)]
    for each in learners:
        batch = Crediting(row)(collected, each)
        nothing = replace(batch, advantage=torch.zeros_like(batch.advantage))
        for one in (batch, nothing):
            each.forward_backward(one, row)
            each.optim_step(1e-3)
    near, far = learners[0].parameters, learners[1]._training.model._learner.parameters
    assert max((near[key] - far[key]).abs().max() for key in near) <= 1e-4
    assert learners[1].forward_backward(nothing, row)["trained"].value == 0


def test_the_optimiser_has_the_settings_of_the_run(service):
    sent = []

    def step(params):
        sent.append(params)
        return double.Future(lambda: SimpleNamespace(metrics=None))

    learner = remote_of(config_of("optim.weight_decay=0.1", "optim.max_grad_norm=0.5"))
    learner._training.optim_step = step
    assert set(learner.optim_step(0.02)) == {"lr"} and learner.version == 1
    adam = {"beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "grad_clip_norm": 0.5}
    assert sent == [{"learning_rate": 0.02, **adam}]


@pytest.mark.long
def test_a_run_and_its_checkpoint(service, tmp_path):
    """Stopped after a step and resumed with other clients, a run ends with the weights of one that was not."""
    settings = {"policy": {"lora": {"rank": 4}}, "learner": "tinker:tiny", "engine": "tinker", "steps": 3, **SMALL}
    with gnomon.train("char_count", run=tmp_path / "whole", quiet=True, **settings) as whole:
        assert whole.complete and whole.manifest["tier"] == "measured"
        assert whole.manifest["engine"] == {"tinker": "double"}
        assert all(each["metrics"]["logp_mismatch"] < 1e-4 for each in whole.metrics())
        assert [each["metrics"]["lr"] > 0 for each in whole.metrics()] == [True] * 3
    states = [*service.saved.values()]
    with gnomon.train("char_count", run=tmp_path / "cut", quiet=True, budget={"seconds": 0.001, "steps": 3}, **{
        key: value for key, value in settings.items() if key != "steps"
    }) as cut:  # fmt: skip
        assert not cut.complete
    refused = command("resume", str(tmp_path / "cut"), "learner=local")
    assert refused.returncode == 2 and "E048" in refused.stderr and "engine=tinker needs" in refused.stderr
    exported = command("export", str(tmp_path / "whole"), str(tmp_path / "export"))
    assert exported.returncode == 1 and "E185" in exported.stderr and "Traceback" not in exported.stderr
    while True:
        with gnomon.resume(tmp_path / "cut", quiet=True) as resumed:
            if resumed.complete:
                break
    last = [*service.saved.values()]
    for one, other in zip(
        sorted(states[-1].glob("*.safetensors")), sorted(last[-1].glob("*.safetensors")), strict=True
    ):
        assert one.read_bytes() == other.read_bytes()
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"secret-of-this-test" in each for each in kept), "the key is in no file"


def test_the_state_of_another_learner_is_refused(service, tmp_path):
    local = make_learner(here(config_of()), make_objective(config_of()))
    local.save_state(tmp_path)
    remote = remote_of(config_of())
    with pytest.raises(ModelError, match=r"(?s)E304.*has no tinker.json"):
        remote.load_state(tmp_path)
    remote.save_state(tmp_path / "service")
    body = json.loads((tmp_path / "service" / "tinker.json").read_text())
    (tmp_path / "tinker.json").write_text(json.dumps(body | {"base": "other"}))
    with pytest.raises(ModelError, match=r"(?s)E304.*its base model is other"):
        remote.load_state(tmp_path)


REFUSED = {
    "engine=embedded": "engine=embedded",
    "policy.lora.rank=0": "policy.lora.rank",
    "policy.lora.alpha=8": "policy.lora.alpha",
    'policy.lora.targets=["dense"]': "policy.lora.targets",
    "rollout.temperature=0.8": "rollout.temperature",
    "rollout.entropy=true": "rollout.entropy",
    "rollout.lag=1": "rollout.lag",
    "regularize.entropy=0.01": "regularize.entropy",
    "regularize.kl=0.1 regularize.estimator=full": "regularize.estimator",
    "objective=fcp rollout.offline=0.5": "rollout.offline",
    "objective=ppo": "objective.type",
    "players.opponent=past": "players.opponent",
    "ranks=2": "ranks",
    "optim.type=sgd lr=1": "optim.type",
    "optim.states=8bit": "optim.states",
    "policy.reference=tiny regularize.kl=0.1": "policy.reference",
    "launch=ray": "launch.type",
    "learner=local": "learner",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_the_service_cannot_serve_is_refused_before_the_run(words):
    with pytest.raises((ConfigError, ConfigErrors)) as found:
        config_of(*words.split())
    errors = found.value.errors if isinstance(found.value, ConfigErrors) else [found.value]
    ours = [each for each in errors if each.code == "E048"]
    assert len(ours) == 1 and REFUSED[words] in f"{ours[0].what} {ours[0].where}"
    assert ours[0].why and ours[0].fix


def test_a_key_and_the_sdk_are_asked_for_before_the_run(service, monkeypatch):
    with pytest.raises(ResourceError, match=r"(?s)E508.*could not begin to train other.*there is no model other"):
        remote_of(config_of("learner=tinker:other"))
    with pytest.raises(ConfigError, match=r"(?s)E048.*training on observations"):
        remote_of(config_of("objective=echo"))
    monkeypatch.delenv("TINKER_API_KEY")
    with pytest.raises(ConfigError, match=r"(?s)E048.*export TINKER_API_KEY"):
        remote_of(config_of())
    monkeypatch.setattr(client, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r'(?s)E505.*pip install "gnomon\[tinker\]"'):
        remote_of(config_of())


def test_the_engine_loads_only_what_it_can_prove_and_ends_completions_by_its_own_rule(service, monkeypatch):
    learner, engine = remote_of(config_of()), make_engine(config_of())
    assert isinstance(engine, TinkerEngine)
    weights = learner.publish()
    engine.load(weights)
    assert learner.publish() is weights and engine.version == 0
    with pytest.raises(NumericsError, match="E201"):
        engine.load(replace(weights, probe_logp=tuple(each - 1 for each in weights.probe_logp)))
    with pytest.raises(ModelError, match="E323"):
        engine.load(WeightsRef(base="", version=0, tensors={}, probe=weights.probe, probe_logp=weights.probe_logp))
    request = Request(prompt_ids=engine.tokenizer.encode("how many"), key=Key(1).bytes, sampling=SAMPLING)
    whole = asyncio.run(engine.sample(request))
    assert len(whole.token_ids) == len(whole.logprobs) and asyncio.run(engine.sample(request)) == whole
    cut = replace(SAMPLING, stop_ids=frozenset({whole.token_ids[1]}))  # The service is told of the text alone.
    ended = asyncio.run(engine.sample(replace(request, sampling=cut)))
    count = whole.token_ids.index(whole.token_ids[1]) + 1
    assert ended.token_ids == whole.token_ids[:count] and ended.finish is Finish.EOS
    with pytest.raises(ValueError, match="cannot score with critic"):
        learner.score([], model=Model.CRITIC)


@pytest.mark.long
@pytest.mark.skipif(not PYTHON, reason="the SDK is not installed: pip install tinker, or set GNOMON_TINKER_PYTHON")
def test_a_run_through_the_sdk(monkeypatch, tmp_path):
    """Two steps against `gnomon serve-learner`, one of them after a resume."""
    with serving(monkeypatch, words=["env=char_count", "policy.lora.rank=4"]) as server:
        keys = {"TINKER_API_KEY": f"tml-{server.token}", "TINKER_BASE_URL": server.url, "TINKER_TELEMETRY": "0"}
        place = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        words = ["train", "char_count", *WORDS[1:], "prompts=3", "group=4", "steps=2", "eval.tasks=2", "save.every=1"]
        folder = str(tmp_path / "run")
        for each in ([*words, "budget.seconds=0.001", f"run={folder}"], ["resume", folder], ["resume", folder]):
            done = subprocess.run(
                [PYTHON, "-m", "gnomon", *each], env={**os.environ, **keys, **place}, capture_output=True, text=True
            )
            assert done.returncode in (0, 130), done.stderr
            assert "Synchronous" not in done.stderr + done.stdout
    with gnomon.RunReader(folder) as run:
        assert run.complete and all(each["metrics"]["logp_mismatch"] < 1e-4 for each in run.metrics())
