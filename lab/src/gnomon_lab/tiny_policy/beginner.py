"""A policy that plays Kuhn poker as a beginner does, for self-play to start from: `tiny` does not know the moves."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from pathlib import Path

from gnomon.envs.kuhn_value import CARDS, STATES
from gnomon.keys import Key
from gnomon.learners.credit import Crediting
from gnomon.learners.local import LocalLearner
from gnomon.models.policy import Policy
from gnomon.objectives import objective
from gnomon.rollout import pack
from gnomon.training.schedule import Schedule
from gnomon.types import Completion, Finish, Group, Rollout, Sampling, Status, Stop, Task, Turn, Verdict
from gnomon_lab.strategy import REPLIES, State, prompts

__all__ = ["beginner"]

EACH = 20
"""Replies in every state."""
WAYS, SHORT, LONG = 8, 40, 300
"""Ways of playing that are drawn at random, the steps on each, and the steps on the beginner's."""


def beginner(folder: Path) -> Path:
    """Write a model folder whose policy bets with J, Q and K two, five and eight times in ten, whatever came before.

    It is fitted to eight random ways of playing first. A policy that does not distinguish the twelve states changes its
    moves in all of them together, and self-play then leads to a policy that always bets.
    """
    policy = Policy.load("tiny")
    learner, schedule = LocalLearner(policy), Schedule(lr=1e-3, steps=WAYS * SHORT)
    for way in range(WAYS):
        rng = Key(0).at("way", index=way).random()
        fit(learner, {state: rng.choice((1, EACH - 1)) for state in STATES}, SHORT, schedule)
    bets = {(card, line): 4 + 6 * CARDS.index(card) for card, line in STATES}
    fit(LocalLearner(policy), bets, LONG, Schedule(lr=1e-3, steps=LONG, min_lr_ratio=0.02))
    policy.save(folder)
    return folder


def fit(learner: LocalLearner, bets: Mapping[State, int], steps: int, schedule: Schedule) -> None:
    """Raise the likelihood of so many bets of 20 replies in every state; the other replies pass."""
    groups, row, encode = [], objective("sft"), learner.policy.tokenizer.encode
    for index, (state, asked) in enumerate(prompts(learner.policy).items()):
        task = Task(id=f"{index}", messages=(), answer=None)
        for text in [REPLIES["b"]] * bets[state] + [REPLIES["p"]] * (EACH - bets[state]):
            ids = encode(text)
            completion = Completion(token_ids=ids, logprobs=(nan,) * len(ids), text=text, finish=Finish.STOP, version=0)
            turn = Turn(prompt_ids=asked, completion=completion)
            verdict = Verdict(status=Status.UNJUDGED, parts=())
            rollout = Rollout(task=task, sample=0, turns=(turn,), stop=Stop.DONE, verdict=verdict)
            groups.append(Group(task=task, index=index, rollouts=(rollout,)))
    for _ in range(steps):
        batch = Crediting(row)(pack(groups, sampling=Sampling(max_tokens=8), exact=False), learner)
        learner.forward_backward(batch, row)
        learner.optim_step(schedule(learner.version + 1))
