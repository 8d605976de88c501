"""A greedy rollout of every task that is trained on: who has one, what it is, and where it is kept."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from gnomon.api import configure
from gnomon.envs.offers import players
from gnomon.keys import Key
from gnomon.rollout import pack
from gnomon.run.parts import build
from gnomon.store import RunReader
from gnomon.store.codec import decode, encode
from gnomon.training.step import rollout_stats
from gnomon.types import Group, Status, Verdict

SELECTORS = {"all": {}, "refill": {"refill": 2}, "candidates": {"candidates": 2}}


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("env", ["char_count", "guess_number", "nim"])
def test_every_group_to_train_on_has_one_of_its_task_and_player(env: str, selector: str) -> None:
    sizes = {"prompts": 3, "group": 2, "max_tokens": 10, **SELECTORS[selector]}
    parts = build(configure(env, {"objective": "remax", "rollout": sizes, "threads": 1, "steps": 2})[0])
    tasks = [(index, parts.env.tasks("train")[index]) for index in range(3)]

    async def collected(seed: int) -> list[Group]:
        await parts.actor.sync(parts.learner.publish(), 0)
        return await parts.actor.collect(tasks, Key(seed))

    try:
        groups, again = asyncio.run(collected(0)), asyncio.run(collected(1))
    finally:
        parts.actor.workers.close()
    kept = [group for group in groups if not group.spare]
    assert len(kept) == 3 * players(parts.env)
    assert all((group.greedy is None) == group.spare for group in groups)
    assert all(g.greedy.task == g.task and g.greedy.player == g.rollouts[0].player for g in kept)
    if env != "nim":  # The greedy reply to a prompt is the same whatever the key; nim draws who begins.
        first = {g.index: g.greedy.turns[0].completion.token_ids for g in kept}
        for group in (group for group in again if group.greedy and group.index in first):
            assert group.greedy.turns[0].completion.token_ids == first[group.index]
    records = [record for group in groups for record in encode(group, kind="rollout", step=0)]
    assert list(decode(records, lambda split, index: parts.env.tasks(split)[index])) == groups
    without = [replace(group, greedy=None) for group in groups]
    assert rollout_stats(groups) == rollout_stats(without), "it is counted"
    batch = pack(groups, sampling=parts.actor.sampling, exact=True)
    plain = pack(without, sampling=parts.actor.sampling, exact=True)
    assert batch.rollouts.greedy.tolist() == [[g.greedy.reward] * 2 for g in kept] and plain.rollouts.greedy is None
    assert batch.denominators == plain.denominators, "it is trained on"
    failed = replace(kept[0].greedy, verdict=Verdict(status=Status.FAILED, parts=()))
    assert kept[0].judged and not replace(kept[0], greedy=failed).judged


def test_a_run_records_it_and_its_credit_is_the_difference(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from gnomon import train

    run = tmp_path / "run"
    sizes = {"prompts": 4, "group": 1, "max_tokens": 10}
    train("char_count", objective="remax", rollout=sizes, steps=2, threads=1, eval={"tasks": 2}, run=str(run))
    with RunReader(run) as reader:
        groups = list(reader.groups())
        stored = [record.body["advantage"] for record in reader.records("rollout")]
        assert reader.count("greedy") == reader.count("rollout") == len(groups) == 8
        assert json.loads(json.dumps(next(reader.records("greedy")).body))["reward"] == groups[0].greedy.reward
    assert stored == [group.rewards[0] - group.greedy.reward for group in groups] and any(stored)
