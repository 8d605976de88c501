"""Rows that have said the same are one branch, and only branches pass through the model."""

from __future__ import annotations

import random

import pytest
import torch

from engines.asking import ask
from gnomon.engines.branches import Branches
from gnomon.engines.decoder import Decoder
from gnomon.engines.embedded import Embedded
from gnomon.models.attention import MIN_ROWS
from gnomon.types import Request, Sampling


@pytest.mark.parametrize("seed", range(20))
def test_every_row_stands_on_the_branch_of_what_it_sampled(seed):
    """Against texts kept by hand: what a slot holds is what its rows sampled, whatever was copied, moved or reused."""
    rng = random.Random(seed)
    branches, texts, slots, joined = Branches(), {}, {}, 0
    for _ in range(40):
        for _ in range(rng.choice((0, 0, 1, 5)) if texts else 4):
            texts[joined] = [(1, 2, 3)[: rng.randrange(1, 4)], []]
            branches.join(joined, texts[joined][0], len(texts[joined][1]))
            joined += 1
        ids, plan = branches.plan()
        slots = {**slots, **{to: slots[source] for source, to in plan.copied}}
        assert len(plan.group) == len(plan.depth) >= MIN_ROWS
        fed = ids[len(ids) - len(plan.group) :]
        for branch in branches:
            slots[branch.slot] = [*(slots[branch.slot] if branch.depth else []), fed[branch.slot]]
            assert plan.depth[branch.slot] == branch.depth == len(slots[branch.slot]) - 1
            assert plan.prompts[plan.group[branch.slot]] == len(branch.prompt.ids) - 1
            for row in branch.rows:
                prompt, text = texts[row]
                assert branch.prompt.ids == prompt and slots[branch.slot] == [prompt[-1], *text]
        grown = []
        for branch in branches:
            going = {}
            for row in branch.rows:
                texts[row][1].append(token := rng.choice((0, 0, 0, 1)))
                if rng.random() > 0.1:
                    going.setdefault(token, []).append(row)
                else:
                    del texts[row]
            grown.append(going)
        branches.grow(grown)
        assert sorted(row for branch in branches for row in branch.rows) == sorted(texts)


def test_what_rows_begin_to_say_alike_passes_through_the_model_once(policy, sample, monkeypatch):
    engine, passed = Embedded(policy), []
    whole = type(policy).hidden
    monkeypatch.setattr(
        type(policy), "hidden", lambda self, ids, layout: passed.append(len(ids)) or whole(self, ids, layout)
    )
    requests = [ask(policy, "7+8=", row, 12) for row in range(256)]
    completions = sample(engine, requests)
    texts = [completion.token_ids for completion in completions]
    started = [len({text[:place] for text in texts if len(text) > place}) for place in range(12)]
    assert passed[0] == len(requests[0].prompt_ids) - 1 + MIN_ROWS
    assert passed[1] == MIN_ROWS
    # A branch that nobody stands on any more leaves when a quarter are such.
    assert all(now <= max(MIN_ROWS, was / 0.75) for now, was in zip(passed[1:], started[1:], strict=False))
    assert sum(passed[1:]) < sum(map(len, texts)) / 2

    alone = [sample(engine, [request])[0] for request in requests[::32]]
    assert [c.token_ids for c in alone] == texts[::32]
    assert [c.logprobs for c in alone] == [c.logprobs for c in completions[::32]]


def test_rows_of_one_branch_may_differ_in_temperature(policy, sample):
    engine = Embedded(policy)
    requests = [ask(policy, "7+8=", row, 8, temperature=(0.0, 1.0, 0.5)[row % 3]) for row in range(12)]
    together = sample(engine, requests)
    alone = [sample(engine, [request])[0] for request in requests]
    assert together == alone and len({c.token_ids for c in together[::3]}) == 1
    assert not torch.tensor(together[0].logprobs).any()


@pytest.mark.parametrize(("prompt", "tokens", "places"), [(150, 70, 96), (5, 130, 160), (129, 300, 320)])
def test_keys_take_no_more_places_than_a_row_may_need(policy, prompt, tokens, places):
    """Whole spans of 128 tokens of the prompt are kept apart; tables grow in between by doubling."""
    decoder, seen = Decoder(policy), set()
    for row in range(3):
        key, sampling = bytes([row]) * 16, Sampling(max_tokens=tokens)
        decoder.admit(Request(prompt_ids=(5,) * prompt, key=key, sampling=sampling))
    while decoder.rows:
        decoder.step()
        seen.add(decoder._layout._own[0].keys.shape[2])
    assert max(seen) <= places
