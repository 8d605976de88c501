"""What a training pass keeps: weights of attention, activation checkpoints, and gradients of a large vocabulary."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from transformers import AutoModelForCausalLM, LlamaConfig

from gnomon.config import overrides, resolve
from gnomon.errors import ModelError
from gnomon.keys import Key
from gnomon.models import policy as policies
from gnomon.models import projection
from gnomon.models.adapter import Adapter
from gnomon.models.attention import NAME, Form
from gnomon.models.folder import TINY
from gnomon.models.packed import Packed
from gnomon.models.policy import Policy
from gnomon.models.projection import Projection, full_kl, token_logp
from gnomon.models.scoring import Row, pack_rows
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.trie import Trie
from gnomon.run.makers import make_learner, make_objective
from models.kinds import text
from models.test_flex import states

ROWS = [(0, text(seed, 150)) for seed in range(4)]


class Held(TorchDispatchMode):
    """Bytes of the tensors that operations made and that are still held."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen: set[int] = set()
        self._given: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [value for value in tree_leaves((args, kwargs or {})) if isinstance(value, Tensor)]
        self._given = {id(value.untyped_storage()) for value in given}  # A view of them is not made anew.
        return tree_map_only(Tensor, self._count, func(*args, **(kwargs or {})))

    def _count(self, made: Tensor) -> Tensor:
        storage = made.untyped_storage()
        if id(storage) not in self._seen | self._given:
            self._seen.add(id(storage))
            self._add(storage.nbytes())
            weakref.finalize(storage, self._drop, id(storage), storage.nbytes())
        return made

    def _add(self, size: int) -> None:
        self.now += size
        self.peak = max(self.peak, self.now)

    def _drop(self, name: int, size: int) -> None:
        self._seen.discard(name)
        self.now -= size


def llama(adapter: Adapter | None, vocabulary: int = 102, dtype: torch.dtype = torch.float32) -> Policy:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=64, intermediate_size=192, num_hidden_layers=8, num_attention_heads=4,
        num_key_value_heads=2, attn_implementation=NAME,
    )  # fmt: skip
    return Policy(AutoModelForCausalLM.from_config(config, dtype=dtype).eval(), Tokenizer(TINY), adapter=adapter)


def passed(policy: Policy, rows: Sequence[Row] = ROWS) -> tuple[int, int, dict[str, Tensor]]:
    """Bytes held between forward and backward, most bytes held, and the gradient."""
    work = pack_rows(policy, [(5, 6, 7)], rows)
    with Held() as held:
        found = policy(work, 0.9)
        between = held.now
        (found.logp.sum() + 0.1 * found.entropy.sum()).backward()
    return between, held.peak, {name: value.grad for name, value in policy.state().items()}


def attended(trie: Trie, window: int | None = None) -> tuple[int, int]:
    """Bytes that attention holds between forward and backward, and most bytes held."""
    layout, inputs = Packed(trie), states(len(trie), torch.float32, grad=True)
    layout.attend(0, *inputs, Form(0.3, window))  # Makes what the layout keeps for all layers.
    with Held() as held:
        out = layout.attend(0, *inputs, Form(0.3, window))
        between = held.now
        torch.autograd.grad(out.sum(), inputs)
    return between, held.peak


@pytest.mark.parametrize("window", [None, 100])
def test_attention_of_a_long_row_keeps_what_grows_with_its_tokens(window: int | None) -> None:
    """Four times the tokens of one row take at most four times the memory, and a tenth more for what is rounded up."""
    (one, peak), (four, more) = (attended(Trie([torch.arange(tokens)]), window) for tokens in (640, 2560))
    assert four < 4.4 * one and more < 4.4 * peak
    weights = 4 * 4 * 2560 * 2560  # Bytes of [heads, T, T].
    assert more < weights / 4


def test_one_long_row_takes_no_more_than_rows_of_equal_lengths() -> None:
    """2,048 tokens, of the whole model: half of them in one row, and rows times the longest is 33 times as much."""
    equal = [(0, text(seed, 256)) for seed in range(8)]
    unequal = [(0, text(0, 1024))] + [(0, text(1 + seed, 32)) for seed in range(32)]
    one, other = (passed(llama(None), rows) for rows in (equal, unequal))
    assert other[0] < 1.1 * one[0] and other[1] < 1.1 * one[1]


@pytest.mark.parametrize("adapter", [None, Adapter(rank=2, key=Key(0), blank=False)], ids=["full", "adapter"])
def test_checkpointed_activations_are_not_kept_and_change_no_bit(adapter: Adapter | None) -> None:
    """Of eight layers one is held at a time, beside what enters each."""
    plain, again = llama(adapter), llama(adapter)
    again.checkpoint_activations()
    assert not again.model.training  # Transformers' own checkpointing does nothing here, and dropout is off.
    between, peak, gradient = passed(plain)
    less_between, less_peak, same = passed(again)
    assert less_between < between / 8 and less_peak < peak / 3
    assert gradient.keys() == same.keys() and all(torch.equal(value, same[name]) for name, value in gradient.items())
    with torch.inference_mode():
        work = pack_rows(plain, [(5, 6, 7)], ROWS)
        assert torch.equal(plain(work).logp, again(work).logp)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("adapter", [None, Adapter(rank=2, key=Key(0), blank=False)], ids=["full", "adapter"])
def test_conversions_of_long_passes_are_computed_again_and_change_no_bit(
    adapter: Adapter | None, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bfloat16 norms and adapters keep inputs in float32 too. In float32, a frozen norm keeps its input alone."""
    plain, short, long = (llama(adapter, dtype=dtype) for _ in range(3))
    short.recompute_conversions()
    long.recompute_conversions()
    between, peak, gradient = passed(plain)
    assert passed(short)[:2] == (between, peak)
    monkeypatch.setattr(policies, "LONG", 500)
    less_between, less_peak, same = passed(long)
    most = {torch.float32: 1.01, torch.bfloat16: 0.62}[dtype] if adapter else 0.92
    assert less_between < most * between and less_peak < 1.01 * peak
    assert gradient.keys() == same.keys() and all(torch.equal(value, same[name]) for name, value in gradient.items())


def test_the_setting_makes_the_learner_checkpoint_and_its_reference_not() -> None:
    config, _ = resolve([overrides(["env=char_count", "policy.activation_checkpointing=true", "regularize.kl=0.1"])])
    learner = make_learner(config, make_objective(config))
    layers = learner.policy.model.base_model.layers
    assert all("forward" in vars(layer) for layer in layers) and len(layers) == 4
    assert learner.reference
    assert not any("forward" in vars(layer) for layer in learner.reference.model.base_model.layers)


def test_a_model_without_layers_to_checkpoint_is_refused() -> None:
    policy = llama(None)
    policy.model.base_model.layers = torch.nn.ModuleList()
    with pytest.raises(ModelError, match=r"E325.*recomputed"):
        policy.checkpoint_activations()


SIZE, VOCABULARY, TOKENS = 256, 10_000, 64


def projected(dtype: torch.dtype, *, frozen: bool) -> tuple[Tensor, Tensor, Projection, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    hidden, anchor = (torch.randn(TOKENS, SIZE, generator=generator).to(dtype) for _ in range(2))
    weight = (0.3 * torch.randn(VOCABULARY, SIZE, generator=generator)).to(dtype).requires_grad_(not frozen)
    target = torch.randint(0, VOCABULARY, (TOKENS,), generator=generator)
    return hidden.requires_grad_(), anchor, Projection(weight, None, torch.float32), target, weight


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_a_frozen_projection_has_no_gradient_and_one_buffer_sums_that_of_another(
    frozen: bool, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of eight tokens: nothing of the size of the weights is made but their gradient, once."""
    monkeypatch.setattr(projection, "CHUNK", 8 * VOCABULARY * (2 if full else 1))
    monkeypatch.setattr(projection, "FEW", 1)
    hidden, anchor, scores, target, weight = projected(torch.float32, frozen=frozen)

    def loss() -> Tensor:
        if full:
            return full_kl(hidden, scores, anchor, scores, 0.9).sum()
        logp, entropy = token_logp(hidden, scores, target, 0.9)
        return logp.sum() + 0.1 * entropy.sum()

    of_chunk, of_weight = 4 * 8 * VOCABULARY, 4 * SIZE * VOCABULARY  # Bytes.
    with Held() as held:
        loss().backward()
    assert held.peak < 12 * of_chunk + (0 if frozen else 1.2 * of_weight)
    assert (weight.grad is None) == frozen and hidden.grad is not None


def test_the_gradient_of_a_coarse_projection_is_summed_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bfloat16 by chunks of one token it is as near to float64 as in one chunk: rounded sums would drift."""
    errors = []
    monkeypatch.setattr(projection, "FEW", 1)
    for chunk in (VOCABULARY, TOKENS * VOCABULARY):
        monkeypatch.setattr(projection, "CHUNK", chunk)
        hidden, _, scores, target, weight = projected(torch.bfloat16, frozen=False)
        token_logp(hidden, scores, target, 1.0)[0].sum().backward()
        exact = weight.detach().double().requires_grad_()
        logp = torch.log_softmax(hidden.detach().double() @ exact.t(), -1).gather(1, target[:, None]).sum()
        (truth,) = torch.autograd.grad(logp, exact)
        assert weight.grad is not None
        errors.append(float((weight.grad.double() - truth).norm() / truth.norm()))
    assert errors[1] < 0.01 and errors[0] < 1.1 * errors[1]


@pytest.mark.parametrize(("vocabulary", "tokens", "sizes"), [(262_144, 200, (50,) * 4), (101, 90_000, (30_000,) * 3)])
def test_a_chunk_has_many_tokens_or_few_of_a_large_vocabulary(
    vocabulary: int, tokens: int, sizes: tuple[int, ...]
) -> None:
    scores = Projection(torch.empty(vocabulary, 1), None, torch.float32)
    found = [len(piece) for (piece,) in projection.chunks(scores, torch.empty(tokens))]
    assert tuple(found) == sizes
