"""Attention of long rows by cuDNN, as an alternative to `Flex`: a third faster, and not the same bits twice."""

from __future__ import annotations

import torch
from torch import Tensor

from gnomon.models.attention import Form
from gnomon.models.flex import Flex
from gnomon.models.trie import Trie

__all__ = ["LONG", "Cudnn"]

LONG = 1024
"""Mean tokens of a row from which on a call for every row is worth it."""
WIDEST = 128
"""Size of an attention head that cuDNN computes, at most and in steps of 8."""


class Cudnn(Flex):
    """As `Flex`, but rows in 16 bits that are long and share no tokens are computed by cuDNN, one after the other.

    cuDNN adds up the gradient of queries in the order in which its blocks end, so that its last bits differ from run to
    run. Layers with a window, bounded scores or sinks, and passes in which rows share tokens, are as in `Flex`.
    """

    def __init__(self, trie: Trie, device: torch.device | str = "cpu") -> None:
        super().__init__(trie, device)
        alone = all(old == 0 for _, old in trie.branches)
        lengths = [len(path) for path, _ in trie.branches]
        self._lengths = lengths if alone and len(trie) >= LONG * len(lengths) else []

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, form: Form) -> Tensor:
        size = query.shape[-1]
        fits = query.is_cuda and query.dtype in (torch.bfloat16, torch.float16) and size <= WIDEST and size % 8 == 0
        fits = fits and value.shape[-1] == size
        _, *special = form
        if not self._lengths or not fits or any(part is not None for part in special):
            return super().attend(layer, query, key, value, form)
        rows = zip(*(torch.split(states, self._lengths) for states in (query, key, value)), strict=True)
        return torch.cat([causal(q, k, v, form.scale) for q, k, v in rows])


def causal(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """[T, heads, size] of one row. torch's own choice would refuse this kernel, since it does not repeat its bits."""
    q, k, v = (states.transpose(0, 1)[None] for states in (query, key, value))
    outputs = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True, False, scale=scale)
    return outputs[0][0].transpose(0, 1)  # type: ignore[no-any-return]
