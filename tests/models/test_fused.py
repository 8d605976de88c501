"""What a CUDA device computes in one kernel: the same values and gradients as the operations that it replaces."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from gnomon.models.fused import LowRank, plain, split
from gnomon.models.projection import read, slopes

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_norms_are_told_apart_by_what_they_compute() -> None:
    assert plain(LlamaRMSNorm(8)) and plain(Qwen3RMSNorm(8))
    assert not plain(Gemma3RMSNorm(8)), "it adds 1 to the weight"
    assert not plain(torch.nn.Linear(8, 8))


def test_the_parts_of_a_number_add_up_to_it() -> None:
    """A number in bfloat16 has 8 binary digits: two of them leave at most 2⁻¹⁶ of the number."""
    x = normal(1000).float()
    rest = x.double() - sum(part.double() for part in split(x))
    assert float((rest.abs() / x.abs()).max()) <= 2.0**-16


@pytest.mark.parametrize("device", DEVICES)
def test_an_adapter_beside_a_layer_has_the_gradient_of_float64(device: str) -> None:
    """All four gradients. What is returned in float32 is off by the parts that are left out, 2⁻¹⁶ of a number; what is
    returned in bfloat16 by its rounding, 2⁻⁹ of the value."""
    x, base, slope = (normal(7, 5, n, seed=n).bfloat16().to(device) for n in (24, 40, 41))
    slope = slope[..., :40].contiguous()
    down, up = (normal(*shape, seed=sum(shape)).float().to(device) for shape in ((4, 24), (40, 4)))
    inputs = [each.detach().requires_grad_() for each in (x, base, down, up)]
    found = LowRank.apply(*inputs, 2.0)  # type: ignore[no-untyped-call]
    found.backward(slope)
    wide = [each.detach().double().requires_grad_() for each in (x, base, down, up)]
    known = wide[1] + 2.0 * (wide[0] @ wide[2].t()) @ wide[3].t()
    known.backward(slope.double())
    assert found.dtype == torch.bfloat16 and error(found, known) < 2**-8
    for own, true, most in zip(inputs, wide, (2**-8, 0.0, 2**-15, 2**-15), strict=True):
        assert own.grad is not None and own.grad.dtype == own.dtype and error(own.grad, true.grad) <= most


def error(found: Tensor, known: Any) -> float:
    return float((found.detach().double() - known.detach()).norm() / known.detach().norm())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cap", [None, 5.0])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_slope_of_scores_is_that_of_autograd(temperature: float, cap: float | None, device: str) -> None:
    product = normal(6, 50).mul(3).to(device).requires_grad_()
    target = torch.tensor([0, 3, 49, 7, 7, 20], device=device)
    by_logp, by_entropy = (normal(6, seed=seed).to(device) for seed in (1, 2))
    for weights in ((by_logp, None), (by_logp, by_entropy)):
        logp, entropy = read(product, target, cap, torch.float32, temperature)
        gain = (weights[0] * logp).sum() + (0 if weights[1] is None else (weights[1] * entropy).sum())
        (known,) = torch.autograd.grad(gain, product)
        found = slopes(product.detach(), target, *weights, cap, torch.float32, temperature)
        torch.testing.assert_close(found, known, rtol=1e-9, atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_draws_and_tables_of_a_device_are_those_of_its_other_operations() -> None:
    from gnomon.engines import philox_kernel
    from gnomon.engines.noise import Noise, gumbel, places
    from gnomon.models.write_kernel import write

    logp = torch.log_softmax(normal(9, 5000).float().cuda(), -1)
    for _ in range(3):
        keys, starts = places([Noise(bytes([row]) * 16, 5000) for row in range(9)], logp.device)
        known = (gumbel(philox_kernel.uniform(keys, starts, 5000)) + logp).argmax(-1)
        assert torch.equal(philox_kernel.sample_tokens(keys, starts, logp), known)
    keys, values = (normal(3, 2, 48, seed=seed).bfloat16().cuda() for seed in (1, 2))
    tables = [torch.zeros(5, 2, 7, 48, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
    place = torch.tensor([6, 0, 3], device="cuda")
    write(tables[0], tables[1], place, keys.transpose(0, 1).contiguous().transpose(0, 1), values)
    for table, states in zip(tables, (keys, values), strict=True):
        assert torch.equal(table[torch.arange(3), :, place], states) and int((table != 0).sum()) == int(
            (states != 0).sum()
        )
