"""Attention of a whole pass by torch's `flex_attention`, as an alternative to `Packed` on a CUDA device.

Scores are computed block by block and never stored: memory grows with the tokens of a pass, not with their square.
Source: Dong et al. 2024, arXiv 2412.05496.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention
from torch.nn.functional import pad

from gnomon.errors import ModelError
from gnomon.models.attention import Flat, Form
from gnomon.models.backends import SMALLEST
from gnomon.models.delta_tree import OverTrie
from gnomon.models.kernels import VARIANTS
from gnomon.models.trie import Places, Trie

__all__ = ["SIDE", "Flex"]

SIDE = 128
"""Queries and keys of one block of the mask; a pass is padded to whole blocks."""
EXACT_PRODUCTS: Any = {"FLOAT32_PRECISION": "'ieee'"}
"""Products of float32 are computed in float32; by default the kernel may round their factors to TensorFloat-32. The
kernel reads this option, but the declared type of its options lacks it."""
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Flex(OverTrie, Flat):
    """Attention over the tokens of a trie, with a block mask of the keys that each query sees.

    The tokens of a trie are in depth-first order, so the descendants of a token follow it directly. A query sees a key
    if the query is the key or follows it, and comes before the first token that does not descend from the key. Tokens
    that pad the last block see themselves.
    """

    def __init__(self, trie: Trie, device: torch.device | str = "cpu") -> None:
        self.branches, self.positions = trie.branches, trie.positions.to(device)
        size = -(-len(trie) // SIDE) * SIDE
        self._end = np.arange(1, size + 1)
        self._end[: len(trie)] = ends(trie)
        self._place = np.zeros(size, dtype=np.int64)
        self._place[: len(trie)] = trie.positions.numpy()
        self._masks: dict[int | None, BlockMask] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, form: Form) -> Tensor:
        refuse(query, key, value)
        tokens, missing = len(query), len(self._end) - len(query)
        q, k, v = (
            (pad(x, (0, 0, 0, 0, 0, missing)) if missing else x).transpose(0, 1)[None] for x in (query, key, value)
        )
        kernel = compile_flex() if query.is_cuda else plain
        score_mod = None if form.cap is None else capping(form.cap, q.device)
        return kernel(q, k, v, score_mod, self.mask(form.window), form.scale, form.sinks)[0].transpose(0, 1)[:tokens]

    def mask(self, window: int | None) -> BlockMask:
        """The block mask of a layer. Args: window: number of positions that a query sees, its own included."""
        if window not in self._masks:
            self._masks[window] = self._mask(window)
        return self._masks[window]

    def _mask(self, window: int | None) -> BlockMask:
        """The mask, from the extreme values of each block. No array has an element for every pair of tokens."""
        device = self.positions.device
        first = np.arange(0, len(self._end), SIDE)
        end, position = self._end.reshape(-1, SIDE), self._place.reshape(-1, SIDE)
        behind = first[:, None] > first
        some = (behind & (end.max(1) > first[:, None])) | (first[:, None] == first)
        every = behind & (end.min(1) >= first[:, None] + SIDE)
        if window is not None:
            some &= position.min(1)[:, None] - position.max(1) < window
            every &= position.max(1)[:, None] - position.min(1) < window
        count, which = block_table(some & ~every, device)
        full_count, full_which = block_table(every, device)
        return BlockMask.from_kv_blocks(
            count,
            which,
            full_count,
            full_which,
            BLOCK_SIZE=SIDE,
            mask_mod=seeing(self._end, self._place, window, device),
            seq_lengths=(len(self._end), len(self._end)),
        )


def refuse(*states: Tensor) -> None:
    """Raises: ModelError E329 for heads that are too small for the kernel of CUDA devices, and for a gradient on
    another device: torch computes neither."""
    size = min(x.shape[-1] for x in states)
    if states[0].is_cuda and size < SMALLEST:
        raise ModelError(
            "E329",
            f"flex_attention cannot compute attention heads of size {size}",
            where="policy.attention=flex",
            why=f"its kernel for CUDA devices needs heads of size {SMALLEST} or more",
            fix="policy.attention=exact, which works with every size",
        )
    if torch.is_grad_enabled() and any(x.requires_grad and not x.is_cuda for x in states):
        raise ModelError(
            "E329",
            "flex_attention has no gradient on this device",
            where=str(states[0].device),
            why="torch implements the backward pass of flex_attention for CUDA devices only",
            fix="policy.attention=exact, which works on every device; of Policy.load: device='cuda', or whole=Packed",
        )


def ends(trie: Trie) -> Places:
    """[T] for every token, the first later place whose token does not descend from it."""
    end = np.full(len(trie), len(trie))
    start, last = 0, np.empty(0, dtype=np.int64)
    for path, old in trie.branches:
        end[last[old:]] = start
        start, last = start + len(path) - old, path
    return end


def seeing(end: Places, position: Places, window: int | None, device: torch.device) -> MaskMod:
    """Whether a query sees a key. The function reads tensors, because torch would compile it again for every number."""
    until, at = (torch.from_numpy(values.astype(np.int32)).to(device) for values in (end, position))

    def ancestor(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query < until[key])

    if window is None:
        return ancestor
    reach = torch.tensor(window, dtype=torch.int32, device=device)

    def near(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return ancestor(row, head, query, key) & (at[query] - at[key] < reach)

    return near


@cache
def capping(cap: float, device: torch.device) -> ScoreMod:
    """The bound of `attention.soft_cap`, as a function of one score."""
    most = torch.tensor(cap, dtype=torch.float32, device=device)

    def bound(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return torch.tanh(score / most) * most

    return bound


def block_table(blocks: Places, device: torch.device) -> tuple[Tensor, Tensor]:
    """[1, 1, Q] how many blocks of keys a block of queries sees, and [1, 1, Q, K] their numbers, before the others."""
    arrays = (blocks.sum(1), np.argsort(~blocks, axis=1, kind="stable"))
    count, which = (torch.from_numpy(values.astype(np.int32)).to(device)[None, None] for values in arrays)
    return count, which


def plain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None,
    mask: BlockMask,
    scale: float,
    sinks: Tensor | None = None,
) -> Tensor:
    """[1, heads, T, size]. Without compilation, all scores are stored."""
    options: Any = {
        "scale": scale,
        "enable_gqa": query.shape[1] != key.shape[1],
        "kernel_options": EXACT_PRODUCTS if query.is_cuda else None,
    }
    out: Tensor
    if sinks is None:
        out = flex_attention(query, key, value, score_mod, mask, **options)
        return out
    out, aux = flex_attention(query, key, value, score_mod, mask, **options, return_aux=AuxRequest(lse=True))
    return out * torch.sigmoid(aux.lse - sinks[:, None])[..., None].to(out.dtype)


@cache
def compile_flex() -> Callable[..., Tensor]:
    """`plain`, compiled for passes of every length. Fails where torch has no kernel, rather than store all scores.

    It is compiled once for each dtype, each kind of mask and score, with and without gradients, and for few and many
    blocks: for one model more often than torch allows a function by default.
    """
    torch._dynamo.config.recompile_limit = max(VARIANTS, torch._dynamo.config.recompile_limit)
    return torch.compile(plain, dynamic=True, fullgraph=True)
