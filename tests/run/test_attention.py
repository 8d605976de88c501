"""`policy.attention` chooses the attention of the learner, and refuses what it cannot compute before a run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import gnomon
from gnomon import envs
from gnomon.api import configure
from gnomon.config import RunConfig
from gnomon.errors import ConfigError, ConfigErrors
from gnomon.models.backends import SMALLEST, head_size
from gnomon.models.flex import Flex
from gnomon.models.folder import TINY, table
from gnomon.models.packed import Packed
from gnomon.models.policy import Policy, Whole
from gnomon.models.precision import Precision
from gnomon.models.trie import Trie
from gnomon.plans.attention import PlannedFlex
from gnomon.plans.devices import GPUS
from gnomon.plans.lengths import Lengths, description_folder
from gnomon.plans.passes import meta_policy, texts, training
from gnomon.plans.plan import make_plan
from gnomon.run.makers import make_objective
from gnomon.run.makers.engine import apart, probe_bound
from gnomon.run.makers.learner import make_learner
from gnomon.run.makers.policy import attention_of, make_whole, with_attention
from gnomon.run.makers.served import of_learner
from gnomon.run.manifest import opening
from models.kinds import KINDS, save


def configured(**policy: Any) -> RunConfig:
    config, _ = configure("char_count", {"policy": policy})
    return config


@pytest.mark.parametrize("attention", ["auto", "exact"])
def test_the_exact_attention_changes_no_record(attention: str) -> None:
    """On a CPU `auto` is the exact one."""
    config, env = configured(attention=attention, device="cpu"), envs.CharCount()
    assert make_whole(config) is Packed and not apart(config)
    assert "attention" not in opening(config, env)["config"]["policy"]
    assert of_learner(config)["policy"]["attention"] == "exact"


@pytest.mark.parametrize("learner", ["local", "ray", "http://127.0.0.1:1", "tinker", "object:x"])
@pytest.mark.parametrize("attention", ["auto", "exact", "flex"])
def test_processes_elsewhere_get_the_attention_of_the_run(
    monkeypatch: pytest.MonkeyPatch, learner: str, attention: str
) -> None:
    """`auto` on a machine with another device could be another one there."""
    config = configured(attention=attention).model_copy(update={"learner": learner})
    monkeypatch.setattr("gnomon.run.makers.policy.make_device", lambda *_: torch.device("cuda"))
    monkeypatch.setattr("gnomon.run.makers.policy.compiles", lambda: True)
    monkeypatch.setattr("gnomon.run.makers.policy.fits_flex", lambda _: True)
    here = "auto" if learner in ("tinker", "object:x") else "flex"
    assert with_attention(config).policy.attention == (here if attention == "auto" else attention)


def test_flex_is_a_part_of_the_records_and_of_the_measured_tier() -> None:
    config = configured(attention="flex")
    assert apart(config)
    assert opening(config, envs.CharCount())["config"]["policy"]["attention"] == "flex"
    assert of_learner(config)["policy"]["attention"] == "flex"


@pytest.mark.parametrize("compiler", [True, False])
@pytest.mark.parametrize("size", [SMALLEST, SMALLEST - 1])
def test_auto_is_flex_on_a_gpu_that_can_compute_it(
    size: int, compiler: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = save("llama", tmp_path)
    config = table(folder / "config.json") | {"head_dim": size}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("gnomon.run.makers.policy.make_device", lambda *_: torch.device("cuda"))
    monkeypatch.setattr("gnomon.run.makers.policy.compiles", lambda: compiler)
    for path, reference in ((folder, ""), ("tiny", folder), (folder, "tiny"), ("tiny", "")):
        fits = compiler and (size == SMALLEST or folder not in (path, reference))
        policy = {"path": str(path), "reference": str(reference)}
        chosen, _ = configure("char_count", {"policy": policy, **({"objective": "opd"} if reference else {})})
        assert attention_of(chosen) == ("flex" if fits else "exact") and apart(chosen) == fits
        body = opening(chosen, envs.CharCount())["config"]["policy"]
        assert body.get("attention", "exact") == attention_of(chosen)
        assert attention_of(configured(path=str(path), attention="exact")) == "exact"


@pytest.mark.parametrize(("dtype", "attention", "bound"), [
    ("float32", "auto", 1e-3), ("bfloat16", "auto", 0.5), ("float16", "flex", 0.5), ("bfloat16", "exact", 1e-3),
])  # fmt: skip
def test_a_probe_of_another_attention_is_coarser_in_16_bits_alone(
    dtype: str, attention: str, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32 two attentions differ by so little that an old layer is still seen."""
    monkeypatch.setattr("gnomon.run.makers.policy.make_device", lambda *_: torch.device("cuda"))
    monkeypatch.setattr("gnomon.run.makers.policy.compiles", lambda: True)
    assert probe_bound(configured(dtype=dtype, attention=attention)) == bound


def test_a_resumed_run_keeps_the_attention_that_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever `auto` is on the machine that resumes it."""
    settings = {"steps": 1, "prompts": 2, "group": 2, "eval": {"tasks": 2}, "quiet": True, "policy": {"device": "cpu"}}
    with gnomon.train("char_count", run=tmp_path / "run", **settings) as run:
        fingerprint = run.fingerprint
    seen: list[str] = []
    real = attention_of

    def asked(config: RunConfig) -> str:
        seen.append(config.policy.attention)
        return "flex" if config.policy.attention == "auto" else real(config)

    monkeypatch.setattr("gnomon.run.manifest.attention_of", asked)
    with gnomon.resume(tmp_path / "run", quiet=True) as run:
        assert run.fingerprint == fingerprint
    assert set(seen) <= {"exact"}


@pytest.mark.parametrize("attention", ["flex", "cudnn"])
def test_what_a_cpu_cannot_compute_is_refused_with_what_works(attention: str) -> None:
    with pytest.raises(ConfigErrors, match=r"E338(.|\n)*fix: policy\W+attention\W+exact"):
        configured(attention=attention, device="cpu")
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match=r"E338(.|\n)*fix: policy\W+attention\W+exact"):
            make_whole(configured(attention=attention))


@pytest.mark.parametrize("setting", ["path", "reference"])
def test_heads_that_flex_does_not_compute_are_refused_before_the_run(setting: str, tmp_path: Path) -> None:
    folder = save("llama", tmp_path)
    settings = {setting: str(folder), "attention": "flex"}
    more: dict[str, Any] = {"objective": "opd"} if setting == "reference" else {}
    configure("char_count", {"policy": settings, **more})
    config = table(folder / "config.json") | {"head_dim": SMALLEST - 1}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigErrors, match=r"E329(.|\n)*size 15(.|\n)*fix: policy\W+attention\W+exact"):
        configure("char_count", {"policy": settings, **more})
    configure("char_count", {"policy": settings | {"attention": "exact"}, **more})


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_a_head_is_read_from_the_configuration(kind: str, tmp_path: Path) -> None:
    folder, found = save(kind, tmp_path), []
    policy = Policy.load(folder)

    def attend(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, form: Any) -> torch.Tensor:
        found.append(min(query.shape[-1], value.shape[-1]))
        return query.new_zeros(*query.shape[:2], value.shape[-1])

    layout = type("Seen", (Packed,), {"attend": staticmethod(attend)})
    policy.hidden(torch.arange(16), layout(Trie([torch.arange(16)])))
    assert {head_size(table(folder / "config.json"))} == set(found)


def test_learner_reference_and_critic_have_the_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the device is not asked for."""
    monkeypatch.setattr("gnomon.run.makers.learner.make_whole", lambda config: Flex)
    settings = {"objective": "ppo", "regularize": {"kl": 0.1}, "policy": {"attention": "flex"}}
    config, _ = configure("char_count", settings)
    learner = make_learner(config, make_objective(config))
    assert learner.reference is not None and learner.critic is not None
    assert {policy.whole for policy in (learner.policy, learner.reference, learner.critic.body)} == {Flex}


def test_a_plan_of_either_attention_grows_with_the_tokens_of_a_row_and_not_with_their_square() -> None:
    """Four times the reply, in a layer of Qwen3-0.6B's shape."""

    def peak(whole: Whole, reply: int) -> float:
        policy = meta_policy(
            description_folder("Qwen/Qwen3-0.6B"), Precision.only(torch.bfloat16), layers=1, whole=whole
        )
        return training(policy, texts([64], 1, reply), GPUS["h100"]).peak

    for whole in (Packed, PlannedFlex):
        assert peak(whole, 4096) < 4.2 * peak(whole, 1024)
    assert peak(Packed, 4096) > peak(PlannedFlex, 4096)


def test_a_plan_counts_the_attention_that_is_set() -> None:
    small = {"prompts": 1, "group": 2, "eval": {"tasks": 1, "samples": 1}, "regularize": {"kl": 0.1}}
    lengths = Lengths(prompts=(64,), reply=64, held_out=(64,))
    found = {
        name: make_plan(configure("char_count", {**small, "policy": {"attention": name}})[0], GPUS["h100"], lengths)
        for name in ("auto", "exact", "flex")
    }
    assert found["auto"] == found["flex"]  # As on a GPU.
    on_a_cpu = replace(GPUS["h100"], name="cpu")
    exact, auto = (
        make_plan(configure("char_count", {**small, "policy": {"attention": name}})[0], on_a_cpu, lengths)
        for name in ("exact", "auto")
    )
    assert auto == exact
    assert found["flex"].seconds["training"] != found["exact"].seconds["training"]
    assert found["flex"].seconds["reference"] != found["exact"].seconds["reference"]
    assert found["flex"].seconds["sampling"] == found["exact"].seconds["sampling"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_run_with_flex_is_measured(tmp_path: Path) -> None:
    settings = {"attention": "flex", "device": "cuda", "path": str(TINY)}
    with gnomon.train(
        "char_count", run=tmp_path / "run", policy=settings, steps=2, prompts=4, group=4, eval={"tasks": 4}, quiet=True
    ) as reader:
        assert reader.manifest["tier"] == "measured"
