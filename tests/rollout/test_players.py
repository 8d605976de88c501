"""Players: opponents that do not learn, what the past expects of each, matches in both orders, ratings."""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import gnomon
from gnomon.engines.scripted import Scripted
from gnomon.envs import KuhnPoker
from gnomon.envs.kuhn_value import STATES, equilibrium
from gnomon.envs.workers import EnvWorkers
from gnomon.errors import ConfigError
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.past import Past
from gnomon.models.policy import Policy
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Rollouts, across_players, objective
from gnomon.rendering import choose
from gnomon.rollout import Actor, pack
from gnomon.rollout.opponents import Against
from gnomon.rollout.speakers import Own
from gnomon.run.display import Silent
from gnomon.types import Sampling

REPLIES = {"p": "<answer>pass</answer>", "b": "<answer>bet</answer>"}
TOKENIZER = Tokenizer(model_folder("tiny"))
SAMPLING = Sampling(max_tokens=16)
SMALL = {
    "threads": 1,
    "objective": "rae",
    "rollout": {"prompts": 6, "group": 2, "max_tokens": 8},
    "eval": {"every": 100, "tasks": 4},
    "audit": {"acknowledge": ["exploit.words"]},
}


def player(strategy: dict[tuple[str, str], float], seed: int = 0) -> Scripted:
    """Moves as a strategy says; its draws are those of the reply and of the player."""

    def reply(prompt: str, key: bytes) -> str:
        card = prompt.split("Card ")[1][0].lower()
        line = "pb" if "They bet.\n" in prompt else {"They p": "p", "They b": "b"}.get(prompt.split(". ", 2)[2][:6], "")
        return REPLIES["b" if random.Random(key + bytes([seed])).random() < strategy[card, line] else "p"]

    return Scripted(TOKENIZER, reply)


def test_one_player_learns_and_the_other_is_the_opponents():
    always = {state: 1.0 for state in STATES}
    never = {state: 0.0 for state in STATES}
    workers = EnvWorkers(KuhnPoker(), workers=1)
    engine, renderer = player(always), choose(TOKENIZER, turns=3)
    against = Against(Own(engine, renderer, 2), player(never), renderer, players=2)
    actor = Actor(KuhnPoker(), TOKENIZER, engine, group=3, sampling=SAMPLING, workers=workers, speakers=against)
    tasks = [(index, actor.env.tasks("train")[index]) for index in range(12)]
    groups = asyncio.run(actor.collect(tasks, Key(0)))
    again = asyncio.run(actor.collect(tasks, Key(0)))
    workers.close()
    assert len(groups) == len(tasks) and {group.rollouts[0].player for group in groups} == {0, 1}
    for group in groups:
        assert len({rollout.player for rollout in group.rollouts}) == 1
        # The opponent never bets, so a bet wins its chip whoever holds what.
        assert all(rollout.reward == 1 and "bet" in rollout.text for rollout in group.rollouts)
    assert [g.rollouts for g in groups] == [g.rollouts for g in again]
    other = asyncio.run(actor.collect(tasks[:0], Key(1)))
    assert other == []


def test_an_opponent_needs_a_player():
    renderer = choose(TOKENIZER, turns=3)
    with pytest.raises(ConfigError, match="E181"):
        Against(Own(player({}), renderer), player({}), renderer, players=1)


def weights(version: int) -> WeightsRef:
    tensors = {"w": torch.full((2,), float(version))}
    return WeightsRef(base="b", version=version, tensors=tensors, probe=(1, 2), probe_logp=(-0.1 * (version + 1),))


def test_the_past_keeps_the_first_and_the_newest(tmp_path):
    past = Past(every=2, keep=3)
    for version in range(9):
        past.remember(weights(version), version)
    assert list(past.held) == [0, 6, 8] and past.first.version == 0
    past.save_state(tmp_path)
    again = Past(every=2, keep=3)
    again.remember(weights(4), 4)
    again.load_state(tmp_path)
    assert list(again.held) == [0, 6, 8]
    assert all(torch.equal(again.held[v].read()["w"], past.held[v].read()["w"]) for v in past.held)
    assert all(replace(again.held[v], tensors={}) == replace(past.held[v], tensors={}) for v in past.held)
    drawn = {past.draw(Key(0).at("opponent", step=step).random(), 8).version for step in range(40)}
    assert drawn == {0, 6, 8}
    with pytest.raises(ValueError, match="at least"):
        Past(every=1, keep=1)


@pytest.mark.parametrize(("every", "keep", "lag"), [(1, 2, 1), (2, 3, 2), (3, 2, 5), (1, 4, 30)])
def test_what_can_be_drawn_as_of_a_step_does_not_depend_on_later_steps(every, keep, lag):
    """Within the lag: it is what a past without a lag holds in that step. No more is held than is needed for it."""
    ahead, seen = Past(every=every, keep=keep, lag=lag), []
    now = Past(every=every, keep=keep)
    for step in range(25):
        ahead.remember(weights(step), step)
        now.remember(weights(step), step)
        seen.append(list(now.held))
        for before in range(max(0, step - lag), step + 1):
            assert ahead.drawable(before) == seen[before]
            assert ahead.draw(Key(1).random(), before).version in seen[before]
        assert len(ahead.held) <= keep + -(-lag // every)


def test_what_is_remembered_stays_as_it_was():
    past, now = Past(every=1, keep=2), weights(0)
    past.remember(now, 0)
    now.read()["w"].fill_(7.0)
    assert past.first.read()["w"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("cut", [None, 3, 4, 10])
def test_the_past_counts_steps_and_not_versions(tmp_path, cut):
    """A step of the run is four optimiser steps, and the fourth is three: a group of it could not be judged."""
    past, version = Past(every=5, keep=3), 0
    for step in range(21):
        past.remember(weights(version), step)
        version += 3 if step == 3 else 4
        if step == cut:
            past.save_state(tmp_path)
            past = Past(every=5, keep=3)
            past.load_state(tmp_path)
    assert list(past.held) == [0, 15, 20]
    assert [held.version for held in past.held.values()] == [0, 59, 79]


@pytest.mark.parametrize("lag", [0, 2])
def test_a_run_against_its_past_is_the_same_when_it_is_resumed(tmp_path, lag):
    """Stopped after its first step and gone on with: the checkpoint brings the opponents along."""
    from gnomon.api import configure
    from gnomon.run.resume import resume
    from gnomon.run.start import start

    settings = {**SMALL, "steps": 4, "players": {"opponent": "past", "every": 1, "keep": 3}, "save": {"every": 2}}
    settings["rollout"] = {**SMALL.get("rollout", {}), "lag": lag}
    with gnomon.train("kuhn_poker", run=tmp_path / "whole", quiet=True, **settings) as reader:
        whole = reader.fingerprint
        assert len(reader.rollout_rows(step=1)) == 12, "half of the players learn"
    config, _ = configure("kuhn_poker", {**settings, "seconds": 1e-9})

    with start(tmp_path / "cut", config, Silent()) as reader:
        assert reader.status == "interrupted" and reader.steps == 1
    recipe = tmp_path / "cut" / "recipe.toml"
    recipe.write_text(re.sub("seconds = 1e-0?9", "seconds = inf", recipe.read_text()))
    with resume(tmp_path / "cut", Silent()) as reader:
        assert reader.status == "finished" and reader.fingerprint == whole
    held = sorted(path.name for path in (tmp_path / "cut/checkpoints/000004").glob("past-*"))
    assert held == [f"past-{step:08d}.safetensors" for step in ((0, 1, 2, 3) if lag else (0, 2, 3))]


def test_every_player_has_a_mean_of_its_own_unless_it_is_shared(tmp_path):
    from gnomon.learners.credit import Crediting
    from gnomon.learners.local import LocalLearner

    workers = EnvWorkers(KuhnPoker(), workers=1)
    actor = Actor(KuhnPoker(), TOKENIZER, player(equilibrium()), group=2, sampling=SAMPLING, workers=workers)
    tasks = [(index, actor.env.tasks("train")[index]) for index in range(8)]
    groups = asyncio.run(actor.collect(tasks, Key(0)))
    workers.close()
    batch, row = pack(groups, sampling=SAMPLING, exact=False), objective("rae")
    means = [np.mean([r for g in groups if g.rollouts[0].player == player for r in g.rewards]) for player in (0, 1)]
    assert means[0] == -means[1] != 0
    learner, (apart, shared) = (
        LocalLearner(Policy.load("tiny")),
        (Crediting(row, shared=kind) for kind in (False, True)),
    )
    for credit in (apart, shared):
        credit(batch, learner)
    assert apart.state.means == pytest.approx({0: 0.05 * means[0], 1: 0.05 * means[1]}, abs=1e-12)
    assert shared.state.means == pytest.approx({0: 0.0}, abs=1e-12)
    rewards = batch.rollouts.rewards.flatten().tolist()
    players = batch.rollouts.players.flatten().tolist()
    ready = apart(batch, learner)
    for rollout, advantage in zip(ready.rollout.tolist(), ready.advantage.tolist(), strict=True):
        assert advantage == pytest.approx(rewards[rollout] - 0.05 * means[players[rollout]], abs=1e-12)
    apart.save_state(tmp_path)
    shared.load_state(tmp_path)
    assert shared.state == apart.state


def test_a_shared_baseline_makes_one_group_of_the_players_of_a_deal():
    """Leave-one-out over both players, by hand: in a zero-sum game the others of a reward sum to its opposite."""
    rewards = torch.tensor([[1.0, -2.0, 1.0], [-1.0, 2.0, -1.0], [2.0, 2.0, -1.0], [-2.0, -2.0, 1.0]])
    lengths = torch.tensor([[1, 2, 1], [1, 1, 1], [0, 1, 1], [1, 1, 1]])
    players = torch.tensor([[0] * 3, [1] * 3] * 2)
    rollouts = Rollouts(
        rewards=rewards, lengths=lengths, player=players, answers=torch.tensor([[0, 1, 0], [0, 0, 1]] * 2)
    )
    shared = across_players(rollouts)
    assert shared.rewards.shape == (2, 6)
    assert torch.equal(objective("rloo").credits(shared), shared.spread(shared.rewards * 6 / 5).double())
    assert torch.equal(shared.sequence, rollouts.sequence)
    assert [len(set(row)) for row in shared.answers.tolist()] == [4, 4]  # A pass of one player is no pass of the other.
    apart = objective("rloo").credits(rollouts)
    assert apart[:4].tolist() == pytest.approx([1.5, -3.0, -3.0, 1.5])


@pytest.mark.parametrize("players", [[[0], [0]], [[0], [1], [1], [0]], [[0], [1], [0]], [[1], [1]]])
def test_rollouts_of_one_player_each_are_not_compared_across_players(players):
    table = torch.tensor(players)
    rollouts = Rollouts(rewards=torch.ones(table.shape), lengths=torch.ones_like(table), player=table)
    assert across_players(rollouts) is rollouts
