"""NumPy's Philox stream by integer operations of torch: the same numbers on every device, from any position."""

from __future__ import annotations

import torch
from torch import Tensor

from gnomon.keys import MULTIPLY, WEYL

__all__ = ["uniform", "words"]

LOW = (1 << 32) - 1


def uniform(key: Tensor, start: Tensor, count: int) -> Tensor:
    """[B, count] uniform numbers of 53 bits, float64: `Generator(Philox(key)).random()` in every bit.

    Args: key: [B, 2] int64, the words of each stream's key; start: [B] int64, how many numbers of it are skipped.
    """
    blocks = (count + 6) // 4  # The first number may be the last of its block.
    at = torch.arange(count, device=key.device) + (start & 3)[:, None]
    integers = words((start >> 2)[:, None] + torch.arange(1, blocks + 1, device=key.device), key).gather(1, at)
    return high(integers, 11).double().mul_(2.0**-53)


def words(block: Tensor, key: Tensor) -> Tensor:
    """[B, 4n] the words of some blocks of each stream, as int64 of the same bits.

    Torch multiplies int64 modulo 2**64, and the upper half of a product is put together from products of 32 bits. The
    ten rounds compute both products of a round together.

    Args: block: [B, n] int64, counters below 2**63; key: [B, 2] int64.
    Source: Salmon et al. 2011 (Philox4x64-10), as `gnomon.keys.philox4x64`.
    """
    factor = torch.tensor([to_int64(word) for word in MULTIPLY], device=block.device).view(2, 1, 1)
    weyl = torch.tensor([to_int64(word) for word in WEYL], device=block.device).view(2, 1, 1)
    first = torch.stack([block, torch.zeros_like(block)])
    """The words a and c of every counter; `second` has b and d."""
    second = torch.zeros_like(first)
    round_key = key.t()[:, :, None].contiguous()
    for _ in range(10):
        upper = upper_half(first, factor).flip(0)
        lower = (first * factor).flip(0)
        first, second = upper.bitwise_xor_(second).bitwise_xor_(round_key), lower
        round_key = round_key + weyl
    return torch.stack([first[0], second[0], first[1], second[1]], -1).flatten(1)


def upper_half(value: Tensor, factor: Tensor) -> Tensor:
    """The upper 64 bits of unsigned products of 128 bits."""
    low, upper = value & LOW, high(value, 32)
    factor_low, factor_high = factor & LOW, high(factor, 32)
    middle = high(low * factor_low, 32).add_(low.mul_(factor_high))
    carry = (upper * factor_low).add_(middle & LOW)
    return upper.mul_(factor_high).add_(high(middle, 32)).add_(high(carry, 32))


def high(value: Tensor, bits: int) -> Tensor:
    """A shift to the right that fills with zeros; torch's own repeats the sign."""
    return (value >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def to_int64(word: int) -> int:
    """The int64 of the same 64 bits."""
    return word - (1 << 64) if word >> 63 else word
