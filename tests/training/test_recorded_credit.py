"""What records keep of credit: the advantage of every token, and the log-probability of the learner."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
import torch

from gnomon.rollout.packing import pack
from gnomon.store.codec import floats_of
from gnomon.training.record import StepLog
from gnomon.types import Completion, Finish, Group, Part, Rollout, Sampling, Status, Stop, Task, Turn, Verdict

TASK = Task(id="t", messages=(), answer=None)
SHAPES = {
    "one turn": [[(3, 0)], [(2, 0)]],
    "several turns": [[(3, 0), (2, 0), (4, 0)], [(1, 0), (5, 0)]],
    "an empty turn": [[(2, 0), (0, 0), (3, 0)], [(1, 0)]],
    "a rewritten history": [[(2, 0), (3, 1), (1, 1)], [(4, 0), (2, 1)]],
}
"""Tokens and training sequence of each turn of each rollout of a group."""


def played(sample: int, turns: list[tuple[int, int]], base: int) -> Rollout:
    """A rollout whose tokens are numbered through."""
    ends = list(accumulate(size for size, _ in turns))
    found: list[Turn] = []
    for (size, fork), end in zip(turns, ends, strict=True):
        ids = tuple(range(base + end - size, base + end))
        same = [turn for turn in found if turn.fork == fork]
        prompt = (same[-1].prompt_ids + same[-1].completion.token_ids if same else ()) + (7,)
        logps = tuple(-token / 1024 for token in ids)
        done = Completion(token_ids=ids, logprobs=logps, text="", finish=Finish.STOP, version=0)
        found.append(Turn(prompt_ids=prompt, completion=done, fork=fork))
    verdict = Verdict(status=Status.CORRECT, parts=(Part(name="solved", value=float(sample)),))
    return Rollout(task=TASK, sample=sample, turns=tuple(found), verdict=verdict, stop=Stop.DONE)


def groups_of(shape: str) -> list[Group]:
    return [
        Group(
            task=TASK,
            index=index,
            spare=index == 1,
            rollouts=tuple(
                played(sample, turns, 100 * (1 + sample) + 1000 * index) for sample, turns in enumerate(SHAPES[shape])
            ),
        )
        for index in range(3)
    ]


def recorded(groups: list[Group], batch) -> dict[tuple[int, int], dict]:
    log = StepLog(0)
    log.rollouts(groups)
    log.credit(batch)
    return {(r.task, r.sample): r.body for r in log.records() if r.kind == "rollout"}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_token_has_its_own_advantage_and_log_probability(shape, exact):
    groups = groups_of(shape)
    batch = pack(groups, sampling=Sampling(max_tokens=8), exact=exact)
    own = batch.targets.double()
    bodies = recorded(groups, replace(batch, advantage=own / 8, proximal_logp=-own / 512))
    for (task, _), body in bodies.items():
        ids = body["token_ids"]
        if task == 1:
            assert body["advantage"] == 0.0 and "advantages" not in body and "proximal_logp" not in body
            continue
        assert body["advantage"] == pytest.approx(sum(ids) / 8 / len(ids), rel=1e-12)
        if len(ids) > 1:
            assert floats_of(body, "advantages") == [token / 8 for token in ids]
        assert ("proximal_logp" in body) is not exact
        if not exact:
            assert floats_of(body, "proximal_logp") == [-token / 512 for token in ids]
            assert len(body["proximal_logp"]) <= 4 * 4 * len(ids) / 3 + 4, "4 bytes each, in base64"


@pytest.mark.parametrize("shape", SHAPES)
def test_one_advantage_for_all_tokens_is_stored_once(shape):
    groups = groups_of(shape)
    batch = pack(groups, sampling=Sampling(max_tokens=8), exact=False)
    bodies = recorded(groups, replace(batch, advantage=torch.full((len(batch),), 0.3, dtype=torch.float64)))
    for (task, _), body in bodies.items():
        assert body["advantage"] == (0.0 if task == 1 else 0.3)
        assert "advantages" not in body and "proximal_logp" not in body
