"""Mixtures of experts on a CPU in float32: what they make of a token does not depend on the tokens beside it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from gnomon.engines.base import Tier
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import packed_logp
from gnomon.store import RunReader
from models.characters import tokenizer
from models.kinds import text
from models.small import small
from training.test_runs import command

FAMILIES = (
    "cohere2_moe", "deepseek_v3", "ernie4_5_moe", "exaone_moe", "glm4_moe", "gpt_oss", "hy_v3", "laguna", "minimax_m2",
    "minimax_m3_vl_text", "qwen2_moe", "qwen3_5_moe_text",
)  # fmt: skip
"""Chosen by a softmax or a sigmoid, of all experts or of those of some groups, with and without a bias of the choice;
experts that all tokens have, with and without a gate."""


def saved(family: str, folder: Path) -> Path:
    """A small random model of the family, as a folder."""
    model = small(family)
    assert model is not None
    model.save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mixture_makes_the_same_of_a_token_in_every_pass(family: str, tmp_path: Path) -> None:
    """Of 16 to 47 tokens, and of others in another order."""
    model = Policy.load(saved(family, tmp_path)).model
    name = next(name for name, module in model.named_modules() if hasattr(module, "_apply_gate"))
    mixture, generator = model.get_submodule(name.rpartition(".")[0]), torch.Generator().manual_seed(0)
    states = torch.randn(1, 47, model.config.get_text_config().hidden_size, generator=generator)

    def output(part: torch.Tensor) -> torch.Tensor:
        out = mixture(part)
        result: torch.Tensor = (out[0] if isinstance(out, tuple) else out).view(part.shape)
        return result

    with torch.no_grad():
        whole = output(states)
        for count in range(16, 47):
            assert torch.equal(output(states[:, :count]), whole[:, :count])
            order = torch.randperm(47, generator=generator)[:count]
            assert torch.equal(output(states[:, order]), whole[:, order])


@pytest.mark.parametrize("family", ["deepseek_v3", "glm4_moe", "lfm2", "qwen2_moe"])
def test_the_gradient_equals_transformers_in_float64(family: str, tmp_path: Path) -> None:
    """Over texts that share a beginning and are longer than a span. Routers and norms compute in float32 in both, so
    that the gradients differ by its rounding at most."""
    policy = Policy.load(saved(family, tmp_path), Precision.only(torch.float64))
    own = {"experts_implementation": "eager"} if "moe" in family or "deepseek" in family else {}
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64, attn_implementation="eager", **own)
    prompt, rows = text(3, 150), [(0, text(seed, length)) for seed, length in ((5, 3), (6, 60), (7, 40))]
    packed_logp(policy, [prompt], rows)[0].sum().backward()  # type: ignore[no-untyped-call]
    for _, row in rows:
        ids = torch.tensor([prompt + row])
        logp = model(ids, use_cache=False).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        logp.gather(1, torch.tensor(row)[:, None]).sum().backward()
    theirs = {name: value.grad for name, value in model.named_parameters()}
    for name, mine in policy.state().items():
        bound = 1e-6 * float(theirs[name].abs().max())
        torch.testing.assert_close(mine.grad, theirs[name], rtol=0, atol=bound, msg=f"the gradient of {name} differs")


@pytest.mark.parametrize("family", ["glm4_moe", "deepseek_v3"])
def test_a_run_that_is_killed_goes_on_to_the_same_bytes(family: str, tmp_path: Path, monkeypatch: Any) -> None:
    """In the tier `exact`, also with another number of threads."""
    base = saved(family, tmp_path / "base")
    words = (f"policy={base}", "steps=3", "prompts=2", "group=4", "rollout.max_tokens=6", "eval.tasks=2")
    words = (*words, "optim.lr=1e-2", "regularize.entropy=1.0", "save.every=1", "threads=1")
    assert command("train", "char_count", f"run={tmp_path / 'whole'}", *words).returncode == 0
    monkeypatch.setenv("GNOMON_FAILPOINT", "append:before-commit:2")
    assert command("train", "char_count", f"run={tmp_path / 'halves'}", *words).returncode == -signal.SIGKILL
    monkeypatch.delenv("GNOMON_FAILPOINT")
    assert command("resume", str(tmp_path / "halves"), "threads=2").returncode == 0
    with RunReader(tmp_path / "whole") as whole, RunReader(tmp_path / "halves") as halves:
        assert halves.fingerprint == whole.fingerprint and whole.manifest["tier"] == Tier.EXACT.value
        assert [step["metrics"]["logp_mismatch"] for step in halves.metrics()] == [0.0] * 3
