"""`Flex` and `Packed` are one attention: the same mask, the same log-probabilities, the same gradients.

torch has no backward pass of `flex_attention` on a CPU. There, gradients are those of its uncompiled form, whose
check of the device is taken away; those of the compiled kernel are tested where a CUDA device is (`make gpu`).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.attention import flex_attention as torch_flex

from gnomon.errors import ModelError
from gnomon.models.attention import Form
from gnomon.models.backends import PACKED, has_experts
from gnomon.models.flex import SIDE, Flex, plain
from gnomon.models.packed import Packed
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.scoring import packed_logp, score
from gnomon.models.trie import Trie
from models.kinds import KINDS, WINDOW, save, text
from models.test_families import FAMILIES, model_of

with suppress(ImportError):
    import setuptools  # noqa: F401 -- torch compiles with it, and it does not load after another test loaded distutils.

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
WINDOWS = (None, WINDOW, 1)
CAPS = (None, 2.0)
SINKS = (None, torch.tensor([-2.0, 0.5, 1.0, 6.0]))
PROMPTS = tuple(text(place, length) for place, length in enumerate((1, 5, 150, 33)))
ROWS = [(group, text(9 + place, length)) for place, (group, length) in enumerate(
    [(0, 3), (0, 140), (2, 30), (2, 31), (2, 1), (3, 7), (1, 60), (1, 60)]
)]  # fmt: skip
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def tries() -> list[Trie]:
    """Random ones with shared beginnings at several depths, equal texts, and one that is filled up."""
    found = [Trie([torch.tensor([4, 5])], least=16)]
    for seed in range(4):
        rng = random.Random(seed)
        texts: list[list[int]] = []
        for _ in range(3):
            prompt = [rng.randrange(5) for _ in range(rng.choice((1, 40, 150)))]
            for _ in range(3):
                turn = prompt + [rng.randrange(5) for _ in range(rng.choice((1, 70)))]
                texts += [turn, turn, turn + [rng.randrange(5) for _ in range(rng.choice((2, 90)))]]
        found.append(Trie([torch.tensor(ids) for ids in texts], least=16))
    return found


def related(trie: Trie, window: int | None) -> Tensor:
    """[T, T] whether a query sees a key, from the paths of the texts."""
    found = torch.eye(len(trie), dtype=torch.bool)
    for path, _ in trie.branches:
        place = torch.arange(len(path))
        back = place[:, None] - place
        found[path[:, None], path] |= (back >= 0) & (back < (window or len(path)))
    return found


@pytest.mark.parametrize("window", WINDOWS)
def test_the_mask_is_the_relation_of_the_trie(window: int | None) -> None:
    """Its function names every pair; its list of whole blocks only such as the function names everywhere."""
    for trie in tries():
        mask = Flex(trie).mask(window)
        size = mask.shape[-1]
        assert size % SIDE == 0 and size - len(trie) < SIDE
        place, none = torch.arange(size), torch.tensor(0)
        seen = mask.mask_mod(none, none, place[:, None], place)
        expected = torch.eye(size, dtype=torch.bool)
        expected[: len(trie), : len(trie)] = related(trie, window)
        assert torch.equal(seen, expected)
        by_block = seen.unflatten(0, (-1, SIDE)).unflatten(2, (-1, SIDE)).transpose(1, 2)
        some, every = (blocks(mask, full) for full in (False, True))
        assert not (some & every).any()
        assert torch.equal(every | some, every | some | by_block.any(-1).any(-1))
        assert torch.equal(every, every & by_block.all(-1).all(-1))
        if window is None:  # With a window, blocks are judged by their extremes, which may keep one too many.
            assert torch.equal(every | some, by_block.any(-1).any(-1))


def blocks(mask: torch_flex.BlockMask, full: bool) -> Tensor:
    """[Q, K] the blocks of one of its two lists."""
    counts, chosen = (mask.full_kv_num_blocks, mask.full_kv_indices) if full else (mask.kv_num_blocks, mask.kv_indices)
    assert counts is not None and chosen is not None
    found = torch.zeros(chosen.shape[2:], dtype=torch.bool)
    for row, (count, places) in enumerate(zip(counts[0, 0], chosen[0, 0], strict=True)):
        found[row, places[: int(count)].long()] = True
    return found


def states(tokens: int, dtype: torch.dtype, *, grad: bool = False, device: str = "cpu") -> list[Tensor]:
    """Queries of four heads, keys and values of two."""
    drawn = torch.Generator().manual_seed(tokens)
    made = [torch.randn(tokens, heads, 16, generator=drawn, dtype=torch.float64) for heads in (4, 2, 2)]
    return [values.to(device, dtype).requires_grad_(grad) for values in made]


BOUNDS = {torch.float64: 1e-14, torch.float32: 2e-6, torch.float16: 8e-3, torch.bfloat16: 6e-2}
"""Of values of size 1 to 4: some units in the last place, since both sum in another order."""


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("sinks", SINKS)
@pytest.mark.parametrize("dtype", BOUNDS)
def test_both_compute_the_same(dtype: torch.dtype, sinks: Tensor | None, window: int | None, cap: float | None) -> None:
    for trie in tries():
        q, k, v = states(len(trie), dtype)
        one, other = (kind(trie).attend(0, q, k, v, Form(0.3, window, cap, sinks)) for kind in (Packed, Flex))
        torch.testing.assert_close(one, other, rtol=0, atol=BOUNDS[dtype])


def gradients(
    kind: Callable[[Trie], Packed | Flex],
    trie: Trie,
    window: int | None,
    cap: float | None,
    sinks: Tensor | None = None,
) -> list[Tensor]:
    inputs = states(len(trie), torch.float64, grad=True)
    if sinks is not None:
        sinks = sinks.double().requires_grad_()
    out = kind(trie).attend(0, *inputs, Form(0.3, window, cap, sinks))
    inputs += [] if sinks is None else [sinks]
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out).sin()
    return list(torch.autograd.grad((out * weight).sum(), inputs))


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("sinks", SINKS)
def test_both_have_the_same_gradient(
    sinks: Tensor | None, window: int | None, cap: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of mask, cap and sinks, by autograd through torch's plain form, against the products written out in `Packed`."""
    monkeypatch.setattr(torch_flex, "_validate_device", lambda *states: None)
    monkeypatch.setattr("gnomon.models.flex.refuse", lambda *states: None)
    for trie in tries():
        for one, other in zip(*(gradients(kind, trie, window, cap, sinks) for kind in (Packed, Flex)), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


MODELS = {**{f"{name}, small": each for name, each in FAMILIES.items() if each.model_type in PACKED}, **KINDS}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_every_family_has_the_same_log_probabilities(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Some roundings of the dtype apart, which random weights enlarge; few tokens take another expert for them."""
    if dtype == torch.float16 and MODELS[name].model_type.startswith("gemma"):
        pytest.skip("refused in float16 (E326)")
    folder = save(name, tmp_path) if name in KINDS else model_of(MODELS[name], tmp_path)
    one, other = (
        score(Policy.load(folder, Precision.only(dtype), whole=whole), PROMPTS, ROWS) for whole in (Packed, Flex)
    )
    assert len(one) == sum(len(row) for _, row in ROWS)
    bound = {torch.float32: 1e-4, torch.bfloat16: 0.6, torch.float16: 0.06}[dtype]
    assert not torch.equal(one, other)  # Else `whole` changed nothing.
    apart, experts = (one - other).abs(), has_experts(MODELS[name].to_dict())
    assert apart.quantile(0.95 if experts else 1.0) < bound and apart.mean() < bound / 10


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("g++"), reason="torch compiles for a CPU with g++")
@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("window", [None, WINDOW])
@torch.no_grad()
def test_the_compiled_kernel_reads_the_lists_of_blocks(
    window: int | None, cap: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The uncompiled form reads the mask's function alone.

    Compiled for one length: torch 2.13 writes C++ with an undeclared name when it compiles this for every length.
    """
    trie = tries()[-1]
    assert len(trie) > 4 * SIDE
    monkeypatch.setattr("gnomon.models.flex.plain", torch.compile(plain, dynamic=False, fullgraph=True))
    q, k, v = states(len(trie), torch.float32)
    one, other = (kind(trie).attend(0, q, k, v, Form(0.3, window, cap)) for kind in (Packed, Flex))
    torch.testing.assert_close(one, other, rtol=0, atol=BOUNDS[torch.float32])


def test_a_gradient_on_a_cpu_is_refused(tmp_path: Path) -> None:
    policy = Policy.load(save("llama", tmp_path), whole=Flex)
    with pytest.raises(ModelError, match=r"E329(.|\n)*cpu(.|\n)*whole=Packed"):
        packed_logp(policy, PROMPTS, ROWS)


@needs_cuda
@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_gradient_on_a_gpu(dtype: torch.dtype, window: int | None, cap: float | None) -> None:
    """Of the compiled kernel, against float64 on the CPU: as near as that of `Packed` on the GPU, up to a factor."""
    for trie in tries():
        exact = gradients(Packed, trie, window, cap)
        found = []
        for kind in (Packed, Flex):
            inputs = states(len(trie), dtype, grad=True, device="cuda")
            out = kind(trie, "cuda").attend(0, *inputs, Form(0.3, window, cap))
            weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out).sin().to("cuda", dtype)
            found.append([x.cpu().double() for x in torch.autograd.grad((out * weight).sum(), inputs)])
        # With a window of one token, queries and keys have no gradient, so the error is compared with that of all.
        least = 1e-5 * sum(x.norm() for x in exact)
        for right, one, other in zip(exact, *found, strict=True):
            assert (other - right).norm() <= 4 * (one - right).norm() + least


@needs_cuda
@pytest.mark.parametrize("name", KINDS)
def test_a_policy_on_a_gpu_has_the_same_gradient(name: str, tmp_path: Path) -> None:
    """Of all weights, in float32."""
    folder, found = save(name, tmp_path), []
    for whole in (Packed, Flex):
        policy = Policy.load(folder, device="cuda", whole=whole)
        logp, _ = packed_logp(policy, PROMPTS, ROWS)
        logp.sum().backward()  # type: ignore[no-untyped-call]
        found.append(torch.cat([x.grad.flatten() for x in policy.state().values() if x.grad is not None]))
    assert (found[0] - found[1]).norm() < 1e-3 * found[0].norm()


@needs_cuda
def test_memory_grows_with_tokens_on_a_gpu() -> None:
    """Four times the tokens of one row take at most five times the memory."""
    peaks = []
    for tokens in (4096, 16384):
        trie = Trie([torch.arange(tokens)])
        inputs = states(tokens, torch.bfloat16, grad=True, device="cuda")
        layout = Flex(trie, "cuda")
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        layout.attend(0, *inputs, Form(0.3)).float().sum().backward()  # type: ignore[no-untyped-call]
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] <= 5 * peaks[0]
