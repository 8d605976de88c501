"""Keys: published vectors, NumPy's stream, addresses, uniformity."""

import os
import random
import subprocess
import sys
from enum import StrEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.keys import MASK, Key, philox4x64

VECTORS = [
    ("0 0 0 0", "0 0", "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
    (
        "ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff",
        "ffffffffffffffff ffffffffffffffff",
        "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0",
    ),
    (
        "243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89",
        "452821e638d01377 be5466cf34e90c6c",
        "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
    ),
]
"""Counter, key and output of Philox4x64-10 in the known-answer file of Random123."""
WORD = st.integers(0, MASK)
KEYS = [Key(0), Key(7).at("rollout", step=3, task=7, sample=2), Key(2**70).at("a").at("b", x="y")]


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in text.split())


def by_numpy(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy counts up before its first block."""
    place = sum(word << 64 * i for i, word in enumerate(counter))
    generator = np.random.Philox(counter=(place - 1) % 2**256, key=key[0] | key[1] << 64)
    return tuple(map(int, generator.random_raw(4)))


@pytest.mark.parametrize(("counter", "key", "output"), VECTORS)
def test_published_vectors(counter: str, key: str, output: str) -> None:
    assert philox4x64(numbers(counter), numbers(key)) == numbers(output)  # type: ignore[arg-type]
    assert by_numpy(numbers(counter), numbers(key)) == numbers(output)


@given(st.tuples(WORD, WORD, WORD, WORD), st.tuples(WORD, WORD))
def test_any_block_is_numpys(counter: tuple[int, int, int, int], key: tuple[int, int]) -> None:
    assert philox4x64(counter, key) == by_numpy(counter, key)


@pytest.mark.parametrize("key", KEYS)
def test_the_stream_is_numpys_word_for_word_and_double_for_double(key: Key) -> None:
    low, high = key.words
    mine, theirs = key.random(), np.random.Philox(key=low | high << 64)
    assert [mine.getrandbits(64) for _ in range(41)] == list(map(int, theirs.random_raw(41)))
    mine, generator = key.random(), np.random.Generator(np.random.Philox(key=low | high << 64))
    assert [mine.random() for _ in range(41)] == list(generator.random(41))


def test_addresses_are_pinned() -> None:
    """A changed derivation would silently change every task and every run."""
    assert Key(0).bytes.hex() == "8ecd41285877daa2b39236cee75e7acc"
    assert Key(7).at("rollout", step=3, task=7, sample=2).bytes.hex() == "84fab8cba6e96b9cb867f44870ae56d5"
    assert Key(7).at("rollout", step=3, task=7, sample=2).integer() == 5635679697508269378


def test_the_order_of_coordinates_does_not_matter() -> None:
    assert Key(1).at("rollout", step=3, task=7) == Key(1).at("rollout", task=7, step=3)


def test_every_part_of_an_address_matters() -> None:
    keys = [
        Key(0), Key(1), Key(0).at("a"), Key(1).at("a"), Key(0).at("b"), Key(0).at("a").at("b"), Key(0).at("ab"),
        Key(0).at("b").at("a"), Key(0).at("a", x=1), Key(0).at("a", x=2), Key(0).at("a", y=1), Key(0).at("a", x=1, y=1),
        Key(0).at("a", x="1"), Key(0).at("a", x=11), Key(0).at("a", x=1).at("y=1"), Key(0).at("a", x="1/y=1"),
        Key(0).at("a", x=-1), Key(0).at("a", x="1'/y='1"), Key(0).at("a", x="1", y="1"),
    ]  # fmt: skip
    assert len({key.bytes for key in keys}) == len(keys)


class Split(StrEnum):
    TRAIN = "train"


def test_a_numpy_integer_and_an_enum_are_the_number_and_the_text() -> None:
    assert Key(0).at("a", x=int(np.int64(3))) == Key(0).at("a", x=np.int64(3))  # type: ignore[arg-type]
    assert Key(0).at("a", split="train") == Key(0).at("a", split=Split.TRAIN)


@pytest.mark.parametrize("purpose", ["a/x=1", "a\x1fb"])
def test_a_purpose_that_could_be_another_address_is_refused(purpose: str) -> None:
    with pytest.raises(ValueError, match="purpose"):
        Key(0).at(purpose)


def test_a_coordinate_that_is_no_whole_number_is_refused() -> None:
    with pytest.raises(TypeError):
        Key(0).at("a", x=0.5)  # type: ignore[arg-type]


def test_the_hash_seed_changes_nothing() -> None:
    code = "from gnomon.keys import Key; r = Key(3).at('a', x=1, y='b').random(); print(r.sample(range(99), 9))"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in "12"
    }
    assert said == {f"{Key(3).at('a', x=1, y='b').random().sample(range(99), 9)}\n".encode()}


def test_a_stream_depends_on_nothing_drawn_elsewhere() -> None:
    key = Key(5).at("a")
    alone = [key.random().random() for _ in range(1)]
    random.seed(0)
    other = Key(5).at("b").random()
    mixed = key.random()
    other.random()
    assert [mixed.random()] == alone


@pytest.mark.parametrize("bits", [0, 1, 8, 63, 64, 65, 128, 200])
def test_bits_have_the_asked_width(bits: int) -> None:
    drawn = [Key(0).at("bits", draw=i).random().getrandbits(bits) for i in range(200)]
    assert all(0 <= value < 2**bits for value in drawn)
    if bits:
        assert max(value.bit_length() for value in drawn) == bits


def test_draws_are_uniform() -> None:
    """χ² of 20,000 draws in 20 cells, and of the same cell over 20,000 neighbouring addresses.

    19 degrees of freedom: a fair stream stays below 43.8 with probability 0.999; the keys are fixed.
    """
    rng = Key(11).at("uniform").random()
    along = [rng.randrange(20) for _ in range(20_000)]
    across = [int(Key(11).at("uniform", index=i).random().random() * 20) for i in range(20_000)]
    for draws in (along, across):
        counts = np.bincount(draws, minlength=20)
        assert float(((counts - 1000) ** 2 / 1000).sum()) < 43.8


def test_neighbouring_streams_are_uncorrelated() -> None:
    """Correlation of 20,000 pairs: its standard error is 0.0071, the bound five of them."""
    first = [Key(0).at("task", index=i).random().random() for i in range(20_000)]
    assert abs(float(np.corrcoef(first[:-1], first[1:])[0, 1])) < 0.036


def test_the_standard_methods_work_and_state_does_not_travel() -> None:
    rng = Key(0).random()
    deck = list(range(10))
    rng.shuffle(deck)
    assert sorted(deck) == list(range(10)) and rng.choice(deck) in deck
    before = Key(0).random()
    before.seed(99)
    assert before.random() == Key(0).random().random(), "a key's stream cannot be re-seeded"
    with pytest.raises(NotImplementedError):
        rng.getstate()
    with pytest.raises(NotImplementedError):
        rng.setstate(())
