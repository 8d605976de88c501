"""Players: opponents that do not learn, what the past expects of each, matches in both orders, ratings."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import gnomon
from gnomon.engines import sample_all
from gnomon.engines.scripted import Scripted
from gnomon.envs import KuhnPoker
from gnomon.envs.kuhn_value import STATES, equilibrium, value
from gnomon.envs.workers import EnvWorkers
from gnomon.errors import ConfigError, RunError
from gnomon.keys import Key
from gnomon.models.folder import model_folder
from gnomon.models.past import Past
from gnomon.models.policy import Policy
from gnomon.models.precision import Precision
from gnomon.models.tokenizer import Tokenizer
from gnomon.models.weights import WeightsRef
from gnomon.objectives import Rollouts, across_players, objective
from gnomon.rendering import choose
from gnomon.rollout import Actor, Limits, pack
from gnomon.rollout.match import Match
from gnomon.rollout.opponents import Against
from gnomon.rollout.speakers import Own
from gnomon.run.display import Silent
from gnomon.run.saved import saved_policy
from gnomon.store import RunReader
from gnomon.types import Request, Sampling
from gnomon_lab.arena import contests
from gnomon_lab.rating import SCALE, fit, intervals, p_value
from gnomon_lab.strategy import REPLIES, prompts, read

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
    from gnomon.run.local import resume, start

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
    from gnomon.learners.local import LocalLearner
    from gnomon.rollout.credit import Crediting

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


def match() -> Match:
    engine = player(equilibrium())
    return Match(
        KuhnPoker(), TOKENIZER, engine, sampling=SAMPLING, workers=EnvWorkers(KuhnPoker(), workers=1), limits=Limits()
    )


@pytest.mark.long
def test_the_better_player_wins_and_the_gain_is_the_value_of_the_game():
    """What every pair gains is known by enumeration. Nobody beats an equilibrium, but who robs the weak more rates
    higher."""
    wild = {state: 1.0 for state in STATES}
    timid = {state: 0.0 for state in STATES}
    engines = {"sound": player(equilibrium(), 1), "wild": player(wild, 2), "timid": player(timid, 3)}
    table = match()
    result = contests(table, engines, games=1200, key=Key(0), progress=lambda done, total: None)
    table.workers.close()
    assert result.standings[-1].player == "timid"
    assert all(met.gain > 0 for met in result.meetings if met.one == "sound")
    known = {"sound": equilibrium(), "wild": wild, "timid": timid}
    for met in result.meetings:
        one, other = known[met.one], known[met.other]
        exact = value(one, other) - value(other, one)
        assert abs(met.gain - exact) <= 4 * met.error, (met, exact)
        assert met.games == 1200 and met.p < 0.05 and (met.gain > 0) == (exact > 0)
    for standing in result.standings:
        assert standing.low < standing.elo < standing.high and standing.games == 2400
    assert sum(standing.elo for standing in result.standings) == pytest.approx(0, abs=1e-6)


def test_a_match_is_the_same_every_time_and_equals_are_not_told_apart():
    def played() -> object:
        table = match()
        engines = {"a": player(equilibrium(0.1), 1), "b": player(equilibrium(0.1), 2)}
        result = contests(table, engines, games=200, key=Key(3), progress=lambda done, total: None)
        table.workers.close()
        return result

    result = played()
    assert result == played() and result.meetings[0].p > 0.05


def test_bradley_terry_is_the_maximum_of_its_likelihood():
    rng = np.random.default_rng(0)
    truth = np.array([0.8, 0.0, -0.8])
    scores = {
        (i, j): (rng.random(4000) < 1 / (1 + math.exp(truth[j] - truth[i]))).astype(float)
        for i, j in ((0, 1), (0, 2), (1, 2))
    }
    ratings = fit(3, scores)
    assert np.abs(ratings / SCALE - truth).max() < 0.1

    def likelihood(theta: np.ndarray) -> float:
        total = sum(0.5 * (np.log(1 / (1 + np.exp(-t))) + np.log(1 / (1 + np.exp(t)))) for t in theta)
        for (i, j), values in scores.items():
            p = 1 / (1 + np.exp(theta[j] - theta[i]))
            total += values.sum() * np.log(p) + (1 - values).sum() * np.log(1 - p)
        return float(total)

    best = likelihood(ratings / SCALE)
    for place in range(3):
        for step in (-0.01, 0.01):
            assert likelihood(ratings / SCALE + step * np.eye(3)[place]) < best
    spans = intervals(3, scores, Key(0), rounds=200)
    assert spans == intervals(3, scores, Key(0), rounds=200) != intervals(3, scores, Key(1), rounds=200)
    assert all(low < rating < high for (low, high), rating in zip(spans, ratings, strict=True))
    assert np.isfinite(fit(2, {(0, 1): np.ones(50)})).all()


def test_random_signs_find_no_difference_where_there_is_none():
    assert p_value([1.0, -1.0] * 20, Key(0)) == 1.0 and p_value([0.0] * 9, Key(0)) == 1.0
    assert p_value([1.0] * 20, Key(0)) == 1e-4
    rng = np.random.default_rng(1)
    low = [p_value(rng.normal(size=30).tolist(), Key(seed), rounds=199) <= 0.05 for seed in range(300)]
    # A level of 5 % over 300 trials: 15 are expected, and more than 27 come once in a thousand times.
    assert 4 <= sum(low) <= 27


def test_a_strategy_is_what_the_policy_says(tmp_path):
    """Against sampling: the share of bets among legal first replies, within four standard errors."""
    from gnomon.engines.embedded import Embedded

    policy = Policy.load("tiny")
    asked = prompts(policy)
    assert set(asked) == set(STATES)
    text = policy.tokenizer.decode(asked["q", "pb"])
    assert text.index("Card Q") < text.index(REPLIES["p"]) < text.index("They bet.")
    taught(policy, asked, bet=0.75)
    play = read(policy)
    assert play.least_legal > 0.5
    sampling = Sampling(max_tokens=8, stop=("</answer>",))
    requests = [
        Request(prompt_ids=asked["k", "p"], key=Key(0).at("x", n=n).bytes, sampling=sampling) for n in range(400)
    ]
    said = [c.text for c in asyncio.run(sample_all(Embedded(policy), requests))]
    counts = [sum(text == reply for text in said) for reply in REPLIES.values()]
    share, chance = counts[1] / sum(counts), play.bets["k", "p"]
    assert abs(share - chance) <= 4 * math.sqrt(chance * (1 - chance) / sum(counts))
    assert abs(sum(counts) / 400 - play.legal["k", "p"]) <= 4 * math.sqrt(0.25 / 400)
    assert 0 < play.exploitability < 1


def taught(policy: Policy, asked: dict[tuple[str, str], tuple[int, ...]], bet: float) -> None:
    """A few steps towards replies that bet this often."""
    from gnomon.models.scoring import packed_logp

    optimizer = torch.optim.Adam(policy.state().values(), lr=2e-3)
    replies = [policy.tokenizer.encode(text) for text in REPLIES.values()]
    rows = [(place, reply) for place in range(len(asked)) for reply in replies]
    weight = torch.tensor([w for _, reply in rows for w in [bet if reply == replies[1] else 1 - bet] * len(reply)])
    for _ in range(25):
        logp, _ = packed_logp(policy, list(asked.values()), rows)
        loss = -(weight * logp).sum() / len(asked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def place_of(name: str) -> Path:
    """The folder that the policy of a name is read from."""
    folder = saved_policy(name, Precision()).folder
    assert folder
    return folder


def test_players_are_found_by_run_and_step_and_told_when_they_are_not(tmp_path):
    with gnomon.train("kuhn_poker", run=tmp_path / "r", quiet=True, steps=2, save={"every": 1, "keep": 9}, **SMALL):
        pass
    assert place_of(str(tmp_path / "r")).name == "000002" and place_of(f"{tmp_path}/r:1").name == "000001"
    assert place_of("tiny") == model_folder("tiny")
    with pytest.raises(RunError, match=r"E185.*7"):
        place_of(f"{tmp_path}/r:7")
    (tmp_path / "r/checkpoints/000002/model.safetensors").write_bytes(b"torn")
    assert place_of(str(tmp_path / "r")).name == "000001"
    with RunReader(tmp_path / "r") as reader:
        assert reader.status == "finished"
    from typer.testing import CliRunner

    from gnomon.cli import app

    words = ["arena", f"{tmp_path}/r:1", "tiny", "--games", "8", "--json", "threads=1", "rollout.max_tokens=8"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    body = json.loads(result.stdout)
    assert {s["player"] for s in body["standings"]} == {f"{tmp_path}/r:1", "tiny"} and body["meetings"][0]["games"] == 8
