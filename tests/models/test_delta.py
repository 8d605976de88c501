"""Gated delta layers on flat tokens: the rule itself, token by token, transformers' own model, and its decoding."""

from __future__ import annotations

import inspect
import random
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, OlmoHybridConfig, PreTrainedConfig, Qwen3NextConfig

from engines.test_admission import TALKS, run
from gnomon.engines.base import Tier
from gnomon.models.decode import Plan
from gnomon.models.delta import CHUNK, Inputs
from gnomon.models.delta_tree import Chunks, Convolution, before
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import Completed, score, text_pass
from gnomon.models.trie import Trie
from gnomon.store import RunReader
from models.kinds import KINDS, WIDE, save, text
from models.small import alone
from training.test_runs import command

HEADS, SIZE, WIDTH, KERNEL = 3, 8, 16, 4
PIECES = ((70, 0), (3, 1), (40, 1), (64, 1), (26, 2), (5, 0), (60, 6), (1, 6), (CHUNK, 0), (33, 9), (CHUNK, 9))
"""Lengths of pieces of texts, each behind an earlier one or, for 0, at the beginning."""
NEXT: PreTrainedConfig = Qwen3NextConfig(
    **WIDE | {"initializer_range": 0.06}, num_key_value_heads=2, head_dim=32, mlp_only_layers=[0, 1, 2],
    layer_types=["linear_attention", "full_attention", "linear_attention"], linear_num_key_heads=2,
    linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=24,
)  # fmt: skip
"""Without experts, whose products torch computes in no finer dtype than float32."""


def tree(pieces: Sequence[tuple[int, int]] = PIECES) -> list[Tensor]:
    """Texts that share beginnings: forks inside of chunks and between two, and a text that another begins with."""
    texts: list[Tensor] = [torch.empty(0, dtype=torch.int64)]
    for seed, (length, behind) in enumerate(pieces):
        texts.append(torch.cat([texts[behind], torch.tensor(text(seed, length))]))
    return texts[1:]


def drawn(tokens: int) -> list[Tensor]:
    """Inputs of the rule with gradients, in float64; some decays leave next to nothing."""
    torch.manual_seed(0)
    query, key = (torch.randn(tokens, HEADS, SIZE, dtype=torch.float64) for _ in range(2))
    value = torch.randn(tokens, HEADS, WIDTH, dtype=torch.float64)
    decay = -torch.rand(tokens, HEADS, dtype=torch.float64) * torch.tensor([0.01, 1.0, 30.0])
    rate = torch.rand(tokens, HEADS, dtype=torch.float64)
    return [each.requires_grad_() for each in (query, key / key.norm(dim=-1, keepdim=True), value, decay, rate)]


def token_by_token(trie: Trie, inputs: Sequence[Tensor]) -> Tensor:
    query, key, value, decay, rate = inputs
    outputs: list[Any] = [None] * len(trie)
    for path, old in trie.branches:
        state = torch.zeros(HEADS, SIZE, WIDTH, dtype=torch.float64)
        for place, at in enumerate(path):
            state = state * decay[at].exp()[:, None, None]
            new = rate[at][:, None] * (value[at] - (state * key[at][..., None]).sum(1))
            state = state + key[at][..., None] * new[:, None]
            if place >= old:
                outputs[at] = (state * query[at][..., None]).sum(1)
    return torch.stack(outputs)


def test_a_tree_of_chunks_is_the_rule_token_by_token() -> None:
    trie = Trie(tree())
    inputs = drawn(len(trie))
    one, other = Chunks(trie.branches, "cpu").run(Inputs(*inputs)), token_by_token(trie, inputs)
    torch.testing.assert_close(one, other, rtol=0, atol=1e-13)
    weight = torch.randn_like(one)
    for mine, theirs in zip(*(torch.autograd.grad((out * weight).sum(), inputs) for out in (one, other)), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [KERNEL, 9], ids=["narrow", "wider than a text"])
def test_a_convolution_reads_the_tokens_before_in_the_same_text(width: int) -> None:
    trie = Trie(tree())
    torch.manual_seed(0)
    inputs, weight = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((len(trie), 5), (5, width))
    )
    out = Convolution.apply(inputs, weight, torch.from_numpy(before(trie.branches, width)))  # type: ignore[no-untyped-call]
    for path, old in trie.branches:
        row = torch.nn.functional.conv1d(inputs[path].T[None], weight[:, None], padding=width - 1, groups=5)
        torch.testing.assert_close(out[path[old:]], row[0].T[old : len(path)], rtol=0, atol=1e-14)
    short = torch.from_numpy(before(Trie(tree(((5, 0), (3, 1), (4, 1)))).branches, width))
    inputs = torch.randn(short.shape[1], 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *each: Convolution.apply(*each, short), (inputs, weight))  # type: ignore[no-untyped-call]


OLMO: PreTrainedConfig = OlmoHybridConfig(
    **WIDE | {"initializer_range": 0.06, "eos_token_id": None}, num_key_value_heads=2,
    layer_types=["linear_attention", "full_attention", "linear_attention"], linear_num_key_heads=4,
    linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=24,
)  # fmt: skip
"""Its rates go up to 2."""


@pytest.fixture(scope="module", params=["qwen3_5", "qwen3_next", "olmo_hybrid"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KINDS, "qwen3_next", NEXT)
        patch.setitem(KINDS, "olmo_hybrid", OLMO)
        return save(request.param, tmp_path_factory.mktemp("model"))


def test_gradients_of_a_tree_equal_transformers_in_float64(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every parameter, in layers of every kind."""
    texts, policy = tree(), Policy.load(folder, Precision.only(torch.float64))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    compute_finely(inspect.getmodule(type(model)), monkeypatch)
    assert policy.packs and {"linear_attention", "full_attention"} == set(policy.model.config.layer_types)
    done = [Completed(each, torch.arange(len(each)) > 0) for each in texts]
    logp = policy(text_pass(policy, done)).logp
    weight = torch.linspace(-1, 1, len(logp), dtype=logp.dtype).sin()
    (logp * weight).sum().backward()
    (torch.cat([alone(model, each) for each in texts]) * weight).sum().backward()
    theirs = {name: value.grad for name, value in model.named_parameters()}
    for name, mine in policy.state().items():
        # Decays, norms and rotary angles are computed in float32 there, and some rates of decay are kept in it.
        bound, like = 1e-5 * float(theirs[name].abs().max()), theirs[name].to(mine.dtype)
        torch.testing.assert_close(mine.grad, like, rtol=0, atol=bound, msg=f"the gradient of {name} differs")


def compute_finely(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let transformers compute the rule, for which it takes float32, in float64."""
    name = "torch_chunk_gated_delta_rule"
    lines = inspect.getsource(inspect.unwrap(getattr(module, name))).split("\n")
    source = "\n".join(line for line in lines if not line.startswith("@"))
    assert "torch.float32" in source
    exec(source.replace("torch.float32", "torch.float64"), names := dict(vars(module)))
    monkeypatch.setattr(module, name, names[name])


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    torch.set_num_threads(1)
    return Policy.load(save("qwen3_5", tmp_path_factory.mktemp("exact")))


@pytest.mark.parametrize("seed", range(2))
def test_rows_that_join_and_leave_have_the_bits_of_the_learner(policy: Policy, seed: int) -> None:
    """Conversations of several turns, scored one by one and as one tree."""
    rng = random.Random(seed)
    found = run(policy, rng.sample(TALKS, len(TALKS)), rng)
    turns = [turn for talk in TALKS for turn in found[talk]]
    assert max(len(request.prompt_ids) for request, _ in turns) > 200
    for request, completion in turns:
        if temperature := request.sampling.temperature:
            learned = score(policy, [request.prompt_ids], [(0, completion.token_ids)], temperature)
            assert torch.equal(torch.tensor(completion.logprobs), learned)
    same = [(r, c) for r, c in turns if r.sampling.temperature == 1.0]
    whole = score(policy, [r.prompt_ids for r, _ in same], [(at, c.token_ids) for at, (_, c) in enumerate(same)])
    assert whole.tolist() == [logp for _, completion in same for logp in completion.logprobs]


@pytest.mark.parametrize("rank", [0, 2])
def test_a_run_that_is_killed_goes_on_to_the_same_bytes(rank: int, tmp_path: Path, monkeypatch: Any) -> None:
    base = save("qwen3_5", tmp_path / "base")
    words = (f"policy={base}", f"policy.lora.rank={rank}", "steps=3", "prompts=2", "group=4", "rollout.max_tokens=6")
    words = (*words, "eval.tasks=2", "optim.lr=1e-2", "regularize.entropy=1.0", "save.every=1")
    assert command("train", "char_count", f"run={tmp_path / 'whole'}", *words).returncode == 0
    monkeypatch.setenv("GNOMON_FAILPOINT", "append:before-commit:2")
    assert command("train", "char_count", f"run={tmp_path / 'halves'}", *words).returncode == -signal.SIGKILL
    monkeypatch.delenv("GNOMON_FAILPOINT")
    assert command("resume", str(tmp_path / "halves")).returncode == 0
    with RunReader(tmp_path / "whole") as whole, RunReader(tmp_path / "halves") as halves:
        assert halves.fingerprint == whole.fingerprint and whole.manifest["tier"] == Tier.EXACT.value


def test_only_a_model_with_gated_delta_layers_ends_chunks(tmp_path: Path) -> None:
    """A pass that ends one is not replayed, which would cost other models a pass in 32 of each row."""
    for policy, ends in ((Policy.load("tiny"), False), (Policy.load(save("qwen3_5", tmp_path)), True)):
        layout = policy.decode()
        first = Plan(prompts=[CHUNK - 2], new=[0], moved=[], group=[0], depth=[0], copied=[], most=1, furthest=64)
        layout.follow(first)
        with torch.no_grad():
            policy.hidden(torch.arange(1, CHUNK), layout)
        layout.follow(replace(first, new=[], depth=[1]))
        assert (layout.shape is None) == ends
        layout.follow(replace(first, new=[], depth=[2]))
        assert layout.shape is not None
