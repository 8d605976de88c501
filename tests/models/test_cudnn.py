"""cuDNN's attention beside flex attention: which passes it computes, and the same values and gradients."""

from __future__ import annotations

import pytest
import torch

from gnomon.models.attention import Form
from gnomon.models.cudnn import LONG, Cudnn
from gnomon.models.flex import Flex
from gnomon.models.trie import Trie


def texts(*lengths: int, shared: bool = False) -> list[torch.Tensor]:
    return [torch.arange(length) + (0 if shared else 10_000 * number) for number, length in enumerate(lengths)]


def test_only_long_rows_that_share_nothing_are_computed_one_by_one() -> None:
    assert Cudnn(Trie(texts(LONG)))._lengths == [LONG]
    assert Cudnn(Trie(texts(2 * LONG, 300)))._lengths == [2 * LONG, 300]
    assert not Cudnn(Trie(texts(LONG, LONG - 1)))._lengths, "short rows"
    longer = torch.cat([torch.arange(LONG), torch.tensor([7])])
    other = torch.cat([torch.arange(LONG), torch.arange(LONG)])
    assert not Cudnn(Trie([longer, other]))._lengths, "a shared prompt"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("lengths", [(1500,), (2300, 1111)])
def test_values_and_gradients_are_those_of_flex(lengths: tuple[int, ...]) -> None:
    trie = Trie(texts(*lengths))
    found = []
    for kind in (Flex, Cudnn):
        random = torch.Generator().manual_seed(0)
        states = [torch.randn(len(trie), heads, 64, generator=random).bfloat16().cuda() for heads in (4, 2, 2)]
        inputs = [each.requires_grad_() for each in states]
        out = kind(trie, "cuda").attend(0, *inputs, Form(0.125))
        out.backward(torch.randn(out.shape, generator=random).bfloat16().cuda())
        found.append([out.detach(), *(each.grad for each in inputs)])
    for one, other in zip(*found, strict=True):
        assert one is not None and other is not None
        assert float((one.float() - other.float()).norm() / one.float().norm()) < 2**-6
