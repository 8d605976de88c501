"""Random streams addressed by name. A draw depends only on its address, not on time or batch order.

A `Key` is a path of names under a run's seed. It names one stream of Philox4x64-10, a counter-based
generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), so no draw depends
on another and nothing about randomness needs saving in a checkpoint.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

__all__ = ["Key", "philox4x64"]

MASK = (1 << 64) - 1
MULTIPLY = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
SEPARATORS = frozenset("/\x1f")
Block = tuple[int, int, int, int]


def philox4x64(counter: Block, key: tuple[int, int]) -> Block:
    """The ten-round Philox bijection of four 64-bit words under a 128-bit key."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        left, right = MULTIPLY[0] * a, MULTIPLY[1] * c
        a, b, c, d = (right >> 64) ^ b ^ k0, right & MASK, (left >> 64) ^ d ^ k1, left & MASK
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return a, b, c, d


@dataclass(frozen=True, slots=True)
class Key:
    """The address of a random stream.

    `Key(seed).at("rollout", step=3, task=7, sample=2)` is one stream; every other address is an
    independent one. Coordinates are sorted by name, so their order in the call does not matter.
    """

    seed: int
    path: tuple[str, ...] = ()

    def at(self, purpose: str, **coordinates: int | str) -> Key:
        """The key below this one for a purpose and its coordinates.

        Raises: TypeError for a coordinate that is neither text nor a whole number; ValueError for a purpose
        that could be taken for another address.
        """
        if not SEPARATORS.isdisjoint(purpose):
            raise ValueError(f"purpose {purpose!r} contains a character that separates the parts of an address")
        names = [f"{name}={_plain(coordinates[name])!r}" for name in sorted(coordinates)]
        return Key(self.seed, (*self.path, "/".join([purpose, *names])))

    @property
    def bytes(self) -> bytes:
        """The 128-bit Philox key of this address."""
        text = "\x1f".join(["gnomon-key-1", str(self.seed), *self.path])
        return blake2b(text.encode(), digest_size=16).digest()

    @property
    def words(self) -> tuple[int, int]:
        raw = self.bytes
        return int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")

    def integer(self) -> int:
        """A 63-bit seed, for libraries that need one."""
        return self.words[0] >> 1

    def random(self) -> random.Random:
        """A generator with the standard library's methods, backed by this key's stream."""
        return PhiloxRandom(self.words)


def _plain(value: int | str) -> int | str:
    """The value as Python's own int or str, so that a NumPy integer or an enum addresses the same stream."""
    return str(value) if isinstance(value, str) else operator.index(value)


class PhiloxRandom(random.Random):
    """`random.Random` over a Philox stream: `choice`, `shuffle`, `sample` … read it word by word."""

    def __init__(self, words: tuple[int, int]) -> None:
        self._stream = self._words(words)
        super().__init__(0)

    @staticmethod
    def _words(key: tuple[int, int]) -> Iterator[int]:
        block = 0
        while True:
            # Counting starts at 1, as NumPy's Philox does, so the two streams are equal word for word.
            block += 1
            yield from philox4x64((block & MASK, block >> 64, 0, 0), key)

    def random(self) -> float:
        return (next(self._stream) >> 11) * 2.0**-53

    def getrandbits(self, k: int) -> int:
        value = 0
        for shift in range(0, k, 64):
            value |= next(self._stream) << shift
        return value & ((1 << k) - 1)

    def seed(self, *_: Any, **__: Any) -> None:
        """A key's stream cannot be re-seeded; ask the `Key` for another one."""

    def getstate(self) -> Any:
        raise NotImplementedError("keep the Key instead of a generator's state")

    def setstate(self, state: Any) -> None:
        raise NotImplementedError("keep the Key instead of a generator's state")
