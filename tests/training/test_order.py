"""The order of the batches, apart from everything else that a seed decides."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import gnomon
from gnomon.config import RunConfig, overrides, resolve
from gnomon.envs import CharCount
from gnomon.rejudge.replay import replay
from gnomon.run.manifest import opening
from gnomon.run.order import reorder
from gnomon.store import RunReader

STEPS = 4


def test_an_order_is_a_permutation_that_its_seed_decides() -> None:
    assert list(reorder(0, 50)) == list(range(50))
    orders = {seed: list(reorder(seed, 50)) for seed in range(1, 20)}
    assert all(sorted(order) == list(range(50)) for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) == 19 and orders[3] == list(reorder(3, 50))


def test_the_first_record_of_a_run_in_the_usual_order_is_what_it_was() -> None:
    def body(*words: str) -> Any:
        return opening(resolve([overrides(["env=char_count", *words])])[0], CharCount())["config"]["rollout"]

    assert "order_seed" not in body() and RunConfig().rollout.order_seed == 0
    assert body("rollout.order_seed=3") == {**body(), "order_seed": 3}


def batches(reader: RunReader) -> dict[int, list[Any]]:
    """By step: each rollout's task, its text and its log-probabilities."""
    found: dict[int, list[Any]] = defaultdict(list)
    ids: dict[tuple[int, int], str] = {}
    for record in reader.records():
        if record.kind == "task" and record.body["of"] == "rollout":
            ids[record.step or 0, record.task or 0] = record.body["id"]
        elif record.kind == "rollout":
            name = ids[record.step or 0, record.task or 0]
            found[record.step or 0].append((record.task, name, record.sample, record.body["reply"]))
    return found


@pytest.mark.parametrize("lag", [0, 1])
def test_the_same_batches_are_trained_in_another_order(tmp_path: Path, lag: int) -> None:
    """At a learning rate that rounds to nothing, equal random numbers sample equal replies."""

    def trained(order: int) -> RunReader:
        return gnomon.train(
            "char_count", run=tmp_path / str(order), quiet=True, steps=STEPS, prompts=2, group=2, lr=1e-30,
            rollout={"max_tokens": 12, "order_seed": order, "lag": lag}, workers={"count": 1},
            objective="tis", eval={"tasks": 2, "every": STEPS},
        )  # fmt: skip

    order = next(seed for seed in range(1, 100) if reorder(seed, STEPS)[0] != 0 and reorder(seed, STEPS)[1] != 1)
    with trained(0) as usual, trained(order) as other:
        before, after = batches(usual), batches(other)
        assert {step: before[place] for step, place in enumerate(reorder(order, STEPS))} == after != before
        assert usual.baseline == other.baseline and usual.held_out == other.held_out
    found = replay(tmp_path / str(order))
    assert found.judged > 0 and not found.flips
