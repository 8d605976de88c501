"""Passes by transformers' own forward: the gradient of packed passes, and completions by their key alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, MambaConfig, OpenAIGPTConfig, PreTrainedConfig, Qwen3_5TextConfig

import gnomon
from gnomon.engines import sample_all
from gnomon.engines.base import Tier
from gnomon.engines.embedded import Embedded
from gnomon.errors import ModelError
from gnomon.keys import Key
from gnomon.learners.batch import pieces
from gnomon.models.cached import Caching, caching_of
from gnomon.models.packed import Packed
from gnomon.models.padded import Padded
from gnomon.models.policy import Policy, Whole
from gnomon.models.precision import Precision
from gnomon.models.scoring import packed_logp, score
from gnomon.types import Completion, Request, Sampling
from learners.sequences import made
from models.characters import tokenizer
from models.kinds import save, text
from models.small import small
from models.test_families import RUN, SIZES, model_of

PROMPTS = [text(1, 5), text(2, 30)]
ROWS = [(0, text(3, 9)), (1, text(4, 40)), (0, text(3, 9)[:4] + text(5, 20)), (1, text(6, 1))]
CACHES: dict[Caching, PreTrainedConfig] = {
    Caching.PADDED: Qwen3_5TextConfig(
        **SIZES,
        head_dim=8,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    ),
    Caching.EQUAL: MambaConfig(**{**SIZES, "state_size": 8}),
    Caching.NONE: OpenAIGPTConfig(vocab_size=102, n_embd=32, n_layer=2, n_head=4, n_positions=512),
}


def gradient(folder: Path, whole: Whole) -> dict[str, torch.Tensor]:
    policy = Policy.load(folder, Precision.only(torch.float64), whole=whole)
    logp, entropy = packed_logp(policy, PROMPTS, ROWS, temperature=0.8)
    (logp.sum() + 0.1 * entropy.sum()).backward()  # type: ignore[no-untyped-call]
    return {name: value.grad for name, value in policy.state().items() if value.grad is not None}


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma3"])
def test_padded_and_packed_passes_have_one_gradient(kind: str, tmp_path: Path) -> None:
    folder = save(kind, tmp_path)
    packed, padded = (gradient(folder, whole) for whole in (Packed, Padded))
    assert packed.keys() == padded.keys()
    for name, value in packed.items():
        # Norms and softmax compute in float32 in any model.
        assert float((padded[name] - value).norm()) <= 2e-6 * float(value.norm()) + 1e-9, name


def requests(count: int) -> list[Request]:
    return [
        Request(
            prompt_ids=text(20 + row % 3, 4 + 7 * (row % 3)),
            key=Key(0).at("test", row=row).bytes,
            sampling=Sampling(max_tokens=5 + 6 * (row % 4), entropy=True),
        )
        for row in range(count)
    ]


def completions(engine: Embedded, some: list[Request]) -> list[Completion]:
    return asyncio.run(sample_all(engine, some))


def test_a_model_with_state_spaces_between_its_attentions_is_not_packed(tmp_path: Path) -> None:
    small("bamba").save_pretrained(tmp_path)
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    policy = Policy.load(tmp_path)
    assert not policy.packs and caching_of(policy) is Caching.PADDED


@pytest.mark.parametrize("caching", Caching)
def test_a_model_decodes_by_the_cache_that_it_has(caching: Caching, tmp_path: Path) -> None:
    """Rows of several lengths that end at different times: each is what it is alone, and what a whole pass scores."""
    policy = Policy.load(model_of(CACHES[caching], tmp_path), whole=Padded)
    assert not policy.packs and caching_of(policy) is caching
    engine, asked = Embedded(policy), requests(9)
    found = completions(engine, asked)
    for request, completion in zip(asked, found, strict=True):
        (alone,) = completions(engine, [request])
        assert alone.token_ids == completion.token_ids
        wanted = score(policy, [request.prompt_ids], [(0, completion.token_ids)])
        assert float((wanted - torch.tensor(completion.logprobs)).abs().max()) < 1e-5
        assert all(value > 0 for value in completion.entropies)
    assert bool(engine.grouping) == (caching is not Caching.PADDED)


def test_both_forward_passes_draw_the_same_tokens(tmp_path: Path) -> None:
    folder, asked = save("llama", tmp_path), requests(12)
    packed, padded = (completions(Embedded(Policy.load(folder, whole=whole)), asked) for whole in (Packed, Padded))
    assert [each.token_ids for each in packed] == [each.token_ids for each in padded]
    assert [each.text for each in packed] == [each.text for each in padded]


@pytest.mark.parametrize("name", ["gemma3", "git"])
def test_what_text_does_not_pass_through_is_frozen_and_saved(name: str, tmp_path: Path) -> None:
    model = small(name)
    model.save_pretrained(tmp_path / "in")
    tokenizer().save(str(tmp_path / "in" / "tokenizer.json"))
    policy = Policy.load(tmp_path / "in")
    before = {name: value.clone() for name, value in policy.model.named_parameters()}
    frozen = before.keys() - policy.state().keys()
    assert policy.packs == (name == "gemma3")
    assert any("vision" in each or "image" in each for each in frozen) and not any(
        "language" in each for each in frozen
    )
    policy.save(tmp_path / "out")
    policy.restore(tmp_path / "out")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert type(again) is type(policy.model)
    for each, value in again.named_parameters():
        assert torch.equal(value, before[each]), each


def test_a_model_that_is_not_causal_is_refused(tmp_path: Path) -> None:
    model = small("bert")
    model.config.is_decoder = False
    model.save_pretrained(tmp_path)
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelError, match=r"E308(.|\n)*reads what follows"):
        Policy.load(tmp_path)


def test_every_place_of_a_padded_row_counts() -> None:
    """Rows that share a prompt of 40 tokens: packed, the prompt is counted once."""
    prompt = text(7, 40)
    rows = [made(prompt, text(row, 10 + row), rollout=row, group=0) for row in range(6)]
    assert [len(piece) for piece in pieces(rows, 60)] == [6]
    for piece in pieces(rows, 60, shares=False):
        assert len(piece) * max(len(rows[place].inputs) for place in piece) <= 2 * 60
    assert sorted(place for piece in pieces(rows, 60, shares=False) for place in piece) == list(range(6))


def test_a_run_by_transformers_own_forward_says_so_and_goes_on(capsys: Any, tmp_path: Path) -> None:
    settings = {
        **RUN,
        "policy": {"attention": "transformers", "activation_checkpointing": True},
        "quiet": False,
        "threads": 2,
    }
    with gnomon.train("char_count", run=tmp_path / "run", objective="ppo", **settings) as run:
        assert run.manifest["tier"] == Tier.MEASURED.value
    assert "forward pass and the cache of transformers" in capsys.readouterr().out
    with gnomon.resume(tmp_path / "run", steps=2, quiet=True) as run:
        assert run.status == "finished" and len(run.metrics()) == 2
        assert all(step["metrics"]["logp_mismatch"] < 1e-5 for step in run.metrics())
