"""In which order the processes of a learner take the micro-batches."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from gnomon import learners
from gnomon.learners import together
from gnomon.learners.batch import costliest_first, costs, pieces
from gnomon.learners.together import own_rounds
from learners.sequences import made


def row(ids: Sequence[int], prompt: int, group: int = 0) -> learners.TokenSequence:
    """A sequence of one turn. Its last token does not pass through the model."""
    return made(ids[:prompt], ids[prompt:], rollout=0, group=group)


def rounds_of(monkeypatch: pytest.MonkeyPatch, prices: list[float], world: int) -> list[list[tuple[int, int]]]:
    """What every rank takes, round after round."""
    found = []
    for rank in range(world):
        monkeypatch.setattr(together.dist, "get_rank", lambda rank=rank: rank)
        monkeypatch.setattr(together.dist, "get_world_size", lambda: world)
        found.append(list(own_rounds(prices)))
    return found


def test_a_shared_prompt_costs_once_and_attention_costs_by_length() -> None:
    """By hand: 10 tokens of the first row, 4 more of the second, each reading all tokens of its row; width 2."""
    first, second = row([*range(11)], 6), row([*range(6), 20, 21, 22, 23, 24], 6)
    other = row([*range(100, 109)], 3)
    found = costs([first, second, other], [[0, 1], [2]], width=2)
    assert found == pytest.approx([10 * (1 + 10 / 24) + 4 * (1 + 10 / 24), 8 * (1 + 8 / 24)])


def test_a_long_row_costs_more_than_short_ones_with_as_many_tokens() -> None:
    """At 12 times the width, attention costs as much as the products of the layers."""
    width = 8
    long, short = row([*range(97)], 1), [row([k * 1000 + i for i in range(13)], 1) for k in range(8)]
    one, many = costs([long, *short], [[0], [*range(1, 9)]], width)
    assert one == pytest.approx(2 * 96) and many == pytest.approx(96 * (1 + 12 / 96))


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 16, 33])
def test_every_micro_batch_is_taken_once_and_rounds_are_as_short_as_in_any_order(monkeypatch, world, count) -> None:
    """A round lasts as long as its most expensive micro-batch. Compared with all orders, or with 500 random ones."""
    rng = random.Random(count)
    prices = [rng.lognormvariate(0, 1) for _ in range(count)]
    ranks = rounds_of(monkeypatch, prices, world)
    assert sorted(cut for rank in ranks for cut, real in rank if real) == list(range(count))
    assert {len(rank) for rank in ranks} == {math.ceil(count / world)}
    cheapest = min(range(count), key=prices.__getitem__, default=None)
    assert all(cut == cheapest for rank in ranks for cut, real in rank if not real)

    def lasts(order: list[int]) -> float:
        return sum(max(prices[cut] for cut in order[at : at + world]) for at in range(0, count, world))

    spent = sum(max(prices[cut] for cut, _ in taken) for taken in zip(*ranks, strict=True))
    assert spent == pytest.approx(lasts(costliest_first(prices)))
    for _ in range(500):
        order = list(range(count))
        rng.shuffle(order)
        assert spent <= lasts(order) + 1e-9


def test_equal_costs_keep_their_order(monkeypatch) -> None:
    assert costliest_first([1.0, 2.0, 1.0, 2.0]) == [1, 3, 0, 2]
    assert rounds_of(monkeypatch, [1.0] * 3, 2) == [[(0, 1), (2, 1)], [(1, 1), (2, 0)]]


def test_cuts_of_unequal_rows_are_counted_without_a_model() -> None:
    """The cost of all micro-batches is that of all rows, whatever the cut, where rows share nothing."""
    rng = random.Random(1)
    rows = [row([1000 * k + i for i in range(rng.randint(4, 200))], 2, group=k) for k in range(30)]
    alone = sum(costs(rows, [[place] for place in range(30)], 16))
    for tokens in (1, 100, 1000, 10**6):
        assert sum(costs(rows, pieces(rows, tokens), 16)) == pytest.approx(alone)
