"""Rows that have said the same are one branch, and only branches pass through the model."""

from __future__ import annotations

import random

import pytest
import torch

from engines.asking import ask
from gnomon.engines.branches import Branches
from gnomon.engines.embedded import Embedded
from gnomon.models.attention import MIN_ROWS


@pytest.mark.parametrize("seed", range(20))
def test_every_row_stands_on_the_branch_of_what_it_said(seed):
    rng = random.Random(seed)
    prompts = sorted(rng.randrange(3) for _ in range(rng.randint(1, 40)))
    branches = Branches(prompts, last=[10, 11, 12])
    said = [(prompt, 10 + prompt) for prompt in prompts]
    lives, texts = [True] * len(prompts), [(prompt, 10 + prompt) for prompt in branches.prompt]
    for _ in range(12):
        going = [row for row, live in enumerate(lives) if live]
        if not going:
            break
        assert [texts[branches.of[row]] for row in going] == [said[row] for row in going]
        assert branches.token == [text[-1] for text in texts]
        tokens = [rng.choice((0, 0, 0, 1)) for _ in lives]
        lives = [live and rng.random() > 0.1 for live in lives]
        going = [row for row, live in enumerate(lives) if live]
        if not going:
            break
        said = [(*text, token) for text, token in zip(said, tokens, strict=True)]
        parents = branches.grow(tokens, going)
        before = texts if parents is None else [texts[parent] for parent in parents]
        texts = [(*text, token) for text, token in zip(before, branches.token, strict=True)]
        if parents is None:  # Idle branches repeat themselves; what they hold is nobody's.
            texts = [text if at in {branches.of[row] for row in going} else text[-1:] for at, text in enumerate(texts)]
        assert branches.prompt == sorted(branches.prompt) and len(texts) >= MIN_ROWS
        if rng.random() < 0.3:
            branches.keep(going)
            said, lives = [said[row] for row in going], [True] * len(going)


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
    assert passed[1] == MIN_ROWS
    # A branch that nobody stands on any more leaves when a quarter are such.
    assert all(now <= max(MIN_ROWS, was / 0.75) for now, was in zip(passed[1:], started, strict=False))
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
